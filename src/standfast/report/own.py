"""What Standfast runs on its own behalf, to tell people something: it is no work of theirs. Pure."""

from collections.abc import Iterable

from msgspec.structs import replace

from standfast.alerts.delivery import DELIVER
from standfast.core.job import Job
from standfast.core.provenance import channel_of
from standfast.core.states import FINAL
from standfast.figures.series import Figures, Series, sum_of
from standfast.report.model import Deliveries
from standfast.store.protocol import Queue

REPORT = "standfast.report"
"""The task that sends reports, and the name of its schedule if it is given none."""

_OWN = frozenset({DELIVER, REPORT})


def without_own(series: Series) -> Series:
    """Return the figures of the tasks of apps alone."""
    points = (
        replace(point, rows=tuple(row for row in point.rows if row.task not in _OWN)) for point in series.points
    )
    return replace(series, points=tuple(points))


def deliveries_of(series: Series, queue: Queue | None, dead: Iterable[Job]) -> Deliveries:
    """Return what became of deliveries, by all figures, the dead jobs, and their queue as it is now."""
    delivered, reported = (_sum_of_task(series, task) for task in (DELIVER, REPORT))
    states = {} if queue is None else queue.states
    return Deliveries(
        delivered=delivered.completed,
        lost=delivered.dead + delivered.cancelled + reported.dead,
        waiting=sum(number for state, number in states.items() if state not in FINAL),
        lost_in=tuple(sorted({name for job in dead if (name := channel_of(job.task, job.metadata)) is not None})),
    )


def _sum_of_task(series: Series, task: str) -> Figures:
    return sum_of(row for point in series.points for row in point.rows if row.task == task)
