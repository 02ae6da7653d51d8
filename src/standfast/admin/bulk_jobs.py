"""Many jobs at once: dead ones by kind, exports, acts on all that a filter finds.

Dead jobs, grouped by what went wrong.
"""

import asyncio
import csv
import io
import re
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

import msgspec

from standfast.admin.audit_trail import Entry, read_trail
from standfast.admin.executor import OperationContext, to_its_end
from standfast.admin.fields import AnswerStruct, RequestStruct, When, Word, args_seen, coming, value_seen
from standfast.admin.job_details import shape_of
from standfast.admin.job_search import (
    SPAN,
    BulkAsked,
    BulkDone,
    Changes,
    ExportAsked,
    Found,
    JobFailed,
    JobRow,
    JobsExported,
    JobsWhich,
    change_many,
    group_of,
    job_row,
    pages_of,
    select,
)
from standfast.admin.jobs import confirmation, is_at_least, to_micros
from standfast.admin.operation import NotAllowedError, NotConfirmedError, Role, WrongRequestError, acts, reads
from standfast.model.display import one_line
from standfast.model.job import ACTS_ON, Job, JobAction
from standfast.model.phrases import Phrase, in_english, phrase_in
from standfast.model.states import State
from standfast.stores.contract import count_states


class DeadAsked(RequestStruct, frozen=True, kw_only=True):
    """Which dead jobs to group."""

    task: Word | None = None
    queue: Word | None = None
    since: When | None = None


class DeadGroup(AnswerStruct, frozen=True, kw_only=True):
    """Dead jobs with errors of one `shape`; `error` is the newest. `first` and `last` are when they ended."""

    fingerprint: str
    error: str
    shape: str
    count: int
    tasks: tuple[str, ...]
    queues: tuple[str, ...]
    first: datetime
    last: datetime
    example: str


class DeadSeen(AnswerStruct, frozen=True, kw_only=True):
    """Groups, the largest first, of the newest `span` dead jobs at most; `total` is how many there are in all."""

    now: datetime
    groups: tuple[DeadGroup, ...]
    looked_at: int
    total: int
    span: int


# Dead jobs, grouped by what went wrong.


@reads("dead.groups", "/dead")
async def group_dead(desk: OperationContext, asked: DeadAsked) -> DeadSeen:
    """Group dead jobs by what went wrong, the largest group first."""
    which = JobsWhich(state=(State.DEAD,), task=asked.task, queue=asked.queue, since=asked.since)
    selection = await select(desk, which)
    grouped: dict[str, list[Job]] = {}
    looked_at = 0
    async for found in pages_of(desk, selection, SPAN):
        looked_at += len(found.jobs)
        for job in found.jobs:
            grouped.setdefault(group_of(job), []).append(job)
    counts = await desk.ask(count_states(desk.verbs))
    groups = (_group(name, jobs) for name, jobs in grouped.items())
    return DeadSeen(
        now=selection.now,
        groups=tuple(sorted(groups, key=lambda group: (-group.count, group.fingerprint))),
        looked_at=looked_at,
        total=counts[State.DEAD],
        span=SPAN,
    )


def _group(name: str, jobs: Sequence[Job]) -> DeadGroup:
    ends = [job.finished_at or job.run_at for job in jobs]
    return DeadGroup(
        fingerprint=name,
        error=one_line(jobs[0].error or "", 500),
        shape=shape_of(jobs[0].error or ""),
        count=len(jobs),
        tasks=tuple(sorted({job.task for job in jobs})),
        queues=tuple(sorted({job.queue for job in jobs})),
        first=min(ends),
        last=max(ends),
        example=jobs[0].id,
    )


# Files of jobs, written while they are read: one page of them is in memory at a time, however many there are.

_COLUMNS = tuple(
    field.name
    for field in msgspec.structs.fields(JobRow)
    if field.name not in {"progress", "tags", "incidents", "result"}
)
_FORMULAS = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")
_NUMBER = re.compile(r"[+-]?\d+(\.\d+)?", re.ASCII)


@dataclass(frozen=True, slots=True)
class _Form:
    """How a file is written: what it begins and ends with, and what stands between two pages of jobs."""

    name: str
    type: str
    write: Callable[[Sequence[Job]], str]
    head: str
    between: str
    end: str


@reads("jobs.export", "/jobs/export", shared=False)
async def export_jobs(desk: OperationContext, asked: ExportAsked) -> JobsExported:
    """Write jobs out as a file, newest first; secret arguments are masked.

    A file with as many jobs as its limit may not have all: what follows begins `before` the id of its last one.
    """
    selection = await select(desk, asked)
    pages = pages_of(desk, selection.below(asked.before or None), asked.limit)
    first = await anext(pages)  # before anything is sent: what is wrong can still be told
    form = _FORMS[asked.format]
    return JobsExported(
        name=form.name,
        type=form.type,
        limit=asked.limit,
        span=None if selection.wanted is None else SPAN,
        parts=_written(form, first, pages),
    )


async def _written(form: _Form, first: Found, others: AsyncIterator[Found]) -> AsyncIterator[str]:
    written = form.write(first.jobs)
    yield form.head + written
    between = form.between if first.jobs else ""
    async for found in others:
        if found.jobs:
            yield between + form.write(found.jobs)
            between = form.between
    yield form.end


def _json_page(jobs: Sequence[Job]) -> str:
    return ",\n".join(map(_json_row, jobs))


def _json_row(job: Job) -> str:
    row = {
        **msgspec.structs.asdict(job_row(job)),
        "args": args_seen(job.payload)[0],
        "result": None if job.result is None else value_seen(job.result),
    }
    return msgspec.json.encode(row, enc_hook=in_english).decode()


def _csv_page(jobs: Sequence[Job]) -> str:
    return _csv_lines(map(_csv_row, jobs))


def _csv_row(job: Job) -> Sequence[object]:
    row = job_row(job)
    fields = msgspec.to_builtins(row, enc_hook=in_english)
    return [*(fields[name] for name in _COLUMNS), " ".join(row.tags)]


def _csv_lines(rows: Iterable[Sequence[object]]) -> str:
    out = io.StringIO()
    csv.writer(out).writerows(map(cell, row) for row in rows)
    return out.getvalue()


def cell(value: object) -> str:
    """Return a value that no spreadsheet takes for a formula."""
    text = "" if value is None else str(value)
    return f"'{text}" if text.startswith(_FORMULAS) and not _NUMBER.fullmatch(text) else text


_FORMS = {
    "csv": _Form(
        "jobs.csv", "text/csv; charset=utf-8", _csv_page, _csv_lines([[*_COLUMNS, "tags"]]), between="", end=""
    ),
    "json": _Form("jobs.json", "application/json", _json_page, head="[", between=",\n", end="]\n"),
}


# One thing done to all jobs that a filter selects, after one count and one confirmation.
#
#     jobs.count (action, filter) ─► count and confirmation ─► jobs.bulk (the same, count, confirmation)
#                                                                  │ ▲
#                                                                  └─┘ goes_on: as long as there are jobs left
#
# What a confirmation confirms is a filter, a number, and that only jobs that were there when it was given are meant.
# One that has died since is not one of them. Where all were counted, it is done to no more than that. Who was told
# "at least" confirms all that match. A call lasts some seconds only, as servers and proxies end longer ones. How far
# it has come stands in the audit, in one entry for all calls: so any process may go on with it.

SECONDS = 5.0
"""After so long a call ends, and says where to go on."""

MOST_ERRORS = 20
"""So many failures of a call are told one by one."""

_NO_LIMIT = 1_000_000_000


@acts("jobs.bulk", "/jobs/bulk", Role.OPERATOR)
async def act_on_many(desk: OperationContext, asked: BulkAsked) -> BulkDone:
    """Retry, cancel, discard or reschedule all jobs that are meant, as they were counted and confirmed."""
    if asked.action == "discard" and not desk.user.may("jobs.discard", Role.ADMIN):
        raise NotAllowedError(Phrase("refusal.discard", user=desk.user.name))
    mark, _, _ = asked.confirm.rpartition(".")
    upper, _, counted_at = mark.partition(".")
    confirmed = asked.confirm == confirmation(asked, asked.action, asked.expected, mark)
    if not (confirmed and counted_at.rstrip("+").isdecimal()):
        raise NotConfirmedError(Phrase("refusal.not_confirmed"))
    action = JobAction(asked.action)
    selection = await select(desk, asked, ACTS_ON[action])
    work = _Work(desk, action, _run_at(asked, selection.now))
    if asked.goes_on:
        upper = work.resume(await _written_of(desk, asked))
    desk.note(before=Phrase("noted.jobs", n=asked.expected))
    left = (_NO_LIMIT if is_at_least(mark) else asked.expected) - work.seen
    until, goes_on, more = asyncio.get_running_loop().time() + SECONDS, None, False
    try:
        await work.begun(upper)
        async for found in pages_of(desk, selection.below(upper), _NO_LIMIT):
            meant = [job for job in found.jobs if _was_there(job, int(counted_at.rstrip("+")))]
            await work.deal_with(meant[:left])
            more, left = found.next is not None or len(meant) > left, left - len(meant)
            if left <= 0 or found.next is None:
                break
            await work.begun(found.next)
            if (found.bounded and selection.wanted is not None) or asyncio.get_running_loop().time() >= until:
                goes_on = desk.entry
                break
    finally:  # what was done before the store failed, or this was told to stop, is still written down
        if goes_on is None:
            desk.note(after=work.told(), so_far="")
    return work.answer(goes_on, more=more)


async def _written_of(desk: OperationContext, asked: BulkAsked) -> Entry:
    """Return what was written down of the act that is to go on: it must be this person's, and the same."""
    page = await desk.ask(read_trail(desk.verbs, who=desk.user.name, what="jobs.bulk"))
    for entry in page.entries:
        if entry.id == asked.goes_on and entry.asked.get("confirm") == asked.confirm and entry.so_far:
            return entry
    raise NotConfirmedError(Phrase("refusal.not_confirmed"))


class _Work:
    """What became of the jobs so far, in this call and those before it."""

    def __init__(self, desk: OperationContext, action: JobAction, run_at: datetime | None) -> None:
        self._desk = desk
        self._action = action
        self._run_at = run_at
        self._before = (0, 0, 0)
        self._changes = Changes()

    @property
    def seen(self) -> int:
        """How many jobs were dealt with."""
        return sum(self._numbers)

    @property
    def _numbers(self) -> tuple[int, int, int]:
        done, failed, passed_over = self._before
        changes = self._changes
        return done + changes.done, failed + len(changes.refused), passed_over + changes.passed_over

    def resume(self, entry: Entry) -> str:
        """Go on where an entry says; return below which id."""
        done, failed, passed_over, place = entry.so_far.split(".")
        self._before = (int(done), int(failed), int(passed_over))
        self._desk.go_on_with(entry)
        return place

    def told(self) -> Phrase:
        """Return it in words."""
        done, failed, passed_over = self._numbers
        return Phrase("noted.bulk", done=done, failed=failed, passed_over=passed_over)

    async def begun(self, place: str) -> None:
        """Write down how far it has come, for those who ask after the process was killed, and for the next call."""
        so_far = ".".join((*map(str, self._numbers), place))
        self._desk.note(after=Phrase("noted.begun", so_far=self.told()), so_far=so_far)
        await self._desk.write_ahead()

    async def deal_with(self, jobs: Sequence[Job]) -> None:
        """Do it to the jobs. Told to stop, it ends and counts what is under way."""
        ids = [job.id for job in jobs]
        if ids:
            act = change_many(self._desk.verbs, self._changes, self._action, ids, self._run_at)
            await to_its_end(self._desk.ask(act))

    def answer(self, goes_on: str | None, *, more: bool) -> BulkDone:
        """Return what to answer."""
        done, failed, passed_over = self._numbers
        errors = (JobFailed(id=job_id, error=phrase_in(error)) for job_id, error in self._changes.refused)
        return BulkDone(
            done=done,
            failed=failed,
            passed_over=passed_over,
            errors=tuple(errors)[:MOST_ERRORS],
            more=more and done > 0,
            goes_on=goes_on,
        )


def _was_there(job: Job, counted_at: int) -> bool:
    """Tell whether a job was there when they were counted and, if it is over, was so then."""
    return to_micros(job.finished_at or job.created_at) <= counted_at


def _run_at(asked: BulkAsked, now: datetime) -> datetime | None:
    run_at = coming("at", asked.at, now)
    if asked.action == "reschedule" and run_at is None:
        raise WrongRequestError(Phrase("refusal.no_time"))
    return run_at if asked.action == "reschedule" else None
