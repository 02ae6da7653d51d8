"""The tasks that workers have told of."""

from datetime import datetime

from standfast.dashboard.shapes.words import Told
from standfast.phrases import Phrase


class ParameterSeen(Told, frozen=True, kw_only=True):
    """A parameter of a task. `type` is in words, `default` is JSON."""

    name: str
    required: bool
    secret: bool
    type: str | None = None
    default: str | None = None


class TaskSeen(Told, frozen=True, kw_only=True):
    """A task as workers have published it. `current`: it is in the newest release of its app. Spans are seconds."""

    name: str
    app: str
    release: str
    current: bool
    version: int
    queue: str
    priority: int
    about: str | None
    max_attempts: int
    backoff: Phrase | None
    timeout: float | None
    isolation: str
    schedules: tuple[str, ...]
    limits: tuple[Phrase, ...]
    gates: tuple[str, ...]
    windows: tuple[Phrase, ...]
    parameters: tuple[ParameterSeen, ...]
    seen_at: datetime


class TasksSeen(Told, frozen=True, kw_only=True):
    """All known tasks, by name."""

    tasks: tuple[TaskSeen, ...]
