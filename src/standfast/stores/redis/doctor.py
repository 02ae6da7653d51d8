"""What `standfast doctor` finds out about a Redis store.

Looking must not mistake an empty place for a store: where nobody ever left anything is none.
"""

from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass

from redis.exceptions import NoPermissionError, ResponseError

from standfast.errors import StoreError, StoreUnavailableError
from standfast.model.clock import Clock
from standfast.model.records import Kind as RecordKind
from standfast.stores.doctor import Census, DueQueue, Examination, Finding, UnknownTask, is_hopeless, sized
from standfast.stores.redis.connect import Wire, locator_of, open_connection
from standfast.stores.redis.engine import parse_info, refuse_old
from standfast.stores.redis.rows import pairs, to_task
from standfast.stores.redis.store import RedisBackend, RedisStore, key_prefix
from standfast.stores.redis.translate import Translated
from standfast.stores.redis.url import Address, Endpoint, Kind, parse_address
from standfast.stores.rows import from_micros, from_micros_or_none
from standfast.stores.verb import Access, Script, Steps, Verb

_TRACES = ("arrivals", "hires", "paused")
"""Keys of which the first job or record, the first worker or a pause leaves one; base.lua says what they hold."""


def is_used(connection: Wire, namespace: str | None) -> bool:
    """Tell whether anybody ever enqueued, worked, scheduled or paused there."""
    prefix = key_prefix(namespace)
    return bool(connection.ask("EXISTS", *(f"{prefix}:{trace}" for trace in _TRACES)))


def where_said(namespace: str | None) -> str:
    """Return which part of a database is meant, for a message."""
    return f"in namespace {namespace}" if namespace else "outside of namespaces"


def refuse_missing_keys(url: str, namespace: str | None, timeout: float) -> None:
    """Raise StoreUnavailableError unless something is there."""
    address, prefix = parse_address(url), key_prefix(namespace)
    with Translated(address, timeout):
        place = locator_of(address, prefix, timeout).find()
        with closing(open_connection(address, place, timeout)) as connection:
            found = is_used(connection, namespace)
    if not found:
        raise StoreUnavailableError(
            f"Redis {address.name} holds no jobs of Standfast {where_said(namespace)}; give the right store with"
            " --url and --namespace (it is made when a job is first enqueued or a worker starts)"
        )


# What the settings of a server mean for the promise that no accepted job is lost. Pure.

_NEARLY_FULL = 0.9
_FULL_SOON = 0.75
_HEEDS_SCRIPTS = 7
_KEEP = "`CONFIG SET appendonly yes` and `CONFIG SET appendfsync always`, then `CONFIG REWRITE`"
_ALWAYS = "where that is too much: `CONFIG SET appendfsync always`, then `CONFIG REWRITE`; writes then take longer"


@dataclass(frozen=True, slots=True)
class Said:
    """What a server says of itself. Settings are empty where this user may not read them."""

    info: Mapping[str, str]
    settings: Mapping[str, str]

    @property
    def is_replica(self) -> bool:
        """Whether it follows another server."""
        return self.info.get("role") == "slave"


def judge_server(said: Said) -> Iterator[Finding]:
    """Yield what is to be said about how well this server keeps jobs."""
    yield _durability(said)
    yield from _failed_writes(said)
    yield _eviction(said)
    yield _memory(said)
    yield _replicas(said)


def _durability(said: Said) -> Finding:
    if not _has_log(said):
        return _without_log(said)
    sync = said.settings.get("appendfsync")
    if sync is None:
        return Finding.warning(
            "durability",
            "the append-only file is on, but this user may not read how often it reaches the disk",
            "let an administrator look: `CONFIG GET appendfsync` should say always",
        )
    if sync == "everysec":
        says = (
            "appendfsync everysec: a crash of the machine may cost about the last second of accepted jobs; one of"
            " the server alone costs none, unless its disk falls behind just then"
        )
        return Finding.warning("durability", says, _ALWAYS)
    if sync != "always":
        says = (
            f"appendfsync {sync}: a crash of the machine may cost the accepted jobs of the last half minute or more"
        )
        return Finding.warning("durability", says, _ALWAYS)
    if said.settings.get("no-appendfsync-on-rewrite") == "yes":
        return Finding.warning(
            "durability",
            "appendfsync always, but not while the file is rewritten (no-appendfsync-on-rewrite): a crash of the"
            " machine just then costs accepted jobs",
            "`CONFIG SET no-appendfsync-on-rewrite no`, then `CONFIG REWRITE`",
        )
    return Finding.ok(
        "durability",
        "appendfsync always: an accepted job survives a crash and, as far as the disk keeps its word, a power loss",
    )


def _without_log(said: Said) -> Finding:
    points = said.settings.get("save")
    if points == "":
        return Finding.problem(
            "durability", "nothing is written to disk: a restart of the server loses every accepted job", _KEEP
        )
    when = "" if points is None else f" ({_save_points(points)})"
    return Finding.problem(
        "durability",
        f"no append-only file, at most snapshots{when}: a crash loses every job accepted since the last one",
        _KEEP,
    )


def _save_points(points: str) -> str:
    numbers = points.split()
    pairs = zip(numbers[::2], numbers[1::2], strict=False)
    return ", ".join(f"{seconds} s after {changes} changes" for seconds, changes in pairs)


def _has_log(said: Said) -> bool:
    return said.settings.get("appendonly") == "yes" or said.info.get("aof_enabled") == "1"


def _failed_writes(said: Said) -> Iterator[Finding]:
    if _has_log(said) and said.info.get("aof_last_write_status", "ok") != "ok":
        yield Finding.problem(
            "disk",
            "the last write to the append-only file failed: no job is accepted",
            "make room or mend the disk; the server's log says more",
        )
    if said.info.get("rdb_last_bgsave_status", "ok") != "ok":
        yield Finding.warning(
            "disk",
            "the last snapshot failed: while snapshots are on, the server may refuse every write",
            "make room or mend the disk, then `BGSAVE`; the server's log says more",
        )


def _eviction(said: Said) -> Finding:
    policy = said.settings.get("maxmemory-policy") or said.info.get("maxmemory_policy", "noeviction")
    remedy = "`CONFIG SET maxmemory-policy noeviction`, then `CONFIG REWRITE`; give caches a server of their own"
    if policy == "noeviction":
        return Finding.ok("eviction", "noeviction: a full server refuses new jobs and deletes none")
    if _limit(said) == 0:
        says = f"{policy}, without effect while maxmemory is 0; with a limit the server would delete jobs"
        return Finding.warning("eviction", says, remedy)
    if policy.startswith("allkeys"):
        says = f"{policy}: when memory is short the server deletes any key, accepted jobs among them"
        return Finding.problem("eviction", says, remedy)
    says = (
        f"{policy}: when memory is short the server forgets what has an expiry, such as keys kept after a job's end"
    )
    return Finding.warning("eviction", says, remedy)


def _memory(said: Said) -> Finding:
    used, limit = int(said.info.get("used_memory", 0)), _limit(said)
    whose = "maxmemory" if limit else "the machine's memory"
    limit = limit or int(said.info.get("total_system_memory", 0))
    if limit == 0:
        return Finding.ok("memory", f"{sized(used)} used")
    says = f"{sized(used)} used, {used / limit:.0%} of {whose} ({sized(limit)})"
    remedy = "raise `maxmemory`, add memory, or keep finished jobs for less time"
    if used > limit * _NEARLY_FULL:
        return Finding.problem("memory", f"{says}: soon no job is accepted", remedy)
    if used > limit * _FULL_SOON:
        return Finding.warning("memory", says, remedy)
    return Finding.ok("memory", says)


def _limit(said: Said) -> int:
    return int(said.info.get("maxmemory") or said.settings.get("maxmemory") or 0)


def _replicas(said: Said) -> Finding:
    if said.is_replica:
        return Finding.problem(
            "replicas", "this server is a replica, which takes no writes", "name the master in the URL"
        )
    count = int(said.info.get("connected_slaves", 0))
    if count == 0:
        return Finding.ok("replicas", "none: while this server is away, everybody waits for it")
    says = (
        f"{count} connected, and no write waits for one: a failover may lose what was accepted just before it,"
        " against the promise that an accepted job is kept, and run again what had just ended"
    )
    if not _heeds_scripts(said):
        remedy = (
            "upgrade to Redis 7 or newer, where min-replicas-to-write bounds that; here it does not heed scripts"
        )
        return Finding.warning("replicas", says, remedy)
    if said.settings.get("min-replicas-to-write", "0") == "0":
        remedy = "`CONFIG SET min-replicas-to-write 1`, then `CONFIG REWRITE`, bounds that to min-replicas-max-lag"
        return Finding.warning("replicas", says, remedy)
    lag = said.settings.get("min-replicas-max-lag", "10")
    return Finding.warning(
        "replicas",
        f"{count} connected; writes stop when they lag by {lag} s: a failover may lose jobs accepted within about"
        " that time before it",
        "where not even that may be lost, use PostgreSQL with synchronous replicas",
    )


def _heeds_scripts(said: Said) -> bool:
    """Tell whether min-replicas-to-write holds for writes of scripts too, as ours are."""
    major = said.info.get("redis_version", "").split(".")[0]
    return not major.isdigit() or int(major) >= _HEEDS_SCRIPTS


# Looks at a Redis store for doctor: is it there, does it keep jobs, what is in it. It writes nothing.

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


def _server(info: dict[str, str], address: Address, place: Endpoint) -> Finding:
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
