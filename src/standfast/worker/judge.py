"""Turns what a handler did into how its claim ends. Pure, but for the random source of the backoff."""

import traceback
from datetime import datetime, timedelta
from random import Random
from typing import Any

import msgspec
from msgspec.structs import replace

from standfast.codec import NO_SECRETS, Results, Scrub
from standfast.core.backoff import Exponential
from standfast.core.interruption import Suspended, meant_by
from standfast.core.job import UNREADABLE, Claim, Ending, Failure, UnreadableClaim
from standfast.core.outcome import Cancel, Discard, Fail, Outcome, Retry, Snooze, Success
from standfast.core.states import STARTED_ITS_LAST, Move, Reason
from standfast.errors import PayloadError, StandfastError, StepError
from standfast.policy import MAX_DELAY, Policy
from standfast.worker.legible import legible, text_of

TRACEBACK_LIMIT = 16_000
"""Characters kept of a traceback: its end says most."""


ANY_RESULT = Results()


class Judge(msgspec.Struct, frozen=True, gc=False):
    """Decides for one attempt; its words go through `scrub`, and what is returned is written by `results`."""

    claim: Claim
    policy: Policy
    started_at: datetime
    random: Random
    scrub: Scrub = NO_SECRETS
    results: Results = ANY_RESULT

    def returned(self, value: Any) -> Ending:
        """Judge what the handler returned."""
        if isinstance(value, Outcome):
            if not isinstance(value, Success):
                return self.said(value)
            value = value.result
        try:
            result = self.results.encode(value)
        except StandfastError as error:
            return self.dead(Failure(type(error).__name__, self._text(error)))
        kept = self.policy.keep_result
        return Ending(self.claim.ref, Move.COMPLETE, self.started_at, result=result, keep_result=kept)

    def raised(self, error: BaseException) -> Ending:
        """Judge what the handler raised."""
        if (outcome := meant_by(error, Outcome)) is not None:
            return self.returned(outcome)
        failure = describe(error, self.scrub)
        if isinstance(error, StepError):
            return self.dead(failure)
        if isinstance(error, self.policy.discard_on):
            return self._ending(Move.CANCEL, reason=Reason.DISCARDED, failure=failure)
        if self.policy.retry_on and not isinstance(error, self.policy.retry_on):
            return self.dead(failure)
        return self.failed(failure)

    def said(self, outcome: Outcome) -> Ending:
        """Do as the handler decided; a decision that cannot be carried out is a failure."""
        try:
            return self._said(outcome)
        except (TypeError, ValueError, OverflowError) as error:
            return self.failed(describe(error, self.scrub))

    def _said(self, outcome: Outcome) -> Ending:
        match outcome:
            case Retry(reason=reason, delay=delay):
                return self.failed(Failure("Retry", self._text(reason)), None if delay is None else _span(delay))
            case Snooze(delay=delay):
                return self._ending(Move.SNOOZE, delay=_span(delay))
            case Discard(reason=reason):
                failure = Failure("Discard", self._text(reason)) if reason else None
                return self._ending(Move.CANCEL, reason=Reason.DISCARDED, failure=failure)
            case Cancel(reason=reason):
                return self._ending(Move.CANCEL, reason=self._text(reason))
            case Fail(reason=reason):
                return self.dead(Failure("Fail", self._text(reason)))
            case _:
                return self.failed(describe(outcome, self.scrub))

    def failed(self, failure: Failure, delay: timedelta | None = None) -> Ending:
        """Charge an attempt: another try after the delay, or death when none is left."""
        charged = self.claim.attempt + 1
        if charged >= self.claim.max_attempts:
            return self.dead(failure)
        if delay is None:
            try:
                delay = _span(self.policy.backoff.delay(charged, self.random))
            except Exception as error:  # noqa: BLE001 - a user's own backoff may raise anything
                delay = Exponential().delay(charged, self.random)
                failure = replace(
                    failure, message=f"{failure.message} (its backoff failed too: {self._text(error)})"
                )
        return self._ending(Move.RETRY, delay=delay, failure=failure)

    def timed_out(self) -> Ending:
        """Judge a handler that ran longer than it may."""
        return self.failed(Failure("TimeoutError", f"ran longer than its timeout of {self.policy.timeout:g} s"))

    def dead(self, failure: Failure) -> Ending:
        """No further attempt helps."""
        return self._ending(Move.DIE, failure=failure)

    def put_off(self, delay: timedelta = timedelta()) -> Ending:
        """Give back a job that was not started after all, even if it was marked."""
        return self._ending(Move.SNOOZE, delay=max(delay, timedelta()))

    def suspended(self, suspended: Suspended) -> Ending:
        """Let the job wait as its handler asked; it ended its run by itself, so even a last attempt runs again."""
        return self._ending(Move.SNOOZE, delay=max(suspended.delay, timedelta()), reason=suspended.reason)

    def released(self) -> Ending:
        """Give the job back as it was, unless it must not start twice."""
        if self.claim.max_attempts == 1:
            return self.dead(Failure("Interrupted", STARTED_ITS_LAST))
        return self._ending(Move.RELEASE)

    def released_for(self, delay: timedelta) -> Ending:
        """Give the job back for as long as a window lasts, unless it must not start twice."""
        ending = self.released()
        return ending if ending.move is Move.DIE else self.put_off(delay)

    def expired(self) -> Ending:
        """End a job that would start too late to be of use; it never started."""
        return Ending(self.claim.ref, Move.CANCEL, reason=Reason.EXPIRED)

    def cancelled(self) -> Ending:
        """End a job whose cancellation was asked for."""
        return self._ending(Move.CANCEL, reason=Reason.REQUESTED)

    def _text(self, words: object) -> str:
        return text_of(words, self.scrub)

    def _ending(self, move: Move, **details: Any) -> Ending:
        return Ending(self.claim.ref, move, started_at=self.started_at, **details)


def broken(claim: Claim, error: BaseException, random: Random, scrub: Scrub) -> Ending:
    """Judge an attempt that broke outside its handler: a failure, with the default wait before the next try."""
    failure, charged = describe(error, scrub), claim.attempt + 1
    if charged >= claim.max_attempts:
        return Ending(claim.ref, Move.DIE, failure=failure)
    return Ending(claim.ref, Move.RETRY, delay=Exponential().delay(charged, random), failure=failure)


def unreadable(claim: Claim, problem: str) -> Ending:
    """End a job that the store cannot read: no attempt would help."""
    failure = Failure(_name(PayloadError), f"{UNREADABLE}: {problem}")
    return Ending(claim.ref, Move.DIE, failure=failure)


def problem_of(claim: Claim) -> str | None:
    """Return why the job of a claim cannot be read, if it cannot; asked only of a task that is not known."""
    if isinstance(claim, UnreadableClaim):
        return claim.problem
    return None if isinstance(claim.task, str) else "the name of its task is no text"


def describe(error: BaseException, scrub: Scrub = NO_SECRETS) -> Failure:
    """Return an exception as text that every store can hold, without secrets."""
    name = scrub.text(_name(type(error)))
    return Failure(name, text_of(error, scrub), legible(scrub.text(_trace(error))[-TRACEBACK_LIMIT:]))


def _trace(error: BaseException) -> str:
    try:
        return "".join(traceback.format_exception(error))
    except BaseException:  # noqa: BLE001 - code of the handler's own exceptions takes part in it
        frames = "".join(traceback.format_tb(error.__traceback__))
        return f"{frames}(the exception itself cannot be written down: its own code raises)"


def _name(kind: type[BaseException]) -> str:
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


def _span(delay: timedelta | float) -> timedelta:
    """Return a wait; what lies in the past is now. Raises where it is no wait at all, or a mistake in units."""
    span = delay if isinstance(delay, timedelta) else timedelta(seconds=delay)
    if span > MAX_DELAY:
        raise ValueError(f"delay must be a timedelta or seconds, at most a hundred years, not {delay!r}")
    return max(span, timedelta())
