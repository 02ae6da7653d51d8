"""One attempt, from a claim to its ending, as a line of small steps.

    know the task ─► read the arguments ─► look at the clock ─► mark (last chance only) ─► run ─► judge
         │                  │                     │                      │
    blocked(no_worker)     dead          cancelled(expired)     lost: nothing to say

Each step either goes on or returns the ending. None means that the claim is not ours any more: it ends nowhere.
"""

import asyncio
import traceback
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime
from functools import partial
from random import Random
from typing import Any

from msgspec.structs import replace

from holdfast.clock import Clock
from holdfast.codec import NO_SECRETS
from holdfast.context import Context, Interrupted
from holdfast.core.job import Claim, Ending, OnLate
from holdfast.core.states import Move, Reason
from holdfast.errors import LostClaimError, PayloadError
from holdfast.events import Events, JobLate, JobStarted
from holdfast.hooks import Middleware
from holdfast.store.backend import Backend
from holdfast.task import Task
from holdfast.worker.around import Threaded, wrap
from holdfast.worker.control import Control, StopReason
from holdfast.worker.doors import Doors
from holdfast.worker.executors.threads import ThreadCall, ThreadExecutor
from holdfast.worker.judge import Judge, describe
from holdfast.worker.logtail import attempt_here
from holdfast.worker.notes import Notes
from holdfast.worker.reporter import Reporter
from holdfast.worker.transaction import JobTransaction

AnyTask = Task[..., Any]

STUCK_AFTER = 10.0
"""Seconds that a handler is given to heed its timeout before its process is replaced."""


class Attempts:
    """Runs attempts; knows all that an attempt needs."""

    def __init__(
        self,
        *,
        tasks: Mapping[str, AnyTask],
        backend: Backend,
        worker: str,
        clock: Clock,
        random: Random,
        events: Events,
        notes: Notes,
        reporter: Reporter,
        threads: ThreadExecutor,
        stuck: Callable[[Control, str], None],
        middleware: Sequence[Middleware] = (),
        doors: Doors | None = None,
    ) -> None:
        self._tasks = tasks
        self._backend = backend
        self._worker = worker
        self._clock = clock
        self._random = random
        self._events = events
        self._notes = notes
        self._reporter = reporter
        self._threads = threads
        self._stuck = stuck
        self._middleware = tuple(middleware)
        self._doors = Doors((), clock) if doors is None else doors

    async def run(self, control: Control) -> Ending | None:
        """Carry one attempt through all its steps."""
        claim = control.claim
        task = self._tasks.get(claim.task)
        if task is None or claim.version > task.policy.version:
            return Ending(claim.ref, Move.BLOCK, reason=Reason.NO_WORKER)
        # From here on code of the user's runs: models and upgrades read the arguments. Should it take the process
        # down, this job is to blame; and so it is until what it returned is written as JSON.
        self._notes.started(claim.ref)
        prepared = self._prepared(control, task)
        ending: Ending | None
        if isinstance(prepared, Ending):
            ending = prepared
        elif claim.max_attempts == 1 and not await self._marked(control):
            ending = None
        elif not control.may_start:
            ending = prepared[0].put_off()
        elif (closed_for := self._doors.closed_for(claim)) is not None:  # a window has begun meanwhile
            ending = prepared[0].put_off(closed_for)
        else:
            ending = await self._started(control, task, *prepared)
            if control.ending is not None:
                ending = _fixed(control, control.ending, ending)
        if not control.outlived_by_thread:
            self._notes.returned(claim.ref)
        return ending

    def _prepared(self, control: Control, task: AnyTask) -> tuple[Judge, dict[str, Any]] | Ending:
        """Return who judges the attempt and its arguments, or how it ends without a start."""
        claim = control.claim
        judge = Judge(claim, task.policy, self._clock.now(), self._random)
        try:
            arguments = task.arguments.decode(claim.payload)
        except PayloadError as error:
            return judge.dead(describe(error, task.arguments.scrub_for(claim.payload)))
        scrub = task.arguments.scrub_for(claim.payload, arguments)
        if scrub is not NO_SECRETS:
            judge = replace(judge, scrub=scrub)
        if claim.start_by is not None and judge.started_at > claim.start_by and control.may_start:
            self._tell_late(claim, claim.start_by, judge)
            if claim.on_late is OnLate.EXPIRE:
                return judge.expired()
        return judge, arguments

    async def _marked(self, control: Control) -> bool:
        """Mark the job as started in the store; nothing of it runs while that takes its time."""
        self._notes.returned(control.claim.ref)
        ours = await self._reporter.mark(control)
        if ours:
            self._notes.started(control.claim.ref)
        return ours

    def _started(
        self, control: Control, task: AnyTask, judge: Judge, arguments: dict[str, Any]
    ) -> Awaitable[Ending | None]:
        """Let the handler begin; return what waits for its end."""
        claim, context, parameter = control.claim, None, task.arguments.context_parameter
        if self._middleware or parameter is not None:
            control.transactions = partial(JobTransaction, self._backend, self._worker, control, judge)
            context = Context(claim, control, judge.scrub.record if judge.scrub else None)
        if parameter is not None:
            arguments[parameter] = context
        control.started_boot = self._clock.boot()
        if self._events.heard(JobStarted):
            self._tell_started(claim, judge)
        control.scrub = judge.scrub
        attempt_here.set(control)
        handler = partial(task.fn, **arguments)
        if self._middleware and context is not None:
            return self._run_within(context, control, task, handler, judge)
        if task.is_async:
            return self._run_coroutine(control, task.policy.timeout, handler, judge)
        return self._run_thread(control, task.policy.timeout, handler, judge)

    def _tell_late(self, claim: Claim, start_by: datetime, judge: Judge) -> None:
        late, expires = judge.started_at - claim.run_at, claim.on_late is OnLate.EXPIRE
        self._events.emit(
            JobLate(
                claim.job_id,
                claim.task,
                claim.queue,
                claim.attempt + 1,
                claim.max_attempts,
                late,
                start_by=start_by,
                expires=expires,
            )
        )

    def _tell_started(self, claim: Claim, judge: Judge) -> None:
        late = judge.started_at - claim.run_at
        self._events.emit(
            JobStarted(
                claim.job_id, claim.task, claim.queue, claim.attempt + 1, claim.max_attempts, claim.run_at, late
            )
        )

    def _run_within(
        self, context: Context, control: Control, task: AnyTask, handler: Callable[[], Any], judge: Judge
    ) -> Awaitable[Ending | None]:
        """Run the handler, coroutine or not, within the middleware."""
        thread = None if task.is_async else Threaded(control, self._threads, handler)
        whole = wrap(self._middleware, context, thread or handler)
        return self._run_coroutine(control, task.policy.timeout, whole, judge, thread)

    async def _run_coroutine(
        self,
        control: Control,
        timeout: float | None,
        handler: Callable[[], Awaitable[Any]],
        judge: Judge,
        thread: Threaded | None = None,
    ) -> Ending | None:
        current = asyncio.current_task()
        control.enter(current)
        watch = None if timeout is None else self._watch_timeout(control, timeout, current, thread)
        limit: asyncio.Timeout | None = None
        try:
            if timeout is None and thread is None:  # the hot path: a limit costs, even without an end
                value = await handler()
            else:
                async with asyncio.timeout(timeout) as limit:
                    if thread is not None:
                        thread.limit = limit
                    value = await handler()
        except asyncio.CancelledError as error:
            if control.why is None:
                return judge.raised(error)
            if current is not None:
                current.uncancel()
            return self._stopped(control, judge)
        except TimeoutError as error:
            return judge.timed_out() if limit is not None and limit.expired() else judge.raised(error)
        except BaseException as error:  # noqa: BLE001 - whatever a handler raises is the outcome of its attempt only
            return self._raised(control, judge, error)
        finally:
            control.enter(None)
            if watch is not None:
                watch.cancel()
            control.outlived_by_thread = thread is not None and thread.running
        return judge.returned(value)

    def _watch_timeout(
        self,
        control: Control,
        timeout: float,
        task: asyncio.Task[Any] | None,
        thread: Threaded | None,
    ) -> asyncio.TimerHandle:
        """See to it that a coroutine which swallows its cancellation does not run for ever."""

        def ignored() -> None:
            in_thread = thread.stack() if thread is not None else ""
            where = in_thread or _stack_of(task.get_coro() if task is not None else None)
            self._stuck(control, f"it ignores its timeout of {timeout:g} s, here:\n{where}")

        return asyncio.get_running_loop().call_later(timeout + STUCK_AFTER, ignored)

    async def _run_thread(
        self,
        control: Control,
        timeout: float | None,
        handler: Callable[[], Any],
        judge: Judge,
    ) -> Ending | None:
        call = self._threads.submit(handler)
        timed_out = await self._outlived(control, call, timeout)
        returned = await call.done
        if timed_out:
            return judge.timed_out()
        if returned.error is not None:
            return self._raised(control, judge, returned.error)
        return judge.returned(returned.value)

    async def _outlived(self, control: Control, call: ThreadCall, timeout: float | None) -> bool:
        """Wait for the thread; return whether it ran past its timeout, after telling it to stop."""
        if timeout is None:
            await call.done
            return False
        done, _ = await asyncio.wait([call.done], timeout=timeout)
        if done:
            return False
        control.tell(StopReason.TIMEOUT)
        done, _ = await asyncio.wait([call.done], timeout=STUCK_AFTER)
        if not done:
            self._stuck(control, f"it ignores its timeout of {timeout:g} s, here:\n{call.stack()}")
        return True

    def _raised(self, control: Control, judge: Judge, error: BaseException) -> Ending | None:
        """Judge what was raised; a handler that ends because it was told to is not to blame."""
        told = isinstance(error, Interrupted | LostClaimError)
        return self._stopped(control, judge) if told else judge.raised(error)

    def _stopped(self, control: Control, judge: Judge) -> Ending | None:
        """End an attempt that was told to stop and did."""
        match control.why:
            case StopReason.LOST:
                return None
            case StopReason.TIMEOUT:
                return judge.timed_out()
            case StopReason.CANCEL:
                return judge.cancelled()
            case StopReason.WINDOW if control.opens_at is not None:
                return judge.released_for(control.opens_at - self._clock.now())
            case _:
                return judge.released()


def _fixed(control: Control, ending: Ending, judged: Ending | None) -> Ending:
    """Return how a transaction ended the job, with a warning where the handler said something else afterwards."""
    if judged is not None and control.why is None and not _agrees(ending, judged):
        said = judged.failure or ("another result" if judged.move is ending.move else f"a {judged.move}")
        Context(control.claim, control).log.warning(
            "job %s was completed by its transaction; what its handler came to after that is ignored: %s",
            ending.ref.job_id,
            said,
        )
    return ending


def _agrees(ending: Ending, judged: Ending) -> bool:
    return judged.move is ending.move and judged.result in (ending.result, b"null")


def _stack_of(coroutine: Any) -> str:
    """Return where a suspended coroutine is; a task's own `get_stack` tells its outermost frame only."""
    frames = []
    while (frame := getattr(coroutine, "cr_frame", None)) is not None:
        frames.append((frame, frame.f_lineno))
        coroutine = coroutine.cr_await
    return "".join(traceback.StackSummary.extract(frames).format())
