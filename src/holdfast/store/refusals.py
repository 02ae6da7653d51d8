"""What every store refuses, in the same words: each function returns the error to raise."""

from holdfast.core.job import NewJob, OnConflict
from holdfast.core.memo import MEMOS_LIMIT
from holdfast.core.states import State
from holdfast.errors import (
    JobNotFoundError,
    JobStateError,
    KeyTakenError,
    WorkerBuriedError,
)


def buried_worker(worker: str) -> WorkerBuriedError:
    """Return the error for a worker that asks for jobs and is not registered."""
    return WorkerBuriedError(f"worker {worker} is not registered, or was buried: register a new one")


def no_such_job(job_id: str) -> JobNotFoundError:
    """Return the error for an id that no job has."""
    return JobNotFoundError(f"there is no job {job_id}: check the id and the store's URL")


def not_requeued(job_id: str, state: str) -> JobStateError:
    """Return the error for a job that was to be requeued and is in a state that does not allow it."""
    return JobStateError(
        f"job {job_id} is {state}: only a dead job can be requeued, and a scheduled one be made due now"
    )


def not_rescheduled(job_id: str, state: str) -> JobStateError:
    """Return the error for a job that was to be rescheduled and does not wait to be started."""
    if state in {State.READY, State.SCHEDULED}:
        return JobStateError(
            f"job {job_id} has begun and is suspended, until a time or a signal: requeue it to let it go on now"
        )
    return JobStateError(f"job {job_id} is {state}: only a ready or scheduled job can be rescheduled")


def not_discarded(job_id: str, state: str) -> JobStateError:
    """Return the error for a job that was to be discarded and is not dead."""
    return JobStateError(f"job {job_id} is {state}: only a dead job can be discarded; cancel any other")


def not_withdrawn(job_id: str) -> JobStateError:
    """Return the error for a job that was to be withdrawn and that a worker has."""
    return JobStateError(f"job {job_id} cannot be withdrawn: a worker has it; cancel it instead")


def too_many_signals(job_id: str) -> JobStateError:
    """Return the error for a signal more than a job may be sent."""
    return JobStateError(
        f"job {job_id} was sent {MEMOS_LIMIT:,} signals, and takes no more: send several things with one signal, or"
        " enqueue a job for each"
    )


def key_taken(task: str, key: str | None, holder: str, state: str, *, requeued: str | None = None) -> KeyTakenError:
    """Return the error for a job whose key another has: a new job, or else the dead one that was to be requeued."""
    if requeued is None:
        remedy = 'give another key, say on_conflict="return" to get that job, or wait until it gives the key free'
    else:
        remedy = f"cancel it or wait for its end before job {requeued} is requeued"
    return KeyTakenError(f"key {key!r} of task {task} is taken by job {holder}, which is {state}: {remedy}")


def makes_way(job: NewJob, holder: str, state: State) -> bool:
    """Tell whether the job that has the key of a new one gives it up. Raises KeyTakenError if it is to."""
    if job.on_conflict is OnConflict.RAISE:
        raise key_taken(job.task, job.key, holder, state)
    return job.on_conflict is OnConflict.REPLACE and state is not State.COMPLETED
