"""Workers."""

from datetime import datetime
from typing import Any

from standfast.dashboard.shapes.jobs import JobRow
from standfast.dashboard.shapes.words import Told, WithId


class WorkerRow(Told, frozen=True, kw_only=True):
    """A worker. Spans are in seconds; `vitals` is what it last told of itself (memory in bytes, load …)."""

    id: str
    supervisor: str
    host: str
    pid: int
    queues: tuple[str, ...] | None
    concurrency: int
    lease: float
    started_at: datetime
    beat_age: float
    live: bool
    condemned: bool
    held: int
    running: int
    vitals: dict[str, Any] | None = None


class WorkersSeen(Told, frozen=True, kw_only=True):
    """The registered workers, oldest first."""

    now: datetime
    workers: tuple[WorkerRow, ...]


class OrderSeen(Told, frozen=True, kw_only=True):
    """An order about a worker: `taken` by its supervisor, which is about it, or `refused`, with the reason."""

    id: str
    what: str
    taken: bool
    refused: str | None


class WorkerSeen(Told, frozen=True, kw_only=True):
    """A worker, the jobs it has, the last pictures that were taken of it (incidents), and what was just ordered.

    An order that is carried out is gone; one that was refused is there for about two minutes.
    """

    now: datetime
    row: WorkerRow
    jobs: tuple[JobRow, ...]
    pictures: tuple[str, ...]
    orders: tuple[OrderSeen, ...] = ()


class RecycleAsked(WithId, frozen=True, kw_only=True):
    """Which worker to replace; with `force` also inside a window in which the app forbids it."""

    force: bool = False


class WorkerDone(Told, frozen=True, kw_only=True):
    """A worker, and the order given to its supervisor. A picture becomes the incident of the order's id."""

    id: str
    order: str
