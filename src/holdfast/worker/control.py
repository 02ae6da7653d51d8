"""The live side of one attempt: what its handler can ask, and how it is told to stop."""

import asyncio
from collections.abc import Callable
from datetime import datetime
from enum import Enum
from typing import Any

from msgspec.structs import replace

from holdfast.codec import NO_SECRETS, Scrub
from holdfast.context import Transaction
from holdfast.core.job import Claim, Ending, Progress
from holdfast.worker.lease import Lease
from holdfast.worker.logtail import LogTail


class StopReason(Enum):
    """Why an attempt is told to stop."""

    CANCEL = "cancel"
    STOP = "stop"
    LOST = "lost"
    TIMEOUT = "timeout"
    WINDOW = "window"
    """A window of its queue or task is about to begin: it is asked only, and any other reason overrules."""


class Control:
    """One attempt in progress. Read from any thread; changed on the event loop only, but for what `fix` sets.

    `attempt` is the task that carries it; while a coroutine is in progress there, `cancellable` is true.
    `ending` is how a transaction of the handler ended the job; while that is under way, `concluding` is true.
    `opens_at` is when the window ends for which it was asked to finish.
    """

    __slots__ = (
        "_lease",
        "_report",
        "attempt",
        "cancellable",
        "claim",
        "concluding",
        "ending",
        "log",
        "marked",
        "opens_at",
        "outlived_by_thread",
        "scrub",
        "started_boot",
        "transactions",
        "why",
    )

    def __init__(self, claim: Claim, lease: Lease, report: Callable[["Control", Progress], None]) -> None:
        self.claim = claim
        self.started_boot: float = 0.0
        self.marked = False
        self.log: LogTail | None = None
        self.scrub: Scrub = NO_SECRETS
        self.why: StopReason | None = None
        self.attempt: asyncio.Task[Any] | None = None
        self.cancellable = False
        self.ending: Ending | None = None
        self.concluding = False
        self.opens_at: datetime | None = None
        self.outlived_by_thread = False
        self.transactions: Callable[[Any], Transaction] | None = None
        self._lease = lease
        self._report = report

    @property
    def cancelled(self) -> bool:
        """Whether the handler should end soon."""
        return self.why is not None

    @property
    def may_start(self) -> bool:
        """Whether the handler may begin: nobody wants the job back, and the lease is fresh."""
        return self.why is None and self._lease.fresh

    @property
    def taken(self) -> bool:
        """Whether the claim is known to belong to someone else."""
        return self.why is StopReason.LOST or self._lease.buried

    @property
    def lost(self) -> bool:
        """Whether the claim may belong to someone else."""
        return self.why is StopReason.LOST or self._lease.lost

    def transaction(self, connection: Any) -> Transaction:
        """Return a transaction on a connection of the handler's own."""
        if self.transactions is None:
            raise RuntimeError("this attempt has not started")
        return self.transactions(connection)

    def fix(self, ending: Ending) -> None:
        """Let this be how the attempt ends, whatever comes: the store has it already."""
        self.ending = ending

    def with_log(self, ending: Ending) -> Ending:
        """Return the ending with the end of what the attempt logged."""
        return replace(ending, log=text) if self.log is not None and (text := self.log.text) else ending

    def fault_point(self, name: str) -> None:
        """Do nothing: this place in a handler has a name for tests alone."""

    def report(self, progress: Progress) -> None:
        """Pass on how far the handler is."""
        self._report(self, progress)

    @property
    def goes_on(self) -> bool:
        """Whether nothing demands its end: it may have been asked to finish."""
        return self.why is None or self.why is StopReason.WINDOW

    def tell(self, why: StopReason) -> None:
        """Ask the handler to end; the first reason given stays, but a lost claim overrules."""
        if self.goes_on or why is StopReason.LOST:
            self.why = why

    def ask_to_finish(self, opens_at: datetime) -> None:
        """Ask a handler that has started to end before a window begins; what it leaves goes on after its end."""
        if self.why is None and self.started_boot:
            self.why, self.opens_at = StopReason.WINDOW, opens_at

    def interrupt(self, why: StopReason) -> None:
        """Ask the handler to end and, where it is a coroutine in progress, cancel it."""
        self.tell(why)
        if self.cancellable and self.attempt is not None:
            self.attempt.cancel()
