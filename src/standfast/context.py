"""What a running handler may ask and say about its own attempt.

A handler receives it by annotating a parameter with `Context`. It knows its claim, and reaches what is alive (was
the job cancelled, was it lost, where does progress go) through one small port that the worker implements.
"""

import inspect
import logging
import math
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, MutableMapping
from datetime import datetime
from functools import cached_property
from types import TracebackType
from typing import Any, Protocol, Self, TypeVar
from urllib.parse import quote

from standfast.durable.durable_context import DurableAttempt, DurableContext, JobFiles
from standfast.durable.files import FileStore, SavedFile, Source
from standfast.durable.runtime import Notebook, current_attempt, current_step
from standfast.errors import ArgumentsError, ConfigurationError, LostClaimError
from standfast.model.codec import Injected
from standfast.model.concurrency import refuse_in_event_loop
from standfast.model.job import Claim, Progress, planned_of, schedule_of
from standfast.model.outcomes import Interrupted
from standfast.model.suggestions import with_migration_hints
from standfast.model.validation import MAX_DELAY, Seconds, as_seconds, is_finite

LONGEST_SLEEP = MAX_DELAY.total_seconds()


class Life(Injected, ABC):
    """What a function gets that annotates a parameter with it: word of when it should end.

    Work in the background has one of its own; in a job it is the `Context`. So one function can serve as both.
    """

    @property
    @abstractmethod
    def cancelled(self) -> bool:
        """True once the work should end."""

    @abstractmethod
    def raise_if_cancelled(self) -> None:
        """End the work here if it should end."""

    def sleep(self, seconds: Seconds) -> None:
        """Sleep here, for seconds or a timedelta; once the work should end, wake at once and end it here.

        In async code `asleep`.
        """
        refuse_in_event_loop("sleep(…)", "await asleep(…)", ArgumentsError)
        span = _read(seconds)
        self.raise_if_cancelled()
        self._nap(span)
        self.raise_if_cancelled()

    async def asleep(self, seconds: Seconds) -> None:
        """Sleep as `sleep` does, and let the event loop go on meanwhile."""
        span = _read(seconds)
        self.raise_if_cancelled()
        await self._anap(span)
        self.raise_if_cancelled()

    @abstractmethod
    def _nap(self, seconds: float) -> None:
        """Block this thread for so long, or until the work should end."""

    @abstractmethod
    async def _anap(self, seconds: float) -> None:
        """Await that."""


def _read(seconds: Any) -> float:
    span = as_seconds(seconds)
    if not (is_finite(span) and 0 <= span <= LONGEST_SLEEP):
        raise ArgumentsError(
            f"a sleep takes seconds or a timedelta, from 0 to a hundred years, not {seconds!r:.80}"
        )
    return float(span)


JOB_LOGGER = "standfast.job"
"""The name of the logger of `Context.log`."""

T = TypeVar("T")

_LOGGER = logging.getLogger(JOB_LOGGER)
_SCRUB = "standfast_scrub"

Scrub = Callable[[logging.LogRecord], None]
"""Takes the secrets of a job out of a log record."""


class Transaction(Protocol):
    """A transaction of the handler's own that completes its job: `with` it, or `async with` an async connection.

    The end of the block completes the job and commits, both or neither; an exception rolls back and goes on.
    """

    result: Any
    """What the job results in; None unless it is set."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    async def __aenter__(self) -> Self: ...

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


class AttemptControl(Protocol):
    """The live side of one attempt. Every member may be used from any thread."""

    @property
    def cancelled(self) -> bool:
        """True once the handler should end: it was cancelled, its worker stops, or a window is about to begin."""
        ...

    @property
    def lost(self) -> bool:
        """True while the claim is not known to be valid any more."""
        ...

    @property
    def taken(self) -> bool:
        """True once it is known that the claim belongs to someone else."""
        ...

    @property
    def notebook(self) -> Notebook:
        """The memos of the job."""
        ...

    def report(self, progress: Progress) -> None:
        """Take note of how far the job is; never blocks."""
        ...

    def transaction(self, connection: Any) -> Transaction:
        """Return a transaction on a connection of the handler's own, not yet begun."""
        ...

    @property
    def shelf(self) -> FileStore:
        """Where files of the job are put."""
        ...

    @property
    def durable(self) -> DurableAttempt:
        """What outlives this attempt: steps and waits."""
        ...

    def nap(self, seconds: float) -> None:
        """Block this thread for so long, or until the handler should end."""
        ...

    async def anap(self, seconds: float) -> None:
        """Let the event loop go on for so long, or until the handler should end."""
        ...

    def fault_point(self, name: str) -> None:
        """Pass a place in a handler that has a name; tests may let it fail there."""
        ...


class JobLogger(logging.LoggerAdapter[logging.Logger]):
    """Adds the job's fields to each record, and keeps the `extra` of the caller."""

    def process(self, msg: Any, kwargs: MutableMapping[str, Any]) -> tuple[Any, MutableMapping[str, Any]]:
        """Return the message as it is, and the fields of the job beside those given."""
        kwargs["extra"] = {**(self.extra or {}), **(kwargs.get("extra") or {})}
        return msg, kwargs


def _clean(record: logging.LogRecord) -> bool:
    """Keep the secrets of its job out of a record, before anyone hears it."""
    scrub: Scrub | None = record.__dict__.pop(_SCRUB, None)
    if scrub is not None:
        scrub(record)
    return True


def _is_amount(value: Any) -> bool:
    try:
        return bool(0 <= value < math.inf)
    except TypeError:
        return False


_LOGGER.addFilter(_clean)


@with_migration_hints({"retry": "write `raise standfast.Retry(delay=...)`"})
class Context(Life, DurableContext):
    """One attempt of a job, as its handler sees it. `scrub` cleans what it logs."""

    def __init__(self, claim: Claim, control: AttemptControl, scrub: Scrub | None = None) -> None:
        self._claim = claim
        self._control = control
        self._scrub = scrub

    @property
    def job_id(self) -> str:
        """The id of the job."""
        return self._claim.job_id

    @property
    def task(self) -> str:
        """The name of the task."""
        return self._claim.task

    @property
    def queue(self) -> str:
        """The queue that the job came from."""
        return self._claim.queue

    @property
    def attempt(self) -> int:
        """Which attempt this is: 1 for the first run."""
        return self._claim.attempt + 1

    @property
    def max_attempts(self) -> int:
        """After how many failed attempts the job is dead."""
        return self._claim.max_attempts

    @property
    def fence(self) -> int:
        """The fencing token of this claim: greater than that of any earlier claim of the job."""
        return self._claim.fence

    @property
    def idempotency_key(self) -> str:
        """A key for outside services: the same in every attempt of this job, and of no other.

        Inside a step it is the step's own, the same in every attempt too.
        """
        step = current_step.get()
        key = f"standfast-{self._claim.job_id}"
        return key if step is None else f"{key}-{quote(step.name, safe='')}"

    @property
    def metadata(self) -> Mapping[str, str]:
        """What was noted about the job when it was enqueued."""
        return self._claim.metadata

    @property
    def schedule(self) -> str | None:
        """The name of the schedule that the job comes from; None where it was enqueued otherwise."""
        return schedule_of(self._claim.metadata)

    @property
    def planned_at(self) -> datetime | None:
        """The time for which the schedule planned the job, the same in every attempt; None without a schedule.

        It is the time to work by: the job itself may start later, by its jitter, a backfill, or once it was missed.
        """
        return planned_of(self._claim.metadata)

    @property
    def cancelled(self) -> bool:
        """True once the handler should end: it was cancelled, its worker stops, or a window is about to begin.

        Inside a step with a timeout, also when that is over.
        """
        step = current_step.get()
        return self._control.cancelled or (step is not None and step.overdue)

    @property
    def lost(self) -> bool:
        """True while the claim is not known to be valid: another worker may have the job."""
        return self._control.lost

    @cached_property
    def log(self) -> JobLogger:
        """A logger whose records carry job_id, task, queue and attempt."""
        fields = {"job_id": self.job_id, "task": self.task, "queue": self.queue, "attempt": self.attempt}
        return JobLogger(_LOGGER, fields if self._scrub is None else {**fields, _SCRUB: self._scrub})

    def progress(self, done: float, total: float | None = None, note: str | None = None) -> None:
        """Say how far the job is and, in a note, what it is doing; anyone may see it.

        It returns at once, from any thread. A note is cut after 200 characters; of several in quick succession
        the last is stored. Raises LostClaimError where the job is known to be lost.
        """
        if self._control.taken:
            raise LostClaimError(f"job {self.job_id} was lost to another worker; end the handler")
        for name, value in (("done", done), ("total", total)):
            if value is not None and not _is_amount(value):
                raise ArgumentsError(f"progress {name} must be a finite number, zero or more, not {value!r:.80}")
        if not isinstance(note, str | None):
            raise ArgumentsError(f"the note of a progress must be a text, not {type(note).__name__}")
        self._control.report(Progress(float(done), None if total is None else float(total), note))

    def raise_if_cancelled(self) -> None:
        """End the attempt here if its job was cancelled or is another's by now, or it was told or asked to end."""
        if self.cancelled or self._control.taken:
            raise Interrupted

    def _nap(self, seconds: float) -> None:
        self._control.nap(_in_step(seconds))

    async def _anap(self, seconds: float) -> None:
        await self._control.anap(_in_step(seconds))

    def save_file(self, name: str, data: Source) -> SavedFile:
        """Keep a file with the job: bytes, or the pathlib.Path of a file, which is copied.

        When this returns, the file and its entry in the store are safe; saved again, it replaces the one
        before. In async code `asave_file`. Raises ArgumentsError, ConfigurationError without a folder, and
        LostClaimError.
        """
        return self._filing.save(name, data)

    async def asave_file(self, name: str, data: Source) -> SavedFile:
        """Keep a file with the job, as `save_file` does, without blocking the event loop."""
        return await self._filing.asave(name, data)

    @property
    def files(self) -> Mapping[str, SavedFile]:
        """The files of the job by name, those of earlier attempts included. In async code `await ctx.afiles()`."""
        return self._filing.all()

    async def afiles(self) -> Mapping[str, SavedFile]:
        """Return the files of the job by name, without blocking the event loop."""
        return await self._filing.aall()

    @cached_property
    def _filing(self) -> JobFiles:
        return JobFiles(self._waiting, self._durable.memos, self._control.shelf, self._claim.ref)

    @property
    def _durable(self) -> DurableAttempt:
        return self._control.durable

    def transaction(self, connection: Any) -> Transaction:
        """Write rows of your own and complete the job in one transaction, on a connection to the store's database.

        `with ctx.transaction(connection) as tx:` begins unless a transaction is open; its end completes the job
        with `tx.result` and commits, an exception rolls back. Raises ConfigurationError for a connection that
        cannot be used, LostClaimError where the job is another's by now, JobStateError where it was completed
        before.
        """
        return self._control.transaction(connection)

    def fault_point(self, name: str) -> None:
        """Name this place, so that a test can let the handler fail here; does nothing otherwise."""
        self._control.fault_point(name)


def current_context() -> Context:
    """Return the Context of the job that the present code belongs to, from any depth of its handler.

    Raises ConfigurationError where no job runs.
    """
    attempt = current_attempt.get()
    if attempt is None:
        raise ConfigurationError(
            "current_context() is called where no job runs here: call it in a handler, or in what that calls; to a"
            " thread of your own pass the context"
        )
    context: Context = attempt.context
    return context


def _in_step(seconds: float) -> float:
    """Return how long a sleep lasts at most: to the end of the time of the step that it is in."""
    step = current_step.get()
    return seconds if step is None else min(seconds, step.left)


CallNext = Callable[[], Awaitable[Any]]
"""Runs the next middleware, or the handler, and returns what it returned."""

Middleware = Callable[[Context, CallNext], Awaitable[Any]]
"""Runs around each attempt: `async def around(ctx, call_next)`."""

Lifespan = Callable[[Any], AsyncIterator[None]]
"""Sets up before a worker's first job, yields once, and tears down after its last: `async def lifespan(app)`."""


def check_middleware(around: Any) -> None:
    """Raise ConfigurationError unless this can be middleware."""
    if not inspect.iscoroutinefunction(around) or not _takes(around, 2):
        name = name_of(around)
        raise ConfigurationError(f"{name} cannot be middleware: write it as `async def {name}(ctx, call_next)`")


def check_lifespan(lifespan: Any) -> None:
    """Raise ConfigurationError unless this can be a lifespan."""
    if not inspect.isasyncgenfunction(lifespan) or not _takes(lifespan, 1):
        name = name_of(lifespan)
        raise ConfigurationError(f"{name} cannot be a lifespan: write it as `async def {name}(app)` with a `yield`")


def name_of(hook: Any) -> str:
    """Return the name that its author gave it."""
    return getattr(hook, "__qualname__", None) or repr(hook)


def _takes(function: Callable[..., Any], count: int) -> bool:
    try:
        inspect.signature(function).bind(*range(count))
    except TypeError:
        return False
    return True
