"""One thing done to all jobs that a filter selects, after a count and a confirmation.

    jobs.count (action, filter) ─► count and confirmation ─► jobs.bulk (the same, count, confirmation)

What a confirmation confirms is a filter, a number, and that only jobs that were there when it was given are meant.
One that has died since is not one of them, and never is anything done to more jobs than were counted.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from holdfast.core.job import Cancellation, Job
from holdfast.dashboard.access.user import Role
from holdfast.dashboard.desk import Desk
from holdfast.dashboard.ending import wait_for_end
from holdfast.dashboard.operation import acts
from holdfast.dashboard.reading.jobs import MOST_AT_ONCE, confirmation, to_micros
from holdfast.dashboard.reading.moments import coming
from holdfast.dashboard.reading.selecting import pages_of, select
from holdfast.dashboard.refusals import NotAllowedError, NotConfirmedError, WrongRequestError
from holdfast.dashboard.shapes.jobs import ACTS_ON, BulkAsked, BulkDone, JobFailed
from holdfast.errors import JobNotFoundError, JobStateError, KeyTakenError
from holdfast.phrases import Phrase, phrase_in

AT_A_TIME = 16
"""So many verbs are under way together: a store that commits in groups pays once for all of them."""

MOST_ERRORS = 20
"""So many failures are told one by one."""

Act = Callable[[Desk, Job], Awaitable[bool]]
"""Does something to a job; False where it had not to be done any more."""


@acts("jobs.bulk", "/jobs/bulk", Role.OPERATOR)
async def act_on_many(desk: Desk, asked: BulkAsked) -> BulkDone:
    """Retry, cancel, discard or reschedule all jobs that are meant, as they were counted and confirmed."""
    if asked.action == "discard" and not desk.user.may("jobs.discard", Role.ADMIN):
        raise NotAllowedError(Phrase("refusal.discard", user=desk.user.name))
    mark, _, _ = asked.confirm.rpartition(".")
    upper, _, counted_at = mark.partition(".")
    confirmed = asked.confirm == confirmation(asked, asked.action, asked.expected, mark)
    if not (confirmed and counted_at.isdecimal()):
        raise NotConfirmedError(Phrase("refusal.not_confirmed"))
    selection = await select(desk, asked, ACTS_ON[asked.action])
    act = _acts(asked, selection.now)
    desk.note(before=Phrase("noted.jobs", n=asked.expected))
    done, more, left = _Done(), False, asked.expected
    try:
        await done.begun(desk)
        async for found in pages_of(desk, selection.below(upper), MOST_AT_ONCE):
            meant = [job for job in found.jobs if _was_there(job, int(counted_at))]
            await done.deal_with(desk, meant[:left], act)
            more, left = found.next is not None or len(meant) > left, left - len(meant)
            if left <= 0:
                break
            await done.begun(desk)
    finally:  # what was done before the store failed, or this was told to stop, is still written down
        desk.note(after=done.told())
    return BulkDone(
        done=done.done,
        failed=done.failed,
        passed_over=done.passed_over,
        errors=tuple(done.errors),
        more=more and done.done > 0,
    )


@dataclass(slots=True)
class _Done:
    """What became of the jobs so far."""

    done: int = 0
    failed: int = 0
    passed_over: int = 0
    errors: list[JobFailed] = field(default_factory=list)
    is_stopped: bool = False

    def told(self) -> Phrase:
        """Return it in words."""
        return Phrase("noted.bulk", done=self.done, failed=self.failed, passed_over=self.passed_over)

    async def begun(self, desk: Desk) -> None:
        """Write down how far it has come, for those who ask after the process was killed."""
        desk.note(after=Phrase("noted.begun", so_far=self.told()))
        await desk.write_ahead()

    async def deal_with(self, desk: Desk, jobs: Sequence[Job], act: Act) -> None:
        """Do it to each of the jobs, many at a time. Told to stop, it ends and counts those that are under way."""
        room = asyncio.Semaphore(AT_A_TIME)

        async def settle(job: Job) -> None:
            async with room:
                if not self.is_stopped:
                    await self._settle(desk, job, act)

        work = asyncio.gather(*map(settle, jobs), return_exceptions=True)
        try:
            outcomes = await asyncio.shield(work)
        except asyncio.CancelledError:
            self.is_stopped = True
            await wait_for_end(work)
            raise
        for outcome in outcomes:
            if outcome is not None:  # the store failed: those under way are over by now
                raise outcome

    async def _settle(self, desk: Desk, job: Job, act: Act) -> None:
        try:
            changed = await act(desk, job)
        except KeyTakenError as error:
            self.failed += 1
            if len(self.errors) < MOST_ERRORS:
                self.errors.append(JobFailed(id=job.id, error=phrase_in(error)))
        except (JobNotFoundError, JobStateError):  # it is no longer as it was selected: that is settled
            self.passed_over += 1
        else:
            self.done += changed
            self.passed_over += not changed


def _was_there(job: Job, counted_at: int) -> bool:
    """Tell whether a job was there when they were counted and, if it is over, was so then."""
    return to_micros(job.finished_at or job.created_at) <= counted_at


def _acts(asked: BulkAsked, now: datetime) -> Act:
    match asked.action:
        case "retry":
            return _retry
        case "cancel":
            return _cancel
        case "discard":
            return _discard
        case "reschedule":
            run_at = coming("at", asked.at, now)
            if run_at is None:
                raise WrongRequestError(Phrase("refusal.no_time"))
            return _reschedule(run_at)


async def _retry(desk: Desk, job: Job) -> bool:
    await desk.ask(desk.verbs.requeue(job.id))
    return True


async def _cancel(desk: Desk, job: Job) -> bool:
    return await desk.ask(desk.verbs.cancel(job.id)) is not Cancellation.TOO_LATE


async def _discard(desk: Desk, job: Job) -> bool:
    await desk.ask(desk.verbs.discard(job.id))
    return True


def _reschedule(run_at: datetime) -> Act:
    async def act(desk: Desk, job: Job) -> bool:
        await desk.ask(desk.verbs.reschedule(job.id, run_at))
        return True

    return act
