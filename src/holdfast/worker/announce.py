"""Turns what happened to claims into events, once each, when the store has confirmed it."""

from collections.abc import Callable
from datetime import timedelta

from holdfast import events as event
from holdfast.clock import Clock
from holdfast.core.job import Claim, ClaimRef, Ending, Failure, Progress, Verdict
from holdfast.core.states import Move, Reason

_UNKNOWN_FAILURE = Failure("Unknown", "no failure was recorded")


class Announcer:
    """Remembers each claim between its end here and the store's verdict, then says what became of it."""

    def __init__(self, events: event.Events, clock: Clock) -> None:
        self._events = events
        self._clock = clock
        self._finished: dict[ClaimRef, tuple[Claim, float]] = {}
        """The claims that ended here, and for how many seconds their handlers ran."""

    def ended(self, claim: Claim, started_boot: float | None = None) -> None:
        """Remember a claim whose ending is on its way to the store."""
        seconds = 0.0 if started_boot is None else self._clock.boot() - started_boot
        self._finished[claim.ref] = claim, seconds

    def progressed(self, claim: Claim, progress: Progress) -> None:
        """Say how far a job is."""
        self._events.emit(event.JobProgressed(*_whose(claim), progress))

    def settled(self, ending: Ending, verdict: Verdict) -> None:
        """Say what became of a claim, or that it was lost."""
        claim, seconds = self._finished.pop(ending.ref)
        if verdict is Verdict.STALE:
            self._events.emit(event.ClaimLost(*_whose(claim)))
        else:
            self._events.emit(_SAY[ending.move](ending, claim, seconds))


def _whose(claim: Claim) -> tuple[str, str, str, int, int]:
    return claim.ref.job_id, claim.task, claim.queue, claim.attempt + 1, claim.max_attempts


def _failure(ending: Ending) -> Failure:
    return ending.failure or _UNKNOWN_FAILURE


_SAY: dict[Move, Callable[[Ending, Claim, float], event.Event]] = {
    Move.COMPLETE: lambda _, claim, seconds: event.JobCompleted(*_whose(claim), timedelta(0, seconds)),
    Move.RETRY: lambda end, claim, _: event.JobRetrying(*_whose(claim), _failure(end), end.delay),
    Move.SNOOZE: lambda end, claim, _: event.JobSnoozed(*_whose(claim), end.delay),
    Move.RELEASE: lambda _, claim, __: event.JobReleased(*_whose(claim)),
    Move.BLOCK: lambda end, claim, _: event.JobBlocked(*_whose(claim), end.reason or Reason.NO_WORKER),
    Move.DIE: lambda end, claim, _: event.JobDied(*_whose(claim), _failure(end)),
    Move.CANCEL: lambda end, claim, _: event.JobCancelled(*_whose(claim), end.reason or Reason.REQUESTED),
}
