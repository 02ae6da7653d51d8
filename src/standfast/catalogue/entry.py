"""What is published of an app. A later release may add fields: those that it adds have defaults."""

from datetime import datetime

import msgspec

from standfast.core.alert import Aware
from standfast.core.objective import Objective


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
