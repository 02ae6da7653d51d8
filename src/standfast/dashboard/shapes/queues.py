"""Queues."""

from datetime import datetime

from standfast.dashboard.shapes.figures import PointSeen
from standfast.dashboard.shapes.jobs import JobRow
from standfast.dashboard.shapes.words import Told
from standfast.phrases import Phrase


class QueueRow(Told, frozen=True, kw_only=True):
    """A queue. `counts` has every state; `oldest_age` is that of the job longest due, in seconds.

    `places` is how many of its jobs the `workers` that serve it can run at a time, `busy` how many they do run.
    """

    name: str
    paused_at: datetime | None
    closed_until: datetime | None
    counts: dict[str, int]
    oldest_age: float | None
    workers: int
    places: int
    busy: int
    limits: tuple[Phrase, ...] = ()
    points: tuple[PointSeen, ...] = ()


class QueuesSeen(Told, frozen=True, kw_only=True):
    """All queues, by name."""

    now: datetime
    queues: tuple[QueueRow, ...]


class QueueSeen(Told, frozen=True, kw_only=True):
    """A queue with the workers that serve it, and the jobs in it that run."""

    now: datetime
    row: QueueRow
    workers: tuple[str, ...]
    running: tuple[JobRow, ...]
    windows: tuple[Phrase, ...]


class QueueDone(Told, frozen=True, kw_only=True):
    """A queue, and since when it is paused; null if it is not."""

    name: str
    paused_at: datetime | None
