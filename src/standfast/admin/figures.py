"""Counters over time."""

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Literal

from standfast.admin.executor import SELDOM, OperationContext
from standfast.admin.fields import AnswerStruct, RequestStruct, Word
from standfast.admin.operation import reads
from standfast.observe.figures.rollup import Gauges
from standfast.observe.figures.series import Figures, Point, Series, read_figures, sum_of
from standfast.stores.contract import ask_time

Span = Literal["1h", "6h", "24h", "7d", "30d"]


class FiguresAsked(RequestStruct, frozen=True, kw_only=True):
    """Which figures: of this span until now, of all, of one queue or of one task."""

    span: Span = "1h"
    queue: Word | None = None
    task: Word | None = None


class PointSeen(AnswerStruct, frozen=True, kw_only=True):
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


class TaskTotals(AnswerStruct, frozen=True, kw_only=True):
    """What came of one task in the whole span."""

    task: str
    completed: int
    failed: int
    dead: int
    run_p50: float | None = None
    run_p95: float | None = None


class FiguresSeen(AnswerStruct, frozen=True, kw_only=True):
    """Points, the oldest first, `step` seconds each, and what came of each task."""

    now: datetime
    span: Span
    step: float
    points: tuple[PointSeen, ...]
    tasks: tuple[TaskTotals, ...]
    completed: int = 0
    failed: int = 0
    dead: int = 0


# Counters over time, as workers keep them.

SPANS: Mapping[Span, tuple[timedelta, timedelta]] = {
    "1h": (timedelta(hours=1), timedelta(minutes=1)),
    "6h": (timedelta(hours=6), timedelta(minutes=2)),
    "24h": (timedelta(hours=24), timedelta(minutes=10)),
    "7d": (timedelta(days=7), timedelta(hours=1)),
    "30d": (timedelta(days=30), timedelta(hours=3)),
}
"""How long each span is, and its steps."""

_MOST_TASKS = 50


@reads("figures.show", "/figures")
async def show_figures(desk: OperationContext, asked: FiguresAsked) -> FiguresSeen:
    """Show what happened over a span of time, of all, of one queue or of one task."""
    series = await _series(desk, asked.span)
    meant = [(point, _meant(point, asked.queue, asked.task)) for point in series.points]
    total = sum_of(row for _, rows in meant for row in rows)
    by_task: dict[str, list[Figures]] = {}
    for _, rows in meant:
        for row in rows:
            by_task.setdefault(row.task, []).append(row)
    sums = sorted(
        (sum_of(rows, task=task) for task, rows in by_task.items()), key=lambda row: (-row.ended, row.task)
    )
    return FiguresSeen(
        now=series.now,
        span=asked.span,
        step=series.step.total_seconds(),
        points=tuple(_point(point, rows, asked.queue) for point, rows in meant),
        tasks=tuple(map(_totals, sums[:_MOST_TASKS])),
        completed=total.completed,
        failed=total.failed,
        dead=total.dead,
    )


async def queue_points(desk: OperationContext) -> Mapping[str, tuple[PointSeen, ...]]:
    """Return what happened in the last hour in each queue of which there is anything to tell, without times."""
    series = await _series(desk, "1h")
    counted = {row.queue for point in series.points for row in point.rows}
    gauged = {gauge.queue for point in series.points if point.gauges for gauge in point.gauges.queues}
    return {name: tuple(_plain_point(point, name) for point in series.points) for name in counted | gauged if name}


def _plain_point(point: Point, queue: str) -> PointSeen:
    rows = [row for row in point.rows if row.queue == queue]
    depth, age = _depth(point.gauges, queue)
    return PointSeen(
        at=point.at,
        completed=sum(row.completed for row in rows),
        failed=sum(row.failed for row in rows),
        dead=sum(row.dead for row in rows),
        depth=depth,
        age=age,
    )


async def last_hour(desk: OperationContext) -> Series:
    """Return the figures of the last hour, minute by minute."""
    return await _series(desk, "1h")


def completed_last_minute(series: Series) -> float | None:
    """Return how many jobs completed in the last whole minute; None where nothing was counted in the hour."""
    if not series.total.ended or len(series.points) < 2:  # noqa: PLR2004 - the last one is not over
        return None
    return float(series.points[-2].total.completed)


async def _series(desk: OperationContext, span: Span) -> Series:
    """Return the figures of a span. Processes write down what they have counted every fifteen seconds."""

    async def look() -> Series:
        now = (await desk.ask(ask_time(desk.verbs))).now
        length, step = SPANS[span]
        return await desk.ask(read_figures(desk.verbs, now - length, now, step))

    return await desk.recall(("figures", span), look, SELDOM)


def _meant(point: Point, queue: str | None, task: str | None) -> list[Figures]:
    return [row for row in point.rows if (not queue or row.queue == queue) and (not task or row.task == task)]


def _point(point: Point, rows: Iterable[Figures], queue: str | None) -> PointSeen:
    total = sum_of(rows)
    depth, age = _depth(point.gauges, queue)
    return PointSeen(
        at=point.at,
        completed=total.completed,
        failed=total.failed,
        dead=total.dead,
        depth=depth,
        age=age,
        run_p50=_seconds(total.run_percentile(0.5)),
        run_p95=_seconds(total.run_percentile(0.95)),
        run_p99=_seconds(total.run_percentile(0.99)),
        lag_p50=_seconds(total.lag_percentile(0.5)),
        lag_p95=_seconds(total.lag_percentile(0.95)),
        lag_p99=_seconds(total.lag_percentile(0.99)),
    )


def _depth(gauges: Gauges | None, queue: str | None) -> tuple[int | None, float | None]:
    """Return how many jobs were ready, and for how many seconds the oldest of them."""
    if gauges is None:
        return None, None
    meant = [gauge for gauge in gauges.queues if not queue or gauge.queue == queue]
    return sum(gauge.ready for gauge in meant), max((gauge.oldest for gauge in meant), default=0.0)


def _totals(row: Figures) -> TaskTotals:
    return TaskTotals(
        task=row.task,
        completed=row.completed,
        failed=row.failed,
        dead=row.dead,
        run_p50=_seconds(row.run_percentile(0.5)),
        run_p95=_seconds(row.run_percentile(0.95)),
    )


def _seconds(length: timedelta | None) -> float | None:
    return None if length is None else round(length.total_seconds(), 4)
