"""One thing done to all jobs that a filter selects, after one count and one confirmation.

    jobs.count (action, filter) ─► count and confirmation ─► jobs.bulk (the same, count, confirmation)
                                                                 │ ▲
                                                                 └─┘ goes_on: as long as there are jobs left

What a confirmation confirms is a filter, a number, and that only jobs that were there when it was given are meant.
One that has died since is not one of them. Where all were counted, it is done to no more than that. Who was told
"at least" confirms all that match. A call lasts some seconds only, as servers and proxies end longer ones. How far
it has come stands in the audit, in one entry for all calls: so any process may go on with it.
"""

import asyncio
from collections.abc import Sequence
from datetime import datetime

from standfast.core.job import Job, JobAction
from standfast.dashboard.access.user import Role
from standfast.dashboard.audit.entry import Entry
from standfast.dashboard.audit.trail import read_trail
from standfast.dashboard.desk import Desk
from standfast.dashboard.ending import to_its_end
from standfast.dashboard.operation import acts
from standfast.dashboard.reading.jobs import confirmation, is_at_least, to_micros
from standfast.dashboard.reading.moments import coming
from standfast.dashboard.reading.selecting import pages_of, select
from standfast.dashboard.refusals import NotAllowedError, NotConfirmedError, WrongRequestError
from standfast.dashboard.shapes.jobs import BulkAsked, BulkDone, JobFailed
from standfast.phrases import Phrase, phrase_in
from standfast.store.bulk import ACTS_ON, Changes, change_many

SECONDS = 5.0
"""After so long a call ends, and says where to go on."""

MOST_ERRORS = 20
"""So many failures of a call are told one by one."""

_NO_LIMIT = 1_000_000_000


@acts("jobs.bulk", "/jobs/bulk", Role.OPERATOR)
async def act_on_many(desk: Desk, asked: BulkAsked) -> BulkDone:
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


async def _written_of(desk: Desk, asked: BulkAsked) -> Entry:
    """Return what was written down of the act that is to go on: it must be this person's, and the same."""
    page = await desk.ask(read_trail(desk.verbs, who=desk.user.name, what="jobs.bulk"))
    for entry in page.entries:
        if entry.id == asked.goes_on and entry.asked.get("confirm") == asked.confirm and entry.so_far:
            return entry
    raise NotConfirmedError(Phrase("refusal.not_confirmed"))


class _Work:
    """What became of the jobs so far, in this call and those before it."""

    def __init__(self, desk: Desk, action: JobAction, run_at: datetime | None) -> None:
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
