"""Looks at a Redis store for doctor: is it there, does it keep jobs, what is in it. It writes nothing."""

from collections.abc import Iterator
from contextlib import closing

from redis.exceptions import NoPermissionError, ResponseError

from standfast.clock import Clock
from standfast.core.record import Kind as RecordKind
from standfast.errors import StoreError
from standfast.store.examination import Census, DueQueue, Examination, Finding, UnknownTask, is_hopeless
from standfast.store.redis.address import Address, Kind, Place, parse_address
from standfast.store.redis.backend import RedisBackend, key_prefix
from standfast.store.redis.connect import open_connection
from standfast.store.redis.durability import Said, judge_server
from standfast.store.redis.existing import is_used, where_said
from standfast.store.redis.locator import locator_of
from standfast.store.redis.rows import pairs, to_task
from standfast.store.redis.store import RedisStore
from standfast.store.redis.translate import Translated
from standfast.store.redis.versions import parse_info, refuse_old
from standfast.store.redis.wire import Wire
from standfast.store.times import from_micros, from_micros_or_none
from standfast.store.verb import Access, Script, Steps, Verb

_TIMEOUT = 5.0
_SETTINGS = (
    "appendonly",
    "appendfsync",
    "no-appendfsync-on-rewrite",
    "save",
    "maxmemory",
    "maxmemory-policy",
    "min-replicas-to-write",
    "min-replicas-max-lag",
)
_VITAL = frozenset({"redis", "store", "cluster", "replicas"})
"""A problem with one of these keeps everybody out."""


def examine_redis(url: str, namespace: str | None, clock: Clock | None, *, deep: bool) -> Examination:
    """Return what a look at the store on this server brings. A `deep` look finds nothing more."""
    del deep
    address = parse_address(url)
    findings: list[Finding] = []
    census = None
    try:
        with Translated(address, _TIMEOUT):
            findings += _look(address, namespace)
        if not is_hopeless(findings, _VITAL):
            with closing(RedisBackend(url, clock=clock, namespace=namespace, timeout=_TIMEOUT)) as backend:
                census = backend.run(Verb("census", Access.READ, _census(backend.verbs)))
    except StoreError as error:
        findings.append(Finding.of_error("store", error))
    return Examination.of(findings, _VITAL, census)


def _look(address: Address, namespace: str | None) -> Iterator[Finding]:
    place = locator_of(address, key_prefix(namespace), _TIMEOUT).find()
    with closing(open_connection(address, place, _TIMEOUT)) as connection:
        try:
            info = parse_info(connection.ask("INFO"))
        except NoPermissionError:
            yield _unseen(address)
            return
        yield _server(info, address, place)
        if info.get("cluster_enabled") == "1":
            yield _cluster(connection, address)
        yield from judge_server(Said(info, _settings(connection)))
        yield _contents(namespace, used=is_used(connection, namespace))


def _contents(namespace: str | None, *, used: bool) -> Finding:
    where = where_said(namespace)
    if used:
        return Finding.ok("store", f"holds jobs of Standfast {where}")
    return Finding.warning(
        "store",
        f"nothing of Standfast is there yet {where}",
        "give the right store with --url and --namespace, if jobs should be there; else the first one makes it",
    )


def _unseen(address: Address) -> Finding:
    return Finding.warning(
        "redis",
        f"{address.name} answers, but this user may not see its version nor how it keeps data",
        "`ACL SETUSER <user> +info +config|get` lets it, or let an administrator run doctor",
    )


def _server(info: dict[str, str], address: Address, place: Place) -> Finding:
    try:
        refuse_old(info, address)
    except StoreError as error:
        return Finding.of_error("redis", error)
    valkey = info.get("valkey_version")
    version = f"Valkey {valkey}" if valkey else f"Redis {info.get('redis_version', 'of unknown version')}"
    where = "" if address.places == (place,) else f", now at {place}"
    return Finding.ok("redis", f"{version}, {address.name}{where}")


def _cluster(connection: Wire, address: Address) -> Finding:
    info = parse_info(connection.ask("CLUSTER", "INFO"))
    state = info.get("cluster_state", "unknown")
    if state != "ok":
        return Finding.problem(
            "cluster", f"cluster_state is {state}", "mend what `redis-cli --cluster check` shows"
        )
    if address.kind is not Kind.CLUSTER:
        return Finding.warning(
            "cluster",
            "this is one node of a cluster: it is not found again when the slot of the jobs moves to another",
            "write redis+cluster:// in the URL",
        )
    nodes = info.get("cluster_size", "?")
    return Finding.ok("cluster", f"{nodes} masters; all jobs of a namespace are in one slot, and so on one of them")


def _settings(connection: Wire) -> dict[str, str]:
    """Return the settings that matter, none where this user may not read them or the server hides them."""
    try:
        answers = [connection.ask("CONFIG", "GET", name) for name in _SETTINGS]
    except ResponseError:
        return {}
    return {answer[0].decode(): answer[1].decode() for answer in answers if answer}


def _census(verbs: RedisStore) -> Steps[Census]:
    workers = yield from verbs.workers().steps
    windows = yield from verbs.records(RecordKind.WINDOW).steps
    incidents = yield from verbs.records(RecordKind.INCIDENT).steps
    board = yield from verbs.records(RecordKind.BOARD).steps
    now, latest, queues, unknown, dead = yield Script("census")
    due = tuple(
        DueQueue(name.decode(), from_micros_or_none(paused and int(paused)), count, from_micros(int(oldest)))
        for name, count, oldest, paused in queues
    )
    seen = [worker.started_at for worker in workers] + ([from_micros(int(latest))] if latest else [])
    aside = ((to_task(word), int(jobs)) for word, jobs in pairs(unknown))
    put_aside = tuple(UnknownTask(*row) for row in sorted((task.name, task.version, jobs) for task, jobs in aside))
    latest_at = max(seen, default=None)
    return Census(from_micros(int(now)), workers, due, latest_at, windows, put_aside, dead, incidents, board)
