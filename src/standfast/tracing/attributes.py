"""What spans say of jobs: names and values as OpenTelemetry's conventions for messaging have them, and our own."""

from collections.abc import Mapping, Sequence

from standfast.core.job import Claim, Ending, Failure, NewJob
from standfast.core.memo import signal_name
from standfast.core.states import Move

Attributes = dict[str, str | int | float]

SYSTEM = "standfast"


def of_enqueue(jobs: Sequence[NewJob]) -> Attributes:
    """Return what is known of jobs that are about to be enqueued."""
    first = jobs[0]
    known: Attributes = {
        "messaging.system": SYSTEM,
        "messaging.operation.name": "enqueue",
        "messaging.operation.type": "send",
        "messaging.destination.name": first.queue,
        "standfast.task": first.task,
    }
    if len(jobs) == 1:
        return known | {"messaging.message.id": first.id}
    return known | {"messaging.batch.message_count": len(jobs)}


def of_wait(claim: Claim) -> Attributes:
    """Return what is known of the time that a job waited: little, as every job pays for it; the run has more."""
    return {
        "messaging.system": SYSTEM,
        "messaging.message.id": claim.job_id,
        "standfast.task": claim.task,
        "standfast.fence": claim.fence,
    }


def of_run(claim: Claim, worker: str) -> Attributes:
    """Return what is known of an attempt that begins."""
    return {
        "messaging.system": SYSTEM,
        "messaging.operation.name": "run",
        "messaging.operation.type": "process",
        "messaging.destination.name": claim.queue,
        "messaging.message.id": claim.job_id,
        "standfast.task": claim.task,
        "standfast.attempt": claim.attempt + 1,
        "standfast.max_attempts": claim.max_attempts,
        "standfast.fence": claim.fence,
        "standfast.worker": worker,
    }


def of_failure(failure: Failure) -> Attributes:
    """Return an exception as OpenTelemetry's events have it."""
    told: Attributes = {"exception.type": failure.type, "exception.message": failure.message}
    return told | {"exception.stacktrace": failure.traceback} if failure.traceback else told


def outcome_of(ending: Ending | None) -> str:
    """Return in a word how an attempt ended."""
    return "lost" if ending is None else str(ending.move)


def event_of(ending: Ending) -> tuple[str, Mapping[str, str | int | float]] | None:
    """Return what an ending means for the time after it: another try, or a wait."""
    delay: Attributes = {"standfast.delay": ending.delay.total_seconds()}
    match ending.move:
        case Move.RETRY:
            return "retry", delay
        case Move.SNOOZE:
            name = signal_name(ending.reason)
            if name is not None:
                return "wait_for", {"standfast.signal": name}
            return ("snooze" if ending.reason is None else "sleep_until"), delay
        case _:
            return None
