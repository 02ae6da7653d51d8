"""The catalogue in the store: a record for each release of an app.

Workers publish when they start, and once a day; whoever writes forgets what nobody publishes any more.
"""

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import TypeVar
from uuid import uuid4

import msgspec
from msgspec.structs import replace

from standfast.catalogue.entry import Catalogue, CatalogueView, GateEntry, KnownEntry, QueueEntry
from standfast.core.record import Change, Kind, Record, read_body
from standfast.objectives.published import newest_objectives
from standfast.store.errand import Verbs, errand
from standfast.store.protocol import Store

FRESH_FOR = timedelta(days=1)
"""For so long nobody writes again what is there already."""

KEPT_FOR = timedelta(days=30)
"""So long after it was last published a release is forgotten."""

TRIES = 3

T = TypeVar("T")


@errand
def publish(verbs: Store, catalogue: Catalogue) -> Verbs[bool]:
    """Write what a release of an app says of itself, unless that is there and fresh; tell whether it was written.

    Where it is there, that costs one read.
    """
    for _ in range(TRIES):
        records: tuple[Record, ...] = yield verbs.records(Kind.CATALOGUE, (catalogue.key,))
        seen = records[0] if records else None
        if seen is not None and _says_the_same(read_body(seen, Catalogue), catalogue):
            return False
        version, after = (0, None) if seen is None else (seen.version, seen.token)
        body = msgspec.json.encode(catalogue)
        change = Change(Kind.CATALOGUE, catalogue.key, version, str(uuid4()), body, after=after)
        [made] = yield verbs.change_records([change])
        if made:
            yield from _forget_old(verbs, catalogue.published_at)
            return True
    return False


@errand
def other_signatures(verbs: Store, catalogue: Catalogue) -> Verbs[dict[str, str]]:
    """Return the tasks that others, published lately, declare with other parameters, each with who declares it."""
    records: tuple[Record, ...] = yield verbs.records(Kind.CATALOGUE)
    since = catalogue.published_at - FRESH_FOR
    found = (read_body(record, Catalogue) for record in records if record.name != catalogue.key)
    others = [each for each in found if each is not None and each.published_at >= since]
    own = {task.name: (task.version, task.parameters) for task in catalogue.tasks}
    return {
        task.name: f"release {other.release} of {other.app}"
        for other in others
        for task in other.tasks
        if task.name in own and own[task.name][0] == task.version and own[task.name][1] != task.parameters
    }


@errand
def read_catalogue(verbs: Store) -> Verbs[CatalogueView]:
    """Return all that is published, put together."""
    records: tuple[Record, ...] = yield verbs.records(Kind.CATALOGUE)
    return put_together(catalogue for record in records if (catalogue := read_body(record, Catalogue)) is not None)


def put_together(catalogues: Iterable[Catalogue]) -> CatalogueView:
    """Return one view of several catalogues: of what several have, the newest counts."""
    releases = tuple(sorted(catalogues, key=lambda each: (each.published_at, each.key), reverse=True))
    newest: dict[str, str] = {}
    tasks: dict[str, KnownEntry] = {}
    queues: dict[str, QueueEntry] = {}
    gates: dict[str, GateEntry] = {}
    for each in releases:
        current = newest.setdefault(each.app, each.key) == each.key
        for task in each.tasks:
            tasks.setdefault(task.name, KnownEntry(task, each.app, each.release, each.published_at, current))
        for queue in each.queues:
            queues.setdefault(queue.name, queue)
        for gate in each.gates:
            gates.setdefault(gate.name, gate)
    return CatalogueView(_by_name(tasks), _by_name(queues), _by_name(gates), releases, newest_objectives(releases))


def _by_name(found: dict[str, T]) -> tuple[T, ...]:
    return tuple(found[name] for name in sorted(found))


def _says_the_same(seen: Catalogue | None, catalogue: Catalogue) -> bool:
    """Tell whether what is there says the same, whoever wrote it, and was written not long ago."""
    if seen is None or catalogue.published_at - seen.published_at > FRESH_FOR:
        return False
    return replace(seen, published_at=catalogue.published_at, host=catalogue.host) == catalogue


def _forget_old(verbs: Store, now: datetime) -> Verbs[None]:
    records: tuple[Record, ...] = yield verbs.records(Kind.CATALOGUE)
    old = [record for record in records if _is_old(read_body(record, Catalogue), now)]
    if old:
        yield verbs.change_records(
            [
                Change(Kind.CATALOGUE, each.name, each.version, str(uuid4()), body=None, after=each.token)
                for each in old
            ]
        )


def _is_old(catalogue: Catalogue | None, now: datetime) -> bool:
    """Tell whether nobody publishes it any more; what only a newer release can read is not ours to judge."""
    return catalogue is not None and now - catalogue.published_at > KEPT_FOR
