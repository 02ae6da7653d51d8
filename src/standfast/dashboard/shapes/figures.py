"""Counters over time."""

from datetime import datetime
from typing import Literal

from standfast.dashboard.shapes.words import Asks, Told, Word

Span = Literal["1h", "6h", "24h", "7d", "30d"]


class FiguresAsked(Asks, frozen=True, kw_only=True):
    """Which figures: of this span until now, of all, of one queue or of one task."""

    span: Span = "1h"
    queue: Word | None = None
    task: Word | None = None


class PointSeen(Told, frozen=True, kw_only=True):
    """What happened in the `step` that began then. Times are in seconds; null where nothing was measured."""

    at: datetime
    completed: int = 0
    failed: int = 0
    dead: int = 0
    depth: int | None = None
    age: float | None = None
    run_p50: float | None = None
    run_p95: float | None = None
    run_p99: float | None = None
    lag_p50: float | None = None
    lag_p95: float | None = None
    lag_p99: float | None = None


class TaskTotals(Told, frozen=True, kw_only=True):
    """What came of one task in the whole span."""

    task: str
    completed: int
    failed: int
    dead: int
    run_p50: float | None = None
    run_p95: float | None = None


class FiguresSeen(Told, frozen=True, kw_only=True):
    """Points, the oldest first, `step` seconds each, and what came of each task."""

    now: datetime
    span: Span
    step: float
    points: tuple[PointSeen, ...]
    tasks: tuple[TaskTotals, ...]
    completed: int = 0
    failed: int = 0
    dead: int = 0
