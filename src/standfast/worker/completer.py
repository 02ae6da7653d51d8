"""Judges what a handler did, sends endings to the store, and announces them when the store has confirmed them."""

import asyncio
import logging
import traceback
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass
from datetime import datetime, timedelta
from random import Random
from typing import Any

import msgspec
from msgspec.structs import replace

from standfast import events as event
from standfast.errors import PayloadError, StandfastError, StepError, StoreError, ValueNotStoredError
from standfast.model.backoff import Exponential
from standfast.model.codec import Results
from standfast.model.job import UNREADABLE, Claim, Ending, Failure, OnLate, Progress, UnreadableClaim, Verdict
from standfast.model.outcomes import Cancel, Discard, Fail, Outcome, Retry, Snooze, Success, Suspended, meant_by
from standfast.model.policy import Policy
from standfast.model.secrets import NO_SECRETS, Scrub
from standfast.model.states import RETURNS, STARTED_ITS_LAST, Move, Reason
from standfast.model.tracing import Tracing
from standfast.model.validation import MAX_DELAY
from standfast.observe.figures.counts import Tally
from standfast.observe.logs.job_log import legible, text_of
from standfast.worker.claim_log import ClaimLog
from standfast.worker.storecalls import StoreCalls

TRACEBACK_LIMIT = 16_000  # characters kept of a traceback: its end says most
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


# While one batch is on its way the next one gathers. `finish` is idempotent: an unanswered batch is sent again,
# also when the loop is restarted after a failure.

log = logging.getLogger(__name__)

BATCH = 500
BACKLOG_LIMIT = 2_000


class Ended(msgspec.Struct, frozen=True, gc=False):
    """A claim that has ended here, and for how many seconds its handler ran."""

    claim: Claim
    ending: Ending
    seconds: float = 0.0


@dataclass(eq=False)
class Completer:
    """The only place where claims are ended by a worker, but for a handler's own `ctx.transaction`.

    `tally` counts the answers, `settled` hears of each, and `relieved` after a batch that may have been one of a
    crowd, so that there is room again, or that gave back jobs which may be due.
    """

    calls: StoreCalls
    worker: str
    notes: ClaimLog
    settled: Callable[[Ended, Verdict], None]
    relieved: Callable[[], None]
    _: KW_ONLY
    tally: Tally

    def __post_init__(self) -> None:
        self._waiting: list[Ended] = []
        self._under_way: Sequence[Ended] = ()
        self._news = asyncio.Event()
        self._empty = asyncio.Event()
        self._empty.set()

    @property
    def crowded(self) -> bool:
        """Whether so much waits to be sent that no more jobs should be taken."""
        return len(self._waiting) >= BACKLOG_LIMIT

    def add(self, ended: Ended) -> None:
        """Send this ending as soon as possible."""
        self._waiting.append(ended)
        self._empty.clear()
        self._news.set()

    async def flushed(self) -> None:
        """Wait until every ending was answered."""
        await self._empty.wait()

    async def run(self) -> None:
        """Send for as long as the worker lives, first what was under way when this failed before."""
        if self._under_way:
            self._news.set()
            await self._send(self._under_way)  # not with others: a later claim of the same job may be among those
        while True:
            await self._news.wait()
            self._news.clear()
            while self._waiting:
                batch, self._waiting = self._waiting[:BATCH], self._waiting[BATCH:]
                self._under_way = batch
                await self._send(batch)
            self._empty.set()

    async def _send(self, batch: Sequence[Ended]) -> None:
        endings = [ended.ending for ended in batch]
        try:
            verdicts = await self.calls.until_answered(
                lambda: self.calls.verbs.finish(self.worker, endings), passing=(StoreError,)
            )
        except ValueNotStoredError as error:
            await self._send_apart(batch, error)
            return
        self._answered(batch, verdicts)

    async def _send_apart(self, batch: Sequence[Ended], error: ValueNotStoredError) -> None:
        """One ending that the store cannot take must not hold up the others."""
        if len(batch) > 1:
            for ended in batch:
                await self._send([ended])
            return
        log.error("job %s: its outcome cannot be stored and it will run again: %s", batch[0].claim.job_id, error)
        self._answered(batch, [Verdict.STALE])

    def _answered(self, batch: Sequence[Ended], verdicts: Sequence[Verdict]) -> None:
        self.notes.ended(ended.claim.ref for ended in batch)
        self._under_way = self._under_way[len(batch) :]  # they are answered in the order in which they were sent
        self.tally.count(batch, verdicts)
        for ended, verdict in zip(batch, verdicts, strict=True):
            self.settled(ended, verdict)
        if len(batch) == BATCH or any(ended.ending.move in RETURNS for ended in batch):
            self.relieved()


_UNKNOWN_FAILURE = Failure("Unknown", "no failure was recorded")
MOST_LOST = 500  # jobs that a worker names when the store does not know it any more


class Announcer:
    """Says what happens to claims."""

    def __init__(self, events: event.Events, tracing: Tracing | None = None) -> None:
        self._events = events
        self._tracing = tracing
        self.lost = deque[Claim](maxlen=MOST_LOST)  # claims that the store has refused since its last accepted beat

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
