"""Runs attempts inside a subprocess, by the same steps as a worker, with the worker at the other end of a line."""

import asyncio
import contextlib
import dataclasses
import logging
import math
import os
import threading
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextvars import copy_context
from datetime import timedelta
from functools import partial
from random import Random
from time import monotonic
from typing import Any

from msgspec.structs import replace

from standfast.context import Middleware
from standfast.durable.files import file_store_of
from standfast.events import Events
from standfast.model.clock import SystemClock
from standfast.model.configuration import Settings
from standfast.model.job import ClaimRef, Ending, Failure, Progress
from standfast.model.secrets import Scrub
from standfast.model.tracing import Tracing
from standfast.observe.logs.job_log import LogTail
from standfast.stores.backend import Backend, identity_of
from standfast.worker.attempt import AnyTask, Attempts, Workload
from standfast.worker.claim_log import ClaimLog, NoClaimLog
from standfast.worker.completer import Announcer, Judge, broken
from standfast.worker.control import Control, StopReason, stack_of
from standfast.worker.execution import ThreadCall, ThreadExecutor
from standfast.worker.isolation.memory import MemoryLimit, is_parent, out_of_memory
from standfast.worker.isolation.messages import (
    Awaiting,
    Begun,
    Concluded,
    FromCell,
    Logged,
    Noted,
    Progressed,
    Recalled,
    Run,
    Tell,
    Where,
)
from standfast.worker.isolation.notebook import CellNotebook
from standfast.worker.lease import Lease
from standfast.worker.progress import Reporter
from standfast.worker.storecalls import StoreCalls, StoreClock
from standfast.worker.windows import Closures

PACE = 0.05  # seconds between two words: twice as often as the worker passes them on


class Pace:
    """Passes progress on, from any thread: the first word at once, of those that follow the latest, after a while.

    The loop sees to it that the last one is not left lying. Where a coroutine blocks the loop, its next word does.
    """

    def __init__(self, tell: Callable[[Progress], None], loop: asyncio.AbstractEventLoop) -> None:
        self._tell = tell
        self._loop = loop
        self._lock = threading.RLock()  # a destructor may speak at any moment, in this very thread
        self._waiting: Progress | None = None
        self._next_at = 0.0
        self._timed = False

    def __call__(self, progress: Progress) -> None:
        """Take a word."""
        with self._lock:
            self._waiting, wait = progress, self._next_at - monotonic()
            if wait <= 0:
                self.flush()
            elif not self._timed:
                self._timed = True
                self._loop.call_soon_threadsafe(self._loop.call_later, wait, self._later)

    def flush(self) -> None:
        """Pass on what waits."""
        with self._lock:
            progress, self._waiting = self._waiting, None
            if progress is not None:
                self._next_at = monotonic() + PACE
                self._tell(progress)

    def _later(self) -> None:
        with self._lock:
            self._timed = False
            self.flush()


# The subprocess decodes the arguments, runs middleware and judges the outcome, because it knows the classes of
# exceptions. Whether and when the job starts, the worker has decided.

log = logging.getLogger(__name__)
Say = Callable[[FromCell], None]  # says something to the worker, from any thread


class SubprocessExecutor:
    """The attempts of a cell, one at a time."""

    def __init__(
        self,
        *,
        tasks: Mapping[str, AnyTask],
        middleware: Sequence[Middleware],
        backend: Backend,
        worker: str,
        settings: Settings,
        say: Say,
        tracing: Tracing | None = None,
    ) -> None:
        clock, random, silent = StoreClock(SystemClock()), Random(), Events()  # noqa: S311 - jitter
        announcer = Announcer(silent)
        calls = StoreCalls(backend, clock, silent, random, settings.store_timeout)
        self._pid = os.getpid()
        self._say = say
        self._clock = clock
        self._random = random
        self._loop = asyncio.get_running_loop()
        self._context = copy_context()
        self._control: CellControl | None = None
        self._attempts = CellAttempts(
            workload=Workload(tasks=tasks, middleware=middleware, tracing=tracing),
            backend=backend,
            worker=worker,
            clock=clock,
            random=random,
            announcer=announcer,
            claim_log=ClaimLog(NoClaimLog()),
            reporter=Reporter(calls, clock, worker, tuple, announcer.progressed),
            files=file_store_of(settings, partial(identity_of, backend)),
            closures=Closures((), clock),
            threads=CellThreads(1),
            stuck=_killed_anyway,
        )

    def begin(self, run: Run) -> None:
        """Begin with an attempt."""
        if run.now is not None:
            self._clock.learn(run.boot, run.now, run.boot)
        control = CellControl(run, self._say, self._loop)
        self._control = control
        self._say(Begun(run.claim.ref))
        control.attempt = self._loop.create_task(self._attempt(control), context=self._context.copy())

    def heed(self, tell: Tell) -> None:
        """Let the handler know what its worker says."""
        control = self._control
        if control is None:
            return
        control.lease.told_lost, control.lease.buried = tell.lost, tell.taken
        if tell.taken:
            control.wake()
        if tell.opens_in is not None and control.opens_at is None:
            control.opens_at = self._clock.now() + timedelta(seconds=tell.opens_in)
        concluding = control.concluding or control.ending is not None  # that it is lost is our own doing then
        if tell.why is None or (tell.why is StopReason.LOST and concluding):
            return
        if tell.why is StopReason.TIMEOUT and control.cancellable:
            self._say(Where(control.claim.ref, stack_of(control.attempt)))
        control.why = tell.why
        control.wake()
        if tell.interrupt:
            control.interrupt(tell.why)

    def recall(self, answer: Noted | Recalled) -> None:
        """Let the handler's notebook know what its worker answers."""
        control = self._control
        if control is not None and answer.ref == control.claim.ref and isinstance(control.opened, CellNotebook):
            control.opened.heed(answer)

    async def _attempt(self, control: "CellControl") -> None:
        memory = control.memory
        try:
            ending = await self._attempts.run(control)
        except (Exception, asyncio.CancelledError) as error:
            if control.outlived_by_thread:
                os._exit(1)
            with contextlib.suppress(Exception):  # the error's own code takes part in telling it
                log.exception("job %s: its attempt broke outside its handler", control.claim.job_id)
            ending = control.ending or broken(control.claim, error, self._random, control.scrub)
        finally:
            memory.lift()
        if os.getpid() != self._pid:
            os._exit(0)  # the handler has forked, and this is not where the worker waits for it
        if control.opened is not None and control.ending is None:
            control.opened.take_last_words()
        self._control = None
        fixed = control.ending is not None
        control.pace.flush()
        self._say(Concluded(control.claim.ref, ending, fixed, memory.exceeded, memory.peak, is_parent()))


class CellAttempts(Attempts):
    """Attempts whose start the worker has decided on, and whose end it sees to, timeouts included."""

    async def _marked(self, control: Control) -> bool:  # noqa: ARG002 - the worker has marked it
        return True

    def _run(
        self, control: Control, task: AnyTask, judge: Judge, arguments: dict[str, Any]
    ) -> Awaitable[Ending | None]:
        if not isinstance(control, CellControl):
            raise TypeError("only attempts that were sent here run here")
        control.log = ToldTail(control.claim.ref, control.scrub, control.say)
        policy = dataclasses.replace(judge.policy, timeout=None)
        judge = CellJudge(
            judge.claim, policy, control.started_at, judge.random, judge.scrub, judge.results, control.memory
        )
        control.memory.begin()
        return super()._run(control, task, judge, arguments)

    def _trace(self, control: Control, judge: Judge, tracing: Tracing) -> None:  # noqa: ARG002 - it has begun
        if isinstance(control, CellControl) and control.carried:
            control.trace = tracing.go_on(control.carried)


class CellThreads(ThreadExecutor):
    """The threads of a cell. A process that a function forks there ends where the function does."""

    def submit(self, handler: Callable[[], Any]) -> ThreadCall:
        """Run the handler in a free thread."""
        return super().submit(partial(_without_forks, handler, os.getpid()))


class CellJudge(Judge, frozen=True, gc=False):
    """Judges what a handler did within its limit of memory."""

    memory: MemoryLimit = MemoryLimit(None, capped=False)

    def returned(self, value: Any) -> Ending:
        """Judge what the handler returned."""
        self.memory.lift()
        return super().returned(value)

    def raised(self, error: BaseException) -> Ending:
        """Judge what the handler raised; if that is for want of memory, say so."""
        self.memory.lift()
        ending, limit = super().raised(error), self.memory.limit
        if limit is None or ending.failure is None or not _for_want_of_memory(error):
            return ending
        self.memory.exceeded = True
        return replace(ending, failure=replace(ending.failure, message=out_of_memory(limit, self.memory.peak)))

    def timed_out(self) -> Ending:
        """Judge a handler that was told of its timeout: the worker has its own words for it."""
        return self.failed(Failure("TimeoutError", "ran longer than its timeout"))


class CellLease(Lease):
    """The lease of the worker, as a cell is told of it."""

    def __init__(self) -> None:
        super().__init__(SystemClock(), math.inf, 0.0, math.inf)
        self.told_lost = False

    @property
    def fresh(self) -> bool:
        """Whether a job may start: the worker has decided that."""
        return True

    @property
    def lost(self) -> bool:
        """Whether others may have been given the job."""
        return self.told_lost or self.buried


class CellControl(Control):
    """One attempt in progress in a cell."""

    def __init__(self, run: Run, say: Say, loop: asyncio.AbstractEventLoop) -> None:
        self.lease = CellLease()
        self.pace = Pace(lambda progress: say(Progressed(run.claim.ref, progress)), loop)
        super().__init__(
            run.claim,
            self.lease,
            lambda _, progress: self.pace(progress),
            lambda _: CellNotebook(run.claim.ref, say),
        )
        self.say = say
        self.started_at = run.started_at
        self.carried = run.trace
        self.memory = MemoryLimit(run.limit, capped=run.capped, left_over=run.left_over)

    def wait_begins(self, job_id: str) -> None:
        """Note that the handler waits for a job, here and there."""
        super().wait_begins(job_id)
        self.say(Awaiting(self.claim.ref, self.awaited))

    def wait_ends(self, job_id: str) -> None:
        """Note that it waits no more, here and there."""
        super().wait_ends(job_id)
        self.say(Awaiting(self.claim.ref, self.awaited))

    def with_log(self, ending: Ending) -> Ending:
        """Return the ending with the end of what the attempt logged, if it did."""
        return super().with_log(ending) if self.log is not None and self.log.text else ending


class ToldTail(LogTail):
    """The last lines of the attempt, told to the worker at once: it has them whatever becomes of this process."""

    def __init__(self, ref: ClaimRef, scrub: Scrub, say: Say) -> None:
        super().__init__(scrub)
        self._ref = ref
        self._say = say

    def keep(self, lines: Sequence[str]) -> None:
        """Keep lines here, and there."""
        super().keep(lines)
        self._say(Logged(self._ref, list(lines)))


def _without_forks(handler: Callable[[], Any], pid: int) -> Any:
    """Return or raise what the handler does, but in this process alone: nobody waits for a fork of it."""
    try:
        return handler()
    finally:
        if os.getpid() != pid:
            os._exit(0)


def _for_want_of_memory(error: BaseException) -> bool:
    if isinstance(error, BaseExceptionGroup):
        return error.subgroup(MemoryError) is not None
    return isinstance(error, MemoryError)


def _killed_anyway(_: Control, __: str, ___: str) -> None:
    """Say nothing of a handler that ignores its timeout: the worker ends this process."""
