"""The tasks that workers have told of."""

from datetime import datetime

from holdfast.dashboard.shapes.words import Told


class ParameterSeen(Told, frozen=True, kw_only=True):
    """A parameter of a task. `type` is in words."""

    name: str
    required: bool
    secret: bool
    type: str | None = None
    default: str | None = None


class TaskSeen(Told, frozen=True, kw_only=True):
    """A task as workers have published it."""

    name: str
    app: str | None = None
    version: int = 1
    queue: str | None = None
    about: str | None = None
    max_attempts: int | None = None
    timeout: float | None = None
    parameters: tuple[ParameterSeen, ...] = ()
    seen_at: datetime | None = None


class TasksSeen(Told, frozen=True, kw_only=True):
    """All known tasks, by name."""

    tasks: tuple[TaskSeen, ...]
