"""Turns what happened to claims into events, once each, when the store has confirmed it."""

from collections.abc import Callable
from datetime import timedelta

import msgspec

from holdfast import events as event
from holdfast.clock import Clock
from holdfast.core.job import Claim, ClaimRef, Ending, Failure, Progress, Verdict
from holdfast.core.states import Move, Reason

_UNKNOWN_FAILURE = Failure("Unknown", "no failure was recorded")


class _Finished(msgspec.Struct, frozen=True):
    claim: Claim
    took: timedelta


class Announcer:
    """Remembers each claim between its end here and the store's verdict, then says what became of it."""

    def __init__(self, events: event.Events, clock: Clock) -> None:
        self._events = events
        self._clock = clock
        self._finished: dict[ClaimRef, _Finished] = {}

    def ended(self, claim: Claim, started_boot: float | None = None) -> None:
        """Remember a claim whose ending is on its way to the store."""
        took = 0.0 if started_boot is None else self._clock.boot() - started_boot
        self._finished[claim.ref] = _Finished(claim, timedelta(seconds=took))

    def progressed(self, claim: Claim, progress: Progress) -> None:
        """Say how far a job is."""
        self._events.emit(event.JobProgressed(*_whose(claim), progress))

    def settled(self, ending: Ending, verdict: Verdict) -> None:
        """Say what became of a claim, or that it was lost."""
        finished = self._finished.pop(ending.ref)
        if verdict is Verdict.STALE:
            self._events.emit(event.ClaimLost(*_whose(finished.claim)))
        else:
            self._events.emit(_SAY[ending.move](ending, finished))


def _whose(claim: Claim) -> tuple[str, str, str, int, int]:
    return claim.job_id, claim.task, claim.queue, claim.attempt + 1, claim.max_attempts


def _failure(ending: Ending) -> Failure:
    return ending.failure or _UNKNOWN_FAILURE


_SAY: dict[Move, Callable[[Ending, _Finished], event.Event]] = {
    Move.COMPLETE: lambda _, done: event.JobCompleted(*_whose(done.claim), done.took),
    Move.RETRY: lambda end, done: event.JobRetrying(*_whose(done.claim), _failure(end), end.delay),
    Move.SNOOZE: lambda end, done: event.JobSnoozed(*_whose(done.claim), end.delay),
    Move.RELEASE: lambda _, done: event.JobReleased(*_whose(done.claim)),
    Move.BLOCK: lambda end, done: event.JobBlocked(*_whose(done.claim), end.reason or Reason.NO_WORKER),
    Move.DIE: lambda end, done: event.JobDied(*_whose(done.claim), _failure(end)),
    Move.CANCEL: lambda end, done: event.JobCancelled(*_whose(done.claim), end.reason or Reason.REQUESTED),
}
