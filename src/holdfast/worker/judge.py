"""Turns what a handler did into how its claim ends. Pure, but for the random source of the backoff."""

import traceback
from dataclasses import dataclass
from datetime import datetime, timedelta
from random import Random
from typing import Any

from holdfast.codec import encode_result
from holdfast.core.job import Claim, Ending, Failure
from holdfast.core.outcome import Cancel, Discard, Fail, Outcome, Retry, Snooze, Success
from holdfast.core.states import STARTED_ITS_LAST, Move, Reason
from holdfast.errors import HoldfastError
from holdfast.task import Policy

TRACEBACK_LIMIT = 16_000
"""Characters kept of a traceback: its end says most."""


@dataclass(frozen=True, slots=True)
class Judge:
    """Decides for one attempt."""

    claim: Claim
    policy: Policy
    started_at: datetime
    random: Random

    def returned(self, value: Any) -> Ending:
        """Judge what the handler returned."""
        if isinstance(value, Success):
            value = value.result
        elif isinstance(value, Outcome):
            return self.said(value)
        try:
            result = encode_result(value)
        except HoldfastError as error:
            return self.dead(Failure(type(error).__name__, str(error)))
        return self._ending(Move.COMPLETE, result=result)

    def raised(self, error: BaseException) -> Ending:
        """Judge what the handler raised."""
        if isinstance(error, Success):
            return self.returned(error.result)
        if isinstance(error, Outcome):
            return self.said(error)
        failure = describe(error)
        if isinstance(error, self.policy.discard_on):
            return self._ending(Move.CANCEL, reason=Reason.DISCARDED, failure=failure)
        if self.policy.retry_on and not isinstance(error, self.policy.retry_on):
            return self.dead(failure)
        return self.failed(failure)

    def said(self, outcome: Outcome) -> Ending:
        """Do as the handler decided."""
        match outcome:
            case Retry(reason=reason, delay=delay):
                return self.failed(Failure("Retry", reason), delay)
            case Snooze(delay=delay):
                return self._ending(Move.SNOOZE, delay=_span(delay))
            case Discard(reason=reason):
                failure = Failure("Discard", reason) if reason else None
                return self._ending(Move.CANCEL, reason=Reason.DISCARDED, failure=failure)
            case Cancel(reason=reason):
                return self._ending(Move.CANCEL, reason=reason)
            case Fail(reason=reason):
                return self.dead(Failure("Fail", reason))
            case _:
                return self.failed(describe(outcome))

    def failed(self, failure: Failure, delay: timedelta | float | None = None) -> Ending:
        """Charge an attempt: another try after the delay, or death when none is left."""
        charged = self.claim.attempt + 1
        if charged >= self.claim.max_attempts:
            return self.dead(failure)
        wait = self.policy.backoff.delay(charged, self.random) if delay is None else _span(delay)
        return self._ending(Move.RETRY, delay=wait, failure=failure)

    def timed_out(self) -> Ending:
        """Judge a handler that ran longer than it may."""
        return self.failed(Failure("TimeoutError", f"ran longer than its timeout of {self.policy.timeout:g} s"))

    def dead(self, failure: Failure) -> Ending:
        """No further attempt helps."""
        return self._ending(Move.DIE, failure=failure)

    def put_off(self) -> Ending:
        """Give back a job that was not started after all, even if it was marked."""
        return self._ending(Move.SNOOZE)

    def released(self) -> Ending:
        """Give the job back as it was, unless it must not start twice."""
        if self.claim.max_attempts == 1:
            return self.dead(Failure("Interrupted", STARTED_ITS_LAST))
        return self._ending(Move.RELEASE)

    def cancelled(self) -> Ending:
        """End a job whose cancellation was asked for."""
        return self._ending(Move.CANCEL, reason=Reason.REQUESTED)

    def _ending(self, move: Move, **details: Any) -> Ending:
        return Ending(self.claim.ref, move, started_at=self.started_at, **details)


def describe(error: BaseException) -> Failure:
    """Return an exception as text."""
    text = "".join(traceback.format_exception(error))
    return Failure(_name(type(error)), str(error), text[-TRACEBACK_LIMIT:])


def _name(kind: type[BaseException]) -> str:
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


def _span(delay: timedelta | float) -> timedelta:
    span = delay if isinstance(delay, timedelta) else timedelta(seconds=delay)
    return max(span, timedelta())
