"""What is published of an app. A later release may add fields: those that it adds have defaults."""

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import TypeVar

import msgspec
from msgspec.structs import replace

from standfast.model.alerts import Aware, Objective
from standfast.model.records import Kind, Record, forgetting, read_body, writing
from standfast.observe.objectives import is_sound
from standfast.stores.contract import Store
from standfast.stores.verb import Verbs, procedure


class Parameter(msgspec.Struct, frozen=True):
    """A parameter of a task, which jobs are given by its name.

    type: its annotation, as people write it; "any" where there is none.
    required: whether it has no default.
    default: that default as JSON; None without one, where it is secret, and where JSON cannot say it briefly.
    secret: whether its arguments are masked wherever they are shown.
    """

    name: str
    type: str = "any"
    required: bool = True
    default: str | None = None
    secret: bool = False


class Bound(msgspec.Struct, frozen=True):
    """How many jobs run at a time in one process; `peaks` are the times of lower limits, in words."""

    most: int | None = None
    peaks: tuple[str, ...] = ()


class TaskEntry(msgspec.Struct, frozen=True):
    """A task as an app declares it. Spans are seconds, sizes bytes; `doc` is the first line of its docstring.

    backoff, windows: in words. retry_on: names of exceptions; None for every one that is not in discard_on.
    schedules: the names of those that its app declares for it. limit: its own; gates: those it goes through.
    """

    name: str
    version: int = 1
    queue: str = "default"
    priority: int = 0
    max_attempts: int = 5
    timeout: float | None = None
    backoff: str = ""
    retry_on: tuple[str, ...] | None = None
    discard_on: tuple[str, ...] = ()
    start_within: float | None = None
    on_late: str = "run"
    keep_result: float | None = None
    isolation: str = "none"
    memory: int | None = None
    tags: tuple[str, ...] = ()
    doc: str = ""
    parameters: tuple[Parameter, ...] = ()
    schedules: tuple[str, ...] = ()
    limit: Bound | None = None
    gates: tuple[str, ...] = ()
    windows: tuple[str, ...] = ()


class QueueEntry(msgspec.Struct, frozen=True):
    """A queue that an app declares, or that its tasks are in; `windows` is when it is closed, in words."""

    name: str
    limit: Bound | None = None
    windows: tuple[str, ...] = ()


class GateEntry(msgspec.Struct, frozen=True):
    """A gate that an app declares."""

    name: str
    limit: Bound


class SettingEntry(msgspec.Struct, frozen=True):
    """A setting of the workers, without what is secret in it, and where it came from."""

    name: str
    value: str | int | float | bool | None
    where: str


class Catalogue(msgspec.Struct, frozen=True):
    """What one release of an app publishes. `published_at` and `host` are those of the last worker that did."""

    app: str
    release: str
    published_at: Aware
    host: str
    standfast: str
    tasks: tuple[TaskEntry, ...] = ()
    queues: tuple[QueueEntry, ...] = ()
    gates: tuple[GateEntry, ...] = ()
    settings: tuple[SettingEntry, ...] = ()
    objectives: tuple[Objective, ...] = ()

    @property
    def key(self) -> str:
        """The name of its record."""
        return f"{self.app}@{self.release}"


class KnownEntry(msgspec.Struct, frozen=True):
    """A task, and the newest release that has it. `current`: that is the newest release of its app, too."""

    task: TaskEntry
    app: str
    release: str
    published_at: datetime
    current: bool = True


class CatalogueView(msgspec.Struct, frozen=True):
    """All that is published: tasks, queues and gates by name, each as the newest has it; releases, newest first.

    Objectives are those of the newest release of each app: one that is declared no more is none.
    """

    tasks: tuple[KnownEntry, ...] = ()
    queues: tuple[QueueEntry, ...] = ()
    gates: tuple[GateEntry, ...] = ()
    releases: tuple[Catalogue, ...] = ()
    objectives: tuple[Objective, ...] = ()

    def task(self, name: str) -> KnownEntry | None:
        """Return what is known of a task."""
        return next((known for known in self.tasks if known.task.name == name), None)


FRESH_FOR = timedelta(days=1)
"""For so long nobody writes again what is there already."""

KEPT_FOR = timedelta(days=30)
"""So long after it was last published a release is forgotten."""

TRIES = 3

T = TypeVar("T")


@procedure
def publish(verbs: Store, catalogue: Catalogue) -> Verbs[bool]:
    """Write what a release of an app says of itself, unless that is there and fresh; tell whether it was written.

    Where it is there, that costs one read.
    """
    for _ in range(TRIES):
        records: tuple[Record, ...] = yield verbs.records(Kind.CATALOGUE, (catalogue.key,))
        seen = records[0] if records else None
        if seen is not None and _says_the_same(read_body(seen, Catalogue), catalogue):
            return False
        [made] = yield verbs.change_records([writing(Kind.CATALOGUE, catalogue.key, catalogue, before=seen)])
        if made:
            yield from _forget_old(verbs, catalogue.published_at)
            return True
    return False


@procedure
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


@procedure
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
    return CatalogueView(_by_name(tasks), _by_name(queues), _by_name(gates), releases, _objectives(releases))


@procedure
def published_objectives(verbs: Store) -> Verbs[tuple[Objective, ...]]:
    """Return the objectives that count now, by name."""
    view = yield from read_catalogue(verbs).steps
    return view.objectives


def _objectives(releases: Iterable[Catalogue]) -> tuple[Objective, ...]:
    """Return the objectives of releases, the newest first, by name; not those that make no sense.

    One that the newest release of an app does not declare is none. Something damaged or hostile wrote the others.
    """
    newest: dict[str, Catalogue] = {}
    for each in releases:
        newest.setdefault(each.app, each)
    found: dict[str, Objective] = {}
    for each in newest.values():
        for objective in filter(is_sound, each.objectives):
            found.setdefault(objective.name, objective)
    return _by_name(found)


def _by_name(found: dict[str, T]) -> tuple[T, ...]:
    return tuple(found[name] for name in sorted(found))


def _says_the_same(seen: Catalogue | None, catalogue: Catalogue) -> bool:
    """Tell whether what is there says the same, whoever wrote it, and was written not long ago."""
    if seen is None or catalogue.published_at - seen.published_at > FRESH_FOR:
        return False
    return replace(seen, published_at=catalogue.published_at, host=catalogue.host) == catalogue


def _forget_old(verbs: Store, now: datetime) -> Verbs[None]:
    records: tuple[Record, ...] = yield verbs.records(Kind.CATALOGUE)
    # What only a newer release can read is not ours to judge.
    read = ((record, read_body(record, Catalogue)) for record in records)
    old = [record for record, seen in read if seen is not None and now - seen.published_at > KEPT_FOR]
    if old:
        yield verbs.change_records([forgetting(record) for record in old])
