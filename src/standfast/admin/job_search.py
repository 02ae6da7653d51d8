"""Finding jobs: filters, pages and rows; and changing many by one act.

Many jobs changed by one act: by one call for all of them, and one by one what that call leaves as it is.
"""

import asyncio
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import islice
from typing import Annotated, Literal

import msgspec
from msgspec.structs import replace

from standfast.admin.executor import OperationContext, store_now
from standfast.admin.fields import (
    AnswerStruct,
    Limit,
    ProgressSeen,
    RequestStruct,
    Text,
    ValueSeen,
    When,
    Word,
    past,
    progress_seen,
    value_seen,
)
from standfast.admin.job_details import UNREADABLE, fingerprint, read_envelope, waits_for
from standfast.errors import ConfigurationError, KeyTakenError
from standfast.model.codec import trace_id_in
from standfast.model.display import one_line
from standfast.model.ids import first_id_at
from standfast.model.incidents import Incident
from standfast.model.job import SCHEDULE_KEY, Job, JobAction, planned_of, schedule_of
from standfast.model.phrases import Phrase
from standfast.model.states import State
from standfast.stores.contract import Store
from standfast.stores.refusals import key_taken
from standfast.stores.values import JobFilter, JobOutcome, JobPage
from standfast.stores.verb import Verbs, procedure

AT_ONCE = 1_000
"""So many jobs are changed by one call: longer it would keep others waiting."""


@dataclass(slots=True)
class Changes:
    """What became of jobs so far: done, no longer as they were selected, or refused, with the reason."""

    done: int = 0
    passed_over: int = 0
    refused: list[tuple[str, KeyTakenError]] = field(default_factory=list)

    @property
    def seen(self) -> int:
        """How many jobs were dealt with."""
        return self.done + self.passed_over + len(self.refused)


@procedure
def change_many(
    verbs: Store, changes: Changes, action: JobAction, job_ids: Sequence[str], run_at: datetime | None = None
) -> Verbs[None]:
    """Do something to jobs, at most AT_ONCE of them, and add to `changes` what became of each."""
    if action is JobAction.RESCHEDULE and run_at is None:
        raise ConfigurationError("say when the jobs are to run")
    outcomes: Mapping[str, JobOutcome] = yield verbs.change_jobs(action, job_ids, run_at)
    for job_id in job_ids:
        outcome = outcomes.get(job_id)
        if outcome is None:
            outcome = (yield verbs.change_jobs(action, [job_id], run_at))[job_id]
        if outcome.changed:
            changes.done += 1
        elif outcome.holder is not None:
            changes.refused.append((job_id, key_taken(outcome.holder, requeued=job_id)))
        else:  # it is no longer as it was selected: that is settled
            changes.passed_over += 1


# Jobs in lists: which of them are meant, and what is told of each.

States = Annotated[tuple[State, ...], msgspec.Meta(max_length=8)]
Tags = Annotated[tuple[Word, ...], msgspec.Meta(max_length=20)]
Pair = Annotated[str, msgspec.Meta(max_length=2_000, pattern=r"^[^\x00=]+=[^\x00]*$")]
Metadata = Annotated[tuple[Pair, ...], msgspec.Meta(max_length=20)]
BulkAction = Literal["retry", "cancel", "discard", "reschedule"]

MOST_WRITTEN = 100_000
"""So many jobs one file has, at most."""


class JobsWhich(RequestStruct, frozen=True, kw_only=True):
    """Which jobs are meant; what is empty selects all.

    `since` and `until` are about when a job was made: a date with its zone, or how long ago, such as 2h. `meta` are
    pairs NAME=VALUE, all of which it has. `error` is a part of the last error, `fingerprint` that of an error (dead
    jobs only), `text` is looked for in task, id, key, tags, error and arguments of the newest jobs.
    """

    state: States = ()
    task: Word | None = None
    queue: Word | None = None
    tag: Tags = ()
    key: Word | None = None
    meta: Metadata = ()
    schedule: Word | None = None
    worker: Word | None = None
    since: When | None = None
    until: When | None = None
    error: Text | None = None
    fingerprint: Word | None = None
    text: Word | None = None


class JobsAsked(JobsWhich, frozen=True, kw_only=True):
    """One page of jobs, newest first; `before` is the `next` of the page before."""

    before: Word | None = None
    limit: Limit = 50


class JobRow(AnswerStruct, frozen=True, kw_only=True):
    """A job in short. `at` is the time that matters: its end, or else when it is due.

    `fence` counts its claims; a long `result` is cut. `incidents` are ids, the newest first; a list has them where it
    is of dead jobs alone.
    """

    id: str
    task: str
    queue: str
    state: State
    reason: str | None
    priority: int
    attempt: int
    max_attempts: int
    at: datetime
    run_at: datetime
    created_at: datetime
    finished_at: datetime | None
    worker: str | None
    key: str | None
    tags: tuple[str, ...]
    schedule: str | None
    waits_for: Phrase | None
    cancel_requested: bool
    progress: ProgressSeen | None
    error: str | None
    fingerprint: str | None
    fence: int
    planned_at: datetime | None = None
    trace_id: str | None = None
    result: ValueSeen | None = None
    incidents: tuple[str, ...] = ()


class JobsSeen(AnswerStruct, frozen=True, kw_only=True):
    """One page of jobs. `next` is where the next page starts, null on the last.

    Where text or fingerprint are looked for, `span` is how many of the newest jobs are looked at for one page; and
    `bounded` means that the look ended there, and goes on at `next`. `tasks` and `queues` are the names that are
    known, to choose from.
    """

    now: datetime
    rows: tuple[JobRow, ...]
    next: str | None = None
    span: int | None = None
    bounded: bool = False
    tasks: tuple[str, ...] = ()
    queues: tuple[str, ...] = ()


class CountAsked(JobsWhich, frozen=True, kw_only=True):
    """How many jobs are meant, and what is to be done with them."""

    action: BulkAction | None = None


class JobsCounted(AnswerStruct, frozen=True, kw_only=True):
    """How many jobs are meant; with `more`, at least so many.

    With an action, how many of them it can be done to. `confirm` is what `jobs.bulk` asks for.
    """

    count: int
    more: bool
    span: int | None
    confirm: str


class ExportAsked(JobsWhich, frozen=True, kw_only=True):
    """Which jobs to write out, as what, and how many at most; `before` is the last id of another file."""

    format: Literal["csv", "json"] = "json"
    before: Word | None = None
    limit: Annotated[int, msgspec.Meta(ge=1, le=MOST_WRITTEN)] = MOST_WRITTEN


class JobsExported(AnswerStruct, frozen=True, kw_only=True):
    """A file of this name and type, which is written while its `parts` are taken. It has at most `limit` jobs.

    Where text or fingerprint are looked for, `span` is how many of the newest jobs are looked at for it.
    """

    name: str
    type: str
    limit: int
    span: int | None
    parts: AsyncIterable[str]


class BulkAsked(JobsWhich, frozen=True, kw_only=True):
    """What to do with all jobs that are meant, as `jobs.count` has counted and confirmed them.

    `at` is for reschedule: a date with its zone, or a span from now, such as 2h. `goes_on` is as the last
    answer had it.
    """

    action: BulkAction
    expected: Annotated[int, msgspec.Meta(ge=0, le=1_000_000_000)]
    confirm: Word
    at: When | None = None
    goes_on: Word | None = None


class JobFailed(AnswerStruct, frozen=True, kw_only=True):
    """A job to which it could not be done, and why."""

    id: str
    error: Phrase


class BulkDone(AnswerStruct, frozen=True, kw_only=True):
    """To how many jobs it was done, could not be done, and had not to be done any more.

    `errors` are the first few. With `more`, there are jobs left. With `goes_on`, the time of one call is over: ask
    the same again with that, and it goes on without another confirmation. The numbers count from the beginning.
    """

    done: int
    failed: int
    passed_over: int
    errors: tuple[JobFailed, ...] = ()
    more: bool = False
    goes_on: str | None = None


# From what is asked to jobs: a filter that stores know, and what they do not know, looked at here, bounded.

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


async def select(desk: OperationContext, asked: JobsWhich, among: frozenset[State] | None = None) -> Selection:
    """Return which jobs are meant; `among` are the states that count at all."""
    now = await store_now(desk)
    since, until = past("since", asked.since, now, days=True), past("until", asked.until, now, days=True)
    states = frozenset(asked.state)
    metadata = {name: value for name, _, value in (pair.partition("=") for pair in asked.meta)}
    if asked.fingerprint:
        states = states & {State.DEAD} if states else frozenset({State.DEAD})
    meant = (states & among if states else among) if among is not None else states
    which = JobFilter(
        states=tuple(state for state in State if state in meant),
        queue=asked.queue or None,
        task=asked.task or None,
        key=asked.key or None,
        tags=tuple(filter(None, asked.tag)),
        metadata=metadata | ({SCHEDULE_KEY: asked.schedule} if asked.schedule else {}),
        error=asked.error or None,
        worker=asked.worker or None,
        after=None if since is None else first_id_at(since),
        before=None if until is None else first_id_at(until),
    )
    narrowed = bool(asked.state or asked.fingerprint or among is not None)
    return Selection(which, now, _wanted(asked), nothing=narrowed and not meant)


async def page_of(desk: OperationContext, selection: Selection, limit: int) -> Found:
    """Return the next jobs that are meant, at most `limit`."""
    if selection.nothing:
        return Found((), None)
    which = replace(selection.which, limit=limit)
    if selection.wanted is None:
        page = await desk.ask(desk.verbs.list_jobs(which, REACH))
        return Found(page.jobs, page.next, bounded=page.next is not None and len(page.jobs) < limit)
    async with desk.office.searching.turn():
        return await _sifted(desk, replace(which, limit=min(_FIRST, _PAGE)), selection.wanted, limit)


async def _sifted(desk: OperationContext, which: JobFilter, wanted: Wanted, limit: int) -> Found:
    """Look through some pages of jobs. While one is looked through, in a thread, the store looks for the next.

    Arguments may be large. So a page has no more jobs than weigh little, by the weight of those before, and it ends
    early after very many bytes.
    """
    found: list[Job] = []
    left, weight = SPAN - which.limit, 0
    page: JobPage | None = await desk.ask(desk.verbs.list_jobs(which, REACH))
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


async def _next(desk: OperationContext, which: JobFilter) -> JobPage | None:
    return await desk.ask(desk.verbs.list_jobs(which, REACH))


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


async def pages_of(desk: OperationContext, selection: Selection, most: int) -> AsyncIterator[Found]:
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


# Jobs as rows. Pure.

LONGEST_ERROR = 500
"""Characters of an error in a row, and bytes of a result that is shown whole there."""


def job_row(job: Job, incidents: Iterable[Incident] = ()) -> JobRow:
    """Return a job in short, and in which incidents it was involved."""
    return JobRow(
        id=job.id,
        task=job.task,
        queue=job.queue,
        state=job.state,
        reason=job.reason,
        priority=job.priority,
        attempt=job.attempt,
        max_attempts=job.max_attempts,
        at=job.finished_at or job.run_at,
        run_at=job.run_at,
        created_at=job.created_at,
        finished_at=job.finished_at,
        worker=job.worker,
        key=job.key,
        tags=job.tags,
        schedule=schedule_of(job.metadata),
        waits_for=waits_for(job),
        cancel_requested=job.cancel_requested,
        progress=progress_seen(job.progress),
        error=one_line(job.error, LONGEST_ERROR) if job.error else None,
        fingerprint=group_of(job) if job.state is State.DEAD else None,
        fence=job.fence,
        planned_at=planned_of(job.metadata),
        trace_id=trace_id_in(job.payload),
        result=None if job.result is None else value_seen(job.result, LONGEST_ERROR),
        incidents=tuple(each.id for each in incidents),
    )
