"""What every store refuses, in the same words: each function returns the error to raise."""

from typing import TypeVar

from standfast.errors import (
    JobNotFoundError,
    JobStateError,
    KeyTakenError,
    StandfastError,
    StoreError,
    WorkerBuriedError,
)
from standfast.model.job import ACTS_ON, JobAction, NewJob, OnConflict
from standfast.model.memos import MEMOS_LIMIT, is_suspended
from standfast.model.phrases import Phrase
from standfast.model.states import State
from standfast.stores.values import JobOutcome, KeyHolder

_NOT_DONE = {
    JobAction.RETRY: "refusal.not_requeued",
    JobAction.DISCARD: "refusal.not_discarded",
    JobAction.RESCHEDULE: "refusal.not_rescheduled",
}


def buried_worker(worker: str) -> WorkerBuriedError:
    """Return the error for a worker that asks for jobs and is not registered."""
    return WorkerBuriedError(f"worker {worker} is not registered, or was buried: register a new one")


def no_such_job(job_id: str) -> JobNotFoundError:
    """Return the error for an id that no job has."""
    return JobNotFoundError(Phrase("refusal.no_such_job", job=job_id))


def not_changed(action: JobAction, job_id: str, outcome: JobOutcome) -> StandfastError:
    """Return the error for a job to which an action was not done."""
    if outcome.holder is not None:
        return key_taken(outcome.holder, requeued=job_id)
    if outcome.state is None:
        return no_such_job(job_id)
    why = "refusal.suspended" if outcome.state in ACTS_ON[action] else _NOT_DONE[action]
    return JobStateError(Phrase(why, job=job_id, state=_state(outcome.state)))


def is_refused(action: JobAction, state: State, reason: str | None) -> bool:
    """Tell whether an action can't be done to a job in this state, or because the job is suspended."""
    return state not in ACTS_ON[action] or (action is JobAction.RESCHEDULE and is_suspended(reason))


def not_withdrawn(job_id: str) -> JobStateError:
    """Return the error for a job that was to be withdrawn and that a worker has."""
    return JobStateError(f"job {job_id} cannot be withdrawn: a worker has it; cancel it instead")


def too_many_signals(job_id: str) -> JobStateError:
    """Return the error for a signal more than a job may be sent."""
    return JobStateError(Phrase("refusal.too_many_signals", job=job_id, limit=f"{MEMOS_LIMIT:,}"))


def key_taken(holder: KeyHolder, *, requeued: str | None = None) -> KeyTakenError:
    """Return the error for a job whose key another has: a new job, or else the dead one that was to be requeued."""
    task, key, job_id, state = holder
    taken = {"key": repr(key), "task": task, "holder": job_id, "state": _state(state)}
    if requeued is None:
        return KeyTakenError(Phrase("refusal.key_taken", **taken))
    return KeyTakenError(Phrase("refusal.key_taken_meanwhile", job=requeued, **taken))


def in_doubt(error: StoreError) -> StoreError:
    """Return the error for a call that may be stored all the same, as its answer never came."""
    doubtful = type(error)(
        f"{error}; whether this call was stored is not known: look, or repeat an enqueue with the same id, which"
        " changes nothing if it was"
    )
    doubtful.in_doubt = True
    return doubtful


def _state(state: str) -> Phrase:
    return Phrase(f"state.{state}")


def makes_way(job: NewJob, holder: str, state: State) -> bool:
    """Tell whether the job that has the key of a new one gives it up. Raises KeyTakenError if it is to."""
    if job.on_conflict is OnConflict.RAISE:
        raise key_taken(KeyHolder(job.task, job.key, holder, state))
    return job.on_conflict is OnConflict.REPLACE and state is not State.COMPLETED


# Errors of drivers as the causes of ours: where ours says it all, the traceback through the driver adds nothing.
#
# Not every OSError is one of the system: a signal handler may raise a TimeoutError, for example.

E = TypeVar("E", bound=BaseException)


def brief(error: E) -> E:
    """Return an error that a traceback tells in its own words alone: neither where it arose nor from what."""
    error.__context__ = error.__cause__ = None
    return error.with_traceback(None)


def refuse_foreign(error: OSError) -> None:
    """Raise an OSError that does not come from the system: one that a signal handler raised has no `errno`."""
    if error.errno is None:
        raise error
