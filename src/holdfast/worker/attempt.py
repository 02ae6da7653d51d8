"""One attempt, from a claim to its ending, as a line of small steps.

    know the task ─► read the arguments ─► mark (last chance only) ─► run ─► judge
         │                  │                       │
    blocked(no_worker)     dead                  lost: nothing to say

Each step either goes on or returns the ending. None means that the claim is not ours any more: it ends nowhere.
"""

import asyncio
from collections.abc import Callable, Mapping
from functools import partial
from random import Random
from typing import Any

from holdfast.clock import Clock
from holdfast.context import Context, Interrupted
from holdfast.core.job import Claim, Ending
from holdfast.core.states import Move, Reason
from holdfast.errors import PayloadError
from holdfast.events import Events, JobStarted
from holdfast.task import Task
from holdfast.worker.control import Control, StopReason
from holdfast.worker.executors.threads import ThreadCall, ThreadExecutor
from holdfast.worker.judge import Judge, describe
from holdfast.worker.notes import Notes
from holdfast.worker.reporter import Reporter

AnyTask = Task[..., Any]

HANDLER_RAISES = (Exception, Interrupted, SystemExit, KeyboardInterrupt)
"""All that a handler may raise; every one of them is the outcome of its attempt and of nothing else."""

STUCK_AFTER = 10.0
"""Seconds that a thread is given to heed its timeout before its process is replaced."""


class Attempts:
    """Runs attempts; knows all that an attempt needs."""

    def __init__(
        self,
        *,
        tasks: Mapping[str, AnyTask],
        clock: Clock,
        random: Random,
        events: Events,
        notes: Notes,
        reporter: Reporter,
        threads: ThreadExecutor,
        stuck: Callable[[Control, str], None],
    ) -> None:
        self._tasks = tasks
        self._clock = clock
        self._random = random
        self._events = events
        self._notes = notes
        self._reporter = reporter
        self._threads = threads
        self._stuck = stuck

    async def run(self, control: Control) -> Ending | None:
        """Carry one attempt through all its steps."""
        claim = control.claim
        task = self._tasks.get(claim.task)
        if task is None or claim.version > task.policy.version:
            return Ending(claim.ref, Move.BLOCK, reason=Reason.NO_WORKER)
        judge = Judge(claim, task.policy, self._clock.now(), self._random)
        try:
            arguments = task.arguments.decode(claim.payload)
        except PayloadError as error:
            return judge.dead(describe(error))
        if claim.max_attempts == 1 and not await self._reporter.mark(control):
            return None
        if not control.may_start:
            return judge.put_off()
        return await self._started(control, task, arguments, judge)

    async def _started(
        self, control: Control, task: AnyTask, arguments: dict[str, Any], judge: Judge
    ) -> Ending | None:
        claim = control.claim
        if task.arguments.context_parameter is not None:
            arguments[task.arguments.context_parameter] = Context(claim, control)
        self._notes.started(claim.ref)
        control.started_boot = self._clock.boot()
        self._tell_started(claim, judge)
        try:
            if task.is_async:
                return await self._run_coroutine(control, task, arguments, judge)
            return await self._run_thread(control, task, arguments, judge)
        finally:
            self._notes.returned(claim.ref)

    def _tell_started(self, claim: Claim, judge: Judge) -> None:
        late = judge.started_at - claim.run_at
        self._events.emit(
            JobStarted(
                claim.job_id, claim.task, claim.queue, claim.attempt + 1, claim.max_attempts, claim.run_at, late
            )
        )

    async def _run_coroutine(
        self, control: Control, task: AnyTask, arguments: dict[str, Any], judge: Judge
    ) -> Ending | None:
        current = asyncio.current_task()
        control.enter(current)
        try:
            async with asyncio.timeout(task.policy.timeout) as limit:
                value = await task.fn(**arguments)
        except asyncio.CancelledError as error:
            if control.why is None:
                return judge.raised(error)
            if current is not None:
                current.uncancel()
            return self._stopped(control, judge)
        except TimeoutError as error:
            return judge.timed_out() if limit.expired() else judge.raised(error)
        except HANDLER_RAISES as error:
            return self._raised(control, judge, error)
        finally:
            control.enter(None)
        return judge.returned(value)

    async def _run_thread(
        self, control: Control, task: AnyTask, arguments: dict[str, Any], judge: Judge
    ) -> Ending | None:
        call = self._threads.submit(partial(task.fn, **arguments))
        timed_out = await self._outlived(control, call, task.policy.timeout)
        try:
            value = await call.done
        except HANDLER_RAISES as error:
            return judge.timed_out() if timed_out else self._raised(control, judge, error)
        return judge.timed_out() if timed_out else judge.returned(value)

    async def _outlived(self, control: Control, call: ThreadCall, timeout: float | None) -> bool:
        """Wait for the thread; return whether it ran past its timeout, after telling it to stop."""
        done, _ = await asyncio.wait([call.done], timeout=timeout)
        if done:
            return False
        control.tell(StopReason.TIMEOUT)
        done, _ = await asyncio.wait([call.done], timeout=STUCK_AFTER)
        if not done:
            self._stuck(control, f"it ignores its timeout of {timeout:g} s, here:\n{call.stack()}")
        return True

    def _raised(self, control: Control, judge: Judge, error: BaseException) -> Ending | None:
        return self._stopped(control, judge) if isinstance(error, Interrupted) else judge.raised(error)

    def _stopped(self, control: Control, judge: Judge) -> Ending | None:
        """End an attempt that was told to stop and did."""
        match control.why:
            case StopReason.LOST:
                return None
            case StopReason.TIMEOUT:
                return judge.timed_out()
            case StopReason.CANCEL:
                return judge.cancelled()
            case _:
                return judge.released()
