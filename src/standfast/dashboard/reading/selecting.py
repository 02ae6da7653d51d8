"""From what is asked to jobs: a filter that stores know, and what they do not know, looked at here, bounded."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import islice

import msgspec
from msgspec.structs import replace

from standfast.core.job import Job
from standfast.core.provenance import SCHEDULE_KEY
from standfast.core.states import State
from standfast.dashboard.desk import Desk
from standfast.dashboard.reading.moments import past
from standfast.dashboard.reading.shared_looks import store_now
from standfast.dashboard.shapes.jobs import JobsWhich
from standfast.ids import first_id_at
from standfast.store.bulk import AT_ONCE
from standfast.store.protocol import JobFilter, JobPage
from standfast.watch.envelope import UNREADABLE, read_envelope
from standfast.watch.fingerprint import fingerprint

SPAN = 3_000
"""So many of the newest jobs of a filter are looked at for a text or a fingerprint."""

REACH = 10_000
"""So many jobs a store passes over, at most, for one page of what no index leads to."""

NO_ERROR = "none"

_PAGE = AT_ONCE
_FIRST = 20
"""So many jobs has the first page, of which nobody knows what they weigh."""

PAGE_BYTES = 8 * 1024 * 1024
"""So much the arguments of a page weigh, as far as can be told before."""

MOST_BYTES = 64 * 1024 * 1024
"""So many bytes of arguments are looked through for one answer."""

Wanted = Callable[[Job], bool]


@dataclass(frozen=True, slots=True)
class Selection:
    """Which jobs are meant: what the store selects, and what is `wanted` of that, if that is not all."""

    which: JobFilter
    now: datetime
    wanted: Wanted | None = None
    nothing: bool = False
    """Nothing can be meant."""

    def below(self, upper: str | None) -> "Selection":
        """Return it without ids from this one on."""
        lowest = min(filter(None, (self.which.before, upper)), default=None)
        return Selection(replace(self.which, before=lowest), self.now, self.wanted, self.nothing)


@dataclass(frozen=True, slots=True)
class Found:
    """Some of the jobs that are meant. `next` is where to go on; `bounded`: not all were looked at for this."""

    jobs: tuple[Job, ...]
    next: str | None
    bounded: bool = False


async def select(desk: Desk, asked: JobsWhich, among: frozenset[State] | None = None) -> Selection:
    """Return which jobs are meant; `among` are the states that count at all."""
    now = await store_now(desk)
    since, until = past("since", asked.since, now, days=True), past("until", asked.until, now, days=True)
    states = frozenset(asked.state)
    if asked.fingerprint:
        states = states & {State.DEAD} if states else frozenset({State.DEAD})
    meant = (states & among if states else among) if among is not None else states
    which = JobFilter(
        states=tuple(state for state in State if state in meant),
        queue=asked.queue or None,
        task=asked.task or None,
        key=asked.key or None,
        tags=tuple(filter(None, asked.tag)),
        metadata={SCHEDULE_KEY: asked.schedule} if asked.schedule else {},
        error=asked.error or None,
        worker=asked.worker or None,
        after=None if since is None else first_id_at(since),
        before=None if until is None else first_id_at(until),
    )
    narrowed = bool(asked.state or asked.fingerprint or among is not None)
    return Selection(which, now, _wanted(asked), nothing=narrowed and not meant)


async def page_of(desk: Desk, selection: Selection, limit: int) -> Found:
    """Return the next jobs that are meant, at most `limit`."""
    if selection.nothing:
        return Found((), None)
    which = replace(selection.which, limit=limit)
    if selection.wanted is None:
        page = await desk.ask(desk.verbs.search_jobs(which, REACH))
        return Found(page.jobs, page.next, bounded=page.next is not None and len(page.jobs) < limit)
    async with desk.office.searching.turn():
        return await _sifted(desk, replace(which, limit=min(_FIRST, _PAGE)), selection.wanted, limit)


async def _sifted(desk: Desk, which: JobFilter, wanted: Wanted, limit: int) -> Found:
    """Look through some pages of jobs. While one is looked through, in a thread, the store looks for the next.

    Arguments may be large. So a page has no more jobs than weigh little, by the weight of those before, and it ends
    early after very many bytes.
    """
    found: list[Job] = []
    left, weight = SPAN - which.limit, 0
    page: JobPage | None = await desk.ask(desk.verbs.search_jobs(which, REACH))
    while page is not None:
        jobs = page.jobs
        weight += _weight(jobs)
        span = min(left, _page_after(jobs))
        which = replace(which, before=page.next, limit=max(span, 1))
        is_last = page.next is None or left <= 0 or weight >= MOST_BYTES
        look = asyncio.to_thread(_kept, jobs, wanted, limit - len(found))
        page, some = await asyncio.gather(_nothing() if is_last else _next(desk, which), look)
        left -= span
        found += some
        if len(found) == limit:
            last = found[-1].id == jobs[-1].id and which.before is None
            return Found(tuple(found), None if last else found[-1].id)
    return Found(tuple(found), which.before, bounded=which.before is not None)


async def _next(desk: Desk, which: JobFilter) -> JobPage | None:
    return await desk.ask(desk.verbs.search_jobs(which, REACH))


async def _nothing() -> None:
    return None


def _page_after(jobs: Sequence[Job]) -> int:
    """Return how many jobs the next page has, if they weigh as much as these."""
    size = _weight(jobs)
    return min(_PAGE, max(1, PAGE_BYTES * len(jobs) // size)) if size else _PAGE


def _weight(jobs: Sequence[Job]) -> int:
    return sum(len(job.payload) for job in jobs)


def _kept(jobs: Iterable[Job], wanted: Wanted, limit: int) -> list[Job]:
    return list(islice(filter(wanted, jobs), limit))


async def pages_of(desk: Desk, selection: Selection, most: int) -> AsyncIterator[Found]:
    """Walk from the newest id down, over `most` jobs at most, so that one that comes back is not met twice.

    Where text or fingerprint are looked for, it ends after SPAN jobs of the filter.
    """
    left, page = most, min(_FIRST, _PAGE)
    while left > 0:
        found = await page_of(desk, selection, left if selection.wanted else min(page, left))
        left, page = left - len(found.jobs), _page_after(found.jobs)
        yield found
        if found.next is None or (found.bounded and selection.wanted is not None):
            return
        selection = selection.below(found.next)


def group_of(job: Job) -> str:
    """Return the fingerprint of its error; that of no error is a word."""
    return fingerprint(job.error) or NO_ERROR


def _wanted(asked: JobsWhich) -> Wanted | None:
    tests: list[Wanted] = []
    if asked.fingerprint:
        tests.append(lambda job: group_of(job) == asked.fingerprint)
    if asked.text and asked.text.strip():
        text = asked.text.strip().lower()
        tests.append(lambda job: _mentions(job, text))
    return (lambda job: all(test(job) for test in tests)) if tests else None


def _mentions(job: Job, text: str) -> bool:
    """Tell whether a text occurs in what is known of a job; in secret arguments it is not looked for."""
    told = (job.task, job.id, job.queue, job.key or "", *job.tags, job.error or "")
    return any(text in each.lower() for each in told) or text in _arguments(job.payload).lower()


def _arguments(payload: bytes) -> str:
    try:
        args = read_envelope(payload).args
    except UNREADABLE:
        return ""
    return " ".join(f"{name}={_plain(value)}" for name, value in args.items())


def _plain(value: msgspec.Raw) -> str:
    """Return a value as people write it: a text without quotes and escapes."""
    decoded = msgspec.json.decode(value)
    return decoded if isinstance(decoded, str) else bytes(value).decode(errors="replace")
