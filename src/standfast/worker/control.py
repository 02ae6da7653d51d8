"""The live side of one attempt: what its handler can ask, and how it is told to stop."""

import asyncio
import threading
from collections.abc import Callable
from datetime import datetime
from enum import Enum
from random import Random
from typing import Any, Protocol

from msgspec.structs import replace

from standfast.codec import NO_SECRETS, Scrub
from standfast.context import Context, Transaction
from standfast.core.job import NOTE_LENGTH, Claim, Ending, Progress
from standfast.durable.attempt import Durable
from standfast.durable.notebook import Notebook, OwnNotebook
from standfast.durable.port import Saving
from standfast.durable.shelf import Shelf
from standfast.latch import Latch
from standfast.tracing.port import AttemptTrace
from standfast.words import one_line
from standfast.worker.lease import Lease
from standfast.worker.logtail import LogTail

_opening = threading.Lock()

IN_BACKGROUND = "standfast-background"
"""How the names of the threads begin in which work in the background runs."""


class StopReason(Enum):
    """Why an attempt is told to stop."""

    CANCEL = "cancel"
    STOP = "stop"
    LOST = "lost"
    TIMEOUT = "timeout"
    WINDOW = "window"
    """A window of its queue or task is about to begin: it is asked only, and any other reason overrules."""


class Means(Protocol):
    """What a handler can use through its attempt."""

    @property
    def random(self) -> Random:
        """The source of jitter."""
        ...

    def now(self) -> datetime:
        """Return the store's time."""
        ...

    def completing(self, connection: Any) -> Transaction:
        """Return a transaction that completes the job."""
        ...

    def saving(self, connection: Any) -> Saving:
        """Return a transaction that writes the memo of a step."""
        ...


class Control:
    """One attempt in progress. Read from any thread; changed on the event loop only, but for what `fix` sets.

    `attempt` is the task that carries it; while a coroutine is in progress there, `cancellable` is true.
    `ending` is how a transaction of the handler ended the job; while that is under way, `concluding` is true.
    `opens_at` is when the window ends for which it was asked to finish. `opened` is its notebook, if it was used.
    `kill` ends the process of its own in which it runs, if it does.
    `opener` makes its context, of it and of its `judge`, once anybody asks for that.
    `spoke`: it has said how far it is; `began_durable`: it has asked for a step or a wait; `knew`: it has asked
    whether it should end, and it should.
    """

    takes_pauses = True
    """Whether the waits between two tries of a step are kept."""

    __slots__ = (
        "_awaited",
        "_context",
        "_durable",
        "_lease",
        "_open",
        "_report",
        "_waker",
        "attempt",
        "began_durable",
        "cancellable",
        "claim",
        "concluding",
        "ending",
        "judge",
        "kill",
        "knew",
        "log",
        "marked",
        "means",
        "opened",
        "opener",
        "opens_at",
        "outlived_by_thread",
        "scrub",
        "shelved",
        "spoke",
        "started_boot",
        "trace",
        "why",
    )

    def __init__(
        self,
        claim: Claim,
        lease: Lease,
        report: Callable[["Control", Progress], None],
        open_notebook: Callable[[Any], OwnNotebook] | None = None,
    ) -> None:
        self.claim = claim
        self.started_boot: float = 0.0
        self.judge: Any
        self.opener: Callable[[Control, Any], Context]
        self.marked = False
        self.log: LogTail | None = None
        self.scrub: Scrub = NO_SECRETS
        self.spoke = False
        self.knew = False
        self.trace: AttemptTrace | None = None
        self.why: StopReason | None = None
        self.attempt: asyncio.Task[Any] | None = None
        self.cancellable = False
        self.ending: Ending | None = None
        self.kill: Callable[[], None] | None = None
        self.concluding = False
        self.opens_at: datetime | None = None
        self.outlived_by_thread = False
        self.shelved: Shelf | None = None
        self.means: Means | None = None
        self.began_durable = False
        self._durable: Durable | None = None
        self._lease = lease
        self._report = report
        self._open = open_notebook
        self.opened: OwnNotebook | None = None

    @property
    def cancelled(self) -> bool:
        """Whether the handler should end soon."""
        if self.why is None:
            return False
        self.knew = True
        return True

    @property
    def context(self) -> Context:
        """What its handler holds of it: one, however it comes by it."""
        context: Context | None = getattr(self, "_context", None)
        if context is None:
            with _opening:  # a handler may have threads
                context = getattr(self, "_context", None) or self.opener(self, self.judge)
                self._context = context
        return context

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

    @property
    def notebook(self) -> Notebook:
        """The memos of the job; only an attempt that asks for them has a notebook."""
        if self.opened is None:
            if self._open is None:
                raise RuntimeError("this attempt has no notebook")
            with _opening:  # a handler may have threads, and two notebooks would number their saves alike
                self.opened = self.opened or self._open(self)
        return self.opened

    @property
    def shelf(self) -> Shelf:
        """Where files of the job are put."""
        if self.shelved is None:
            raise RuntimeError("this attempt has not started")
        return self.shelved

    def transaction(self, connection: Any) -> Transaction:
        """Return a transaction on a connection of the handler's own."""
        return self._means.completing(connection)

    def saving(self, connection: Any) -> Saving:
        """Return a transaction that writes the memo of a step with the handler's own rows."""
        return self._means.saving(connection)

    @property
    def random(self) -> Random:
        """The source of jitter."""
        return self._means.random

    def now(self) -> datetime:
        """Return the store's time."""
        return self._means.now()

    @property
    def durable(self) -> Durable:
        """The steps and waits; only an attempt that asks for them has any."""
        if self._durable is None:
            durable = Durable(self)
            with _opening:  # a handler may have threads of its own, and they must know of each other's steps
                self._durable, self.began_durable = self._durable or durable, True
        return self._durable

    def nap(self, seconds: float) -> None:
        """Block this thread for so long, or until the handler should end."""
        waker = self._own_waker()
        if not (self.cancelled or self.taken):  # or it was told before there was anybody to wake
            waker.wait(seconds)

    async def anap(self, seconds: float) -> None:
        """Let the event loop go on for so long, or until the handler should end."""
        waker = self._own_waker()
        if not (self.cancelled or self.taken):
            await waker.await_(seconds)

    @property
    def awaited(self) -> tuple[str, ...]:
        """The jobs for whose results its handler waits, for a second at least."""
        awaited: tuple[str, ...] = getattr(self, "_awaited", ())  # only an attempt that waits has any
        return awaited

    @awaited.setter
    def awaited(self, jobs: tuple[str, ...]) -> None:
        self._awaited = jobs

    def wait_begins(self, job_id: str) -> None:
        """Note that the handler waits for a job, in whichever thread but those of work in the background."""
        if not threading.current_thread().name.startswith(IN_BACKGROUND):
            with _opening:
                self._awaited = (*self.awaited, job_id)

    def wait_ends(self, job_id: str) -> None:
        """Note that it waits no more."""
        with _opening:
            left = list(self.awaited)
            if job_id in left:
                left.remove(job_id)
            self._awaited = tuple(left)

    def wake(self) -> None:
        """End the sleeps of the handler: it should end."""
        waker: Latch | None = getattr(self, "_waker", None)
        if waker is not None:
            waker.set()

    def _own_waker(self) -> Latch:
        """Return what wakes the handler; only an attempt that sleeps has it, so others pay nothing for it."""
        with _opening:
            waker: Latch | None = getattr(self, "_waker", None)
            if waker is None:
                waker = self._waker = Latch()
            return waker

    @property
    def _means(self) -> Means:
        if self.means is None:
            raise RuntimeError("this attempt has not started")
        return self.means

    def fix(self, ending: Ending) -> None:
        """Let this be how the attempt ends, whatever comes: the store has it already."""
        self.ending = ending

    def with_log(self, ending: Ending) -> Ending:
        """Return the ending with the end of what the attempt logged."""
        return replace(ending, log=text) if self.log is not None and (text := self.log.text) else ending

    def fault_point(self, name: str) -> None:
        """Do nothing: this place in a handler has a name for tests alone."""

    def overruled(self, said: str) -> None:
        """Do nothing: what a handler came to after its transaction is ignored, and tests alone mind."""

    def report(self, progress: Progress) -> None:
        """Pass on how far the handler is, its note without secrets and as one line that is not too long."""
        if progress.note is not None:
            note = one_line(self.scrub.text(progress.note), NOTE_LENGTH)  # in this order: a cut secret is not found
            progress = replace(progress, note=note or None)
        self.spoke = True
        self._report(self, progress)

    @property
    def goes_on(self) -> bool:
        """Whether nothing demands its end: it may have been asked to finish."""
        return self.why is None or self.why is StopReason.WINDOW

    def tell(self, why: StopReason) -> None:
        """Ask the handler to end; the first reason given stays, but a lost claim overrules."""
        if self.goes_on or why is StopReason.LOST:
            self.why = why
            self.wake()

    def ask_to_finish(self, opens_at: datetime) -> None:
        """Ask a handler that has started to end before a window begins; what it leaves goes on after its end."""
        if self.why is None and self.started_boot:
            self.why, self.opens_at = StopReason.WINDOW, opens_at
            self.wake()

    def interrupt(self, why: StopReason) -> None:
        """Ask the handler to end and, where it is a coroutine in progress, cancel it."""
        self.tell(why)
        if self.cancellable and self.attempt is not None:
            self.attempt.cancel()
