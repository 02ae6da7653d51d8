"""Turns what happens to claims into events, once each; how they ended, when the store has confirmed it."""

from collections import deque
from collections.abc import Callable
from datetime import datetime, timedelta

from msgspec.structs import replace

from standfast import events as event
from standfast.core.job import Claim, Ending, Failure, OnLate, Progress, Verdict
from standfast.core.states import Move, Reason
from standfast.tracing.port import Tracing
from standfast.worker.completer import Ended

_UNKNOWN_FAILURE = Failure("Unknown", "no failure was recorded")


MOST_LOST = 500
"""Jobs that a worker names when the store does not know it any more."""


class Announcer:
    """Says what happens to claims."""

    def __init__(self, events: event.Events, tracing: Tracing | None = None) -> None:
        self._events = events
        self._tracing = tracing
        self.lost = deque[Claim](maxlen=MOST_LOST)
        """Claims that the store has refused since its last accepted beat."""

    def late(self, claim: Claim, start_by: datetime, started_at: datetime) -> None:
        """Say that a job comes too late to its first start."""
        late, expires = started_at - claim.run_at, claim.on_late is OnLate.EXPIRE
        self._emit(event.JobLate(*_whose(claim), late, start_by=start_by, expires=expires), claim)

    def started(self, claim: Claim, started_at: datetime) -> None:
        """Say that a handler is about to run, if anybody hears it: it is said of every job."""
        if self._events.heard(event.JobStarted):
            self._emit(event.JobStarted(*_whose(claim), claim.run_at, started_at - claim.run_at), claim)

    def progressed(self, claim: Claim, progress: Progress) -> None:
        """Say how far a job is."""
        self._emit(event.JobProgressed(*_whose(claim), progress), claim)

    def settled(self, ended: Ended, verdict: Verdict) -> None:
        """Say what became of a claim, or that it was lost."""
        if verdict is Verdict.STALE:
            self.lost.append(ended.claim)
            told: event.JobEvent = event.ClaimLost(*_whose(ended.claim))
        else:
            told = _SAY[ended.ending.move](ended.ending, ended.claim, ended.seconds)
        if self._tracing is None:  # said of every job: a call more costs
            self._events.emit(told)
        else:
            self._emit(told, ended.claim)

    def _emit(self, told: event.JobEvent, claim: Claim) -> None:
        """Say it, with the trace of the job if there are traces."""
        if self._tracing is not None:
            told = replace(told, trace_id=self._tracing.trace_id(claim))
        self._events.emit(told)


def _whose(claim: Claim) -> tuple[str, str, str, int, int]:
    return claim.ref.job_id, claim.task, claim.queue, claim.attempt + 1, claim.max_attempts


def _failure(ending: Ending) -> Failure:
    return ending.failure or _UNKNOWN_FAILURE


_SAY: dict[Move, Callable[[Ending, Claim, float], event.JobEvent]] = {
    Move.COMPLETE: lambda _, claim, seconds: event.JobCompleted(*_whose(claim), timedelta(0, seconds)),
    Move.RETRY: lambda end, claim, _: event.JobRetrying(*_whose(claim), _failure(end), end.delay),
    Move.SNOOZE: lambda end, claim, _: event.JobSnoozed(*_whose(claim), end.delay, end.reason),
    Move.RELEASE: lambda _, claim, __: event.JobReleased(*_whose(claim)),
    Move.BLOCK: lambda end, claim, _: event.JobBlocked(
        *_whose(claim), end.reason or Reason.NO_WORKER, claim.version
    ),
    Move.DIE: lambda end, claim, _: event.JobDied(*_whose(claim), _failure(end)),
    Move.CANCEL: lambda end, claim, _: event.JobCancelled(*_whose(claim), end.reason or Reason.REQUESTED),
}
