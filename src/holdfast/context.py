"""What a running handler may ask and say about its own attempt.

A handler receives it by annotating a parameter with `Context`. It knows its claim, and reaches what is alive (was
the job cancelled, was it lost, where does progress go) through one small port that the worker implements.
"""

import logging
import math
from collections.abc import Callable, Mapping, MutableMapping
from datetime import datetime
from functools import cached_property
from types import TracebackType
from typing import Any, Protocol, Self

from holdfast.core.job import Claim, Progress
from holdfast.core.provenance import planned_of, schedule_of
from holdfast.errors import ArgumentsError, LostClaimError

JOB_LOGGER = "holdfast.job"
"""The name of the logger of `Context.log`."""

_LOGGER = logging.getLogger(JOB_LOGGER)
_SCRUB = "holdfast_scrub"

Scrub = Callable[[logging.LogRecord], None]
"""Takes the secrets of a job out of a log record."""


class Interrupted(BaseException):
    """The attempt should end now: its job was cancelled or lost, its worker stops, or a window is about to begin.

    Like `asyncio.CancelledError` it is no `Exception`, so that a handler's `except Exception` cannot swallow it.
    The worker knows which of them it was and ends the attempt accordingly.
    """


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

    def report(self, progress: Progress) -> None:
        """Take note of how far the job is; never blocks."""
        ...

    def transaction(self, connection: Any) -> Transaction:
        """Return a transaction on a connection of the handler's own, not yet begun."""
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


_LOGGER.addFilter(_clean)


class Context:
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
        """A key for outside services: the same in every attempt of this job, and of no other."""
        return f"holdfast-{self._claim.job_id}"

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
        """True once the handler should end: it was cancelled, its worker stops, or a window is about to begin."""
        return self._control.cancelled

    @property
    def lost(self) -> bool:
        """True while the claim is not known to be valid: another worker may have the job."""
        return self._control.lost

    @cached_property
    def log(self) -> JobLogger:
        """A logger whose records carry job_id, task, queue and attempt."""
        fields = {"job_id": self.job_id, "task": self.task, "queue": self.queue, "attempt": self.attempt}
        return JobLogger(_LOGGER, fields if self._scrub is None else {**fields, _SCRUB: self._scrub})

    def progress(self, done: float, total: float | None = None) -> None:
        """Say how far the job is; anyone may see it. Returns at once, from any thread.

        Raises LostClaimError where the job is known to be lost.
        """
        if self._control.taken:
            raise LostClaimError(f"job {self.job_id} was lost to another worker; end the handler")
        for name, value in (("done", done), ("total", total)):
            if value is not None and not (math.isfinite(value) and value >= 0):
                raise ArgumentsError(f"progress {name} must be a finite number, zero or more, not {value!r}")
        self._control.report(Progress(float(done), None if total is None else float(total)))

    def raise_if_cancelled(self) -> None:
        """End the attempt here if its job was cancelled or is another's by now, or it was told or asked to end."""
        if self._control.cancelled or self._control.taken:
            raise Interrupted

    def transaction(self, connection: Any) -> Transaction:
        """Write rows of your own and complete the job in one transaction, on a connection to the store's database.

        `with ctx.transaction(connection) as tx:` begins (with the write lock) unless a transaction is open; the end
        of the block completes the job, with `tx.result`, and commits. After that the outcome is fixed: whatever
        the handler does then changes nothing. An exception in the block rolls back and goes on.

        Raises ConfigurationError, before anything is done, for a connection that cannot be used;
        LostClaimError, after rolling back, where the job is another's by now; and JobStateError where a
        transaction has completed the job before.
        """
        return self._control.transaction(connection)

    def fault_point(self, name: str) -> None:
        """Name this place, so that a test can let the handler fail here; does nothing otherwise."""
        self._control.fault_point(name)
