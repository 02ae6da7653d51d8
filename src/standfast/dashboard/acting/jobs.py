"""What can be done with one job."""

from standfast.core.job import Cancellation
from standfast.core.states import State
from standfast.dashboard.access.user import Role
from standfast.dashboard.desk import Desk
from standfast.dashboard.operation import acts
from standfast.dashboard.reading.finding import find_job
from standfast.dashboard.reading.moments import coming
from standfast.dashboard.refusals import WrongRequestError
from standfast.dashboard.shapes.job import CancelAsked, JobDone, RescheduleAsked, SignalAsked, WhichJob
from standfast.errors import JobStateError
from standfast.ids import new_job_id
from standfast.phrases import Phrase
from standfast.signals import encode_signal, too_late
from standfast.store.protocol import ask_time
from standfast.supervisor.orders import KILL, give_order


@acts("jobs.retry", "/jobs/{id}/retry", Role.OPERATOR)
async def retry_job(desk: Desk, asked: WhichJob) -> JobDone:
    """Run a dead job again, with all its attempts, or a scheduled one now."""
    job = await find_job(desk, asked.id)
    desk.note(before=Phrase(f"state.{job.state}"))
    await desk.ask(desk.verbs.requeue(job.id))
    desk.note(after=Phrase("state.ready"))
    return JobDone(id=job.id, answer="requeued")


@acts("jobs.cancel", "/jobs/{id}/cancel", Role.OPERATOR)
async def cancel_job(desk: Desk, asked: CancelAsked) -> JobDone:
    """Cancel a job that waits; of one that runs, ask its worker to stop it, or to kill the process of its own."""
    job = await find_job(desk, asked.id)
    desk.note(before=Phrase(f"state.{job.state}"))
    answer = await desk.ask(desk.verbs.cancel(job.id))
    if answer is Cancellation.TOO_LATE and job.state is not State.CANCELLED:
        latest = await find_job(desk, job.id)
        if latest.state is not State.CANCELLED:
            raise JobStateError(Phrase("refusal.too_late", job=job.id, state=Phrase(f"state.{latest.state}")))
    if asked.kill and answer is Cancellation.REQUESTED:
        latest = await find_job(desk, job.id)
        if latest.worker is not None:
            details = {"job": job.id, "fence": str(latest.fence)}
            await desk.ask(give_order(desk.verbs, KILL, latest.worker, details))
    told = "requested" if answer is Cancellation.REQUESTED else State.CANCELLED.value
    desk.note(after=Phrase("noted.requested" if answer is Cancellation.REQUESTED else "state.cancelled"))
    return JobDone(id=job.id, answer=told)


@acts("jobs.discard", "/jobs/{id}/discard", Role.ADMIN)
async def discard_job(desk: Desk, asked: WhichJob) -> JobDone:
    """Drop a dead job: it ends as cancelled (discarded)."""
    job = await find_job(desk, asked.id)
    desk.note(before=Phrase(f"state.{job.state}"))
    await desk.ask(desk.verbs.discard(job.id))
    desk.note(after=Phrase("noted.discarded"))
    return JobDone(id=job.id, answer="discarded")


@acts("jobs.reschedule", "/jobs/{id}/reschedule", Role.OPERATOR)
async def reschedule_job(desk: Desk, asked: RescheduleAsked) -> JobDone:
    """Let a job that waits to be started be due at another time."""
    job = await find_job(desk, asked.id)
    run_at = coming("at", asked.at, (await desk.ask(ask_time(desk.verbs))).now)
    if run_at is None:
        raise WrongRequestError(Phrase("refusal.no_time"))
    desk.note(before=job.run_at.isoformat())
    await desk.ask(desk.verbs.reschedule(job.id, run_at))
    desk.note(after=run_at.isoformat())
    return JobDone(id=job.id, answer="rescheduled")


@acts("jobs.signal", "/jobs/{id}/signal", Role.OPERATOR)
async def signal_job(desk: Desk, asked: SignalAsked) -> JobDone:
    """Send a signal to a job that is not over."""
    job = await find_job(desk, asked.id)
    body = encode_signal(asked.name, asked.data)
    if not await desk.ask(desk.verbs.signal(job.id, asked.name, asked.token or new_job_id(), body)):
        raise too_late(job.id, asked.name)
    desk.note(after=Phrase("noted.signal", name=asked.name))
    return JobDone(id=job.id, answer="sent")
