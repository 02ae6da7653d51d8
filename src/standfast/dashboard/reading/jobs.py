"""Lists of jobs: a page of them, and how many there are."""

from datetime import UTC, datetime, timedelta
from hashlib import blake2b
from uuid import UUID

import msgspec

from standfast.core.job import JobAction
from standfast.core.states import State
from standfast.dashboard.desk import Desk
from standfast.dashboard.operation import reads
from standfast.dashboard.reading.rows import job_row
from standfast.dashboard.reading.selecting import SPAN, Selection, page_of, pages_of, select
from standfast.dashboard.reading.shared_looks import all_queues
from standfast.dashboard.reading.tasks import known_tasks
from standfast.dashboard.shapes.jobs import (
    BulkAction,
    CountAsked,
    JobsAsked,
    JobsCounted,
    JobsSeen,
    JobsWhich,
)
from standfast.ids import first_id_at, new_job_id
from standfast.store.bulk import ACTS_ON
from standfast.store.protocol import JobFilter, ask_time

MOST_COUNTED = 3_000
"""So many jobs are counted one by one: somebody waits for it."""

MOST_LOOKS = 4
"""So often a look for jobs to count ends before a page of them was found."""


_AT_LEAST = "+"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LAST = (1 << 128) - 1


@reads("jobs.list", "/jobs")
async def list_jobs(desk: Desk, asked: JobsAsked) -> JobsSeen:
    """List jobs, newest first."""
    selection = await select(desk, asked)
    found = await page_of(desk, selection.below(asked.before or None), asked.limit)
    queues = await all_queues(desk)
    sifted = selection.wanted is not None
    return JobsSeen(
        now=selection.now,
        rows=tuple(map(job_row, found.jobs)),
        next=found.next,
        span=SPAN if sifted else None,
        bounded=found.bounded,
        tasks=tuple(sorted({task.name for task in await known_tasks(desk)} | {job.task for job in found.jobs})),
        queues=tuple(queue.name for queue in queues),
    )


@reads("jobs.count", "/jobs/count")
async def count_jobs(desk: Desk, asked: CountAsked) -> JobsCounted:
    """Count jobs, and say what confirms that something is done to all of them."""
    among = None if asked.action is None else ACTS_ON[JobAction(asked.action)]
    selection = await select(desk, asked, among)
    upper = max(first_id_at(selection.now), new_job_id(), await _after_the_newest(desk))
    count, more = await _count(desk, selection)
    now = (await desk.ask(ask_time(desk.verbs))).now
    return JobsCounted(
        count=count,
        more=more,
        span=None if selection.wanted is None else SPAN,
        confirm=confirmation(asked, asked.action, count, f"{upper}.{to_micros(now)}{_AT_LEAST if more else ''}"),
    )


async def _after_the_newest(desk: Desk) -> str:
    """Return an id beyond all that there are: the clock of a client may be ahead, and so are its ids."""
    page = await desk.ask(desk.verbs.search_jobs(JobFilter(limit=1), 1))
    newest = max((UUID(job.id).int for job in page.jobs), default=0)
    return str(UUID(int=min(newest + 1, _LAST)))


def to_micros(at: datetime) -> int:
    """Return a moment as whole microseconds, as a mark has it."""
    return (at - _EPOCH) // timedelta(microseconds=1)


async def _count(desk: Desk, selection: Selection) -> tuple[int, bool]:
    """Return how many there are; where the store keeps no count of them, some are counted."""
    which = selection.which
    if selection.nothing:
        return 0, False
    plain = msgspec.structs.replace(which, states=(), queue=None, limit=0) == type(which)(limit=0)
    if plain and selection.wanted is None:
        states = which.states or tuple(State)
        queues = await all_queues(desk)
        meant = [queue for queue in queues if which.queue in {None, queue.name}]
        return sum(queue.states.get(state, 0) for queue in meant for state in states), False
    count, more, looks = 0, False, 0
    async for found in pages_of(desk, selection, MOST_COUNTED):
        count, more, looks = count + len(found.jobs), found.next is not None, looks + found.bounded
        if looks == MOST_LOOKS:
            break
    return count, more


def is_at_least(mark: str) -> bool:
    """Tell whether there were more than were counted, and all of them are meant."""
    return mark.endswith(_AT_LEAST)


def confirmation(asked: JobsWhich, action: BulkAction | None, count: int, mark: str) -> str:
    """Return what says that somebody knows how many jobs are meant, and that only those of its mark are.

    The mark is an id, below which they are, and the microsecond at which they had been counted; and, where not all
    were, a sign that all of them are meant.
    """
    fields = {name: getattr(asked, name) for name in JobsWhich.__struct_fields__}
    meant = msgspec.json.encode([fields, action, count, mark], order="sorted")
    return f"{mark}.{blake2b(meant, digest_size=8).hexdigest()}"
