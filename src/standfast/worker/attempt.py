"""One attempt, from a claim to its ending, as a line of small steps.

    know the task ─► read the arguments ─► too late? ─► mark (last chance only) ─► may it still start? ─► run
          │                  │                 │                    │                       │
    blocked(no_worker)      dead      cancelled(expired)   lost: nothing to say          put off
    or dead: its row cannot be read

Of an isolated task the arguments are read in the process in which it runs, right before that, and it is marked once
there is such a process. Each step either goes on or returns the ending. None means that the claim is not ours any
more: it ends nowhere.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from random import Random
from typing import Any, Protocol

from msgspec.structs import replace

from standfast.context import Context, Middleware
from standfast.durable.files import FileStore
from standfast.durable.runtime import current_attempt
from standfast.errors import PayloadError, StepError
from standfast.model.clock import Clock
from standfast.model.job import Claim, Ending, KnownTask, OnLate
from standfast.model.memos import signal_name
from standfast.model.outcomes import Suspended
from standfast.model.policy import Isolation
from standfast.model.secrets import NO_SECRETS
from standfast.model.states import Move, Reason
from standfast.model.tracing import Tracing
from standfast.schedules.closed_hours import ClosedHours
from standfast.schedules.limits import Limits
from standfast.stores.backend import Backend
from standfast.task import Task
from standfast.worker.claim_log import ClaimLog
from standfast.worker.completer import Announcer, Judge, describe, problem_of, unreadable
from standfast.worker.control import Control
from standfast.worker.execution import CannotStop, Running, ThreadExecutor
from standfast.worker.options import ServedQueues
from standfast.worker.progress import Reporter
from standfast.worker.transactions import JobTransaction, StepTransaction
from standfast.worker.windows import Closures, would_expire

AnyTask = Task[..., Any]

NO_LIMITS = Limits()
LOOK_EVERY = 0.05  # seconds between two looks at whether steps that a handler has left behind are over
Started = Callable[[Judge], None]  # takes note that an attempt begins now
Marked = Callable[[], Awaitable[bool]]
"""Marks an attempt as started in the store where it must be; returns whether the claim is still ours."""


Closed = Callable[[], timedelta | None]
"""Tells for how long yet a job must not start, for a window of its queue or task; None if it may."""


_TELLING = frozenset({Move.COMPLETE, Move.RETRY, Move.DIE})
"""Endings after which a step that never began was forgotten: nobody told the handler to end before it."""


class Subprocesses(Protocol):
    """Processes in which isolated tasks run."""

    async def run(
        self, control: Control, judge: Judge, marked: Marked, closed: Closed, started: Started
    ) -> Ending | None:
        """Run an attempt in one of them; return how it ends, None where its claim is lost."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """What an app gives its workers to run. `built_in` are tasks that no app declares."""

    tasks: Mapping[str, AnyTask]
    built_in: Mapping[str, AnyTask] = field(default_factory=dict)
    served: ServedQueues | None = None
    middleware: Sequence[Middleware] = ()
    hours: Sequence[ClosedHours] = ()
    limits: Limits = NO_LIMITS
    tracing: Tracing | None = None

    def task(self, name: str) -> AnyTask | None:
        """Return a task of this name, if there is one."""
        return self.tasks.get(name) or self.built_in.get(name)


@dataclass(eq=False, kw_only=True)
class Attempts:
    """Runs attempts; knows all that an attempt needs."""

    workload: Workload
    backend: Backend
    worker: str
    clock: Clock
    random: Random
    announcer: Announcer
    claim_log: ClaimLog
    reporter: Reporter
    files: FileStore
    closures: Closures
    threads: ThreadExecutor
    stuck: CannotStop
    subprocesses: Callable[[], Subprocesses] | None = None
    unreadable: Callable[[Claim, str], None] = lambda *_: None
    unknown: Callable[[KnownTask], None] = lambda _: None

    def __post_init__(self) -> None:
        self._tasks, self._built_in = self.workload.tasks, self.workload.built_in
        self._middleware, self._tracing = tuple(self.workload.middleware), self.workload.tracing
        self._opener = self._open

    def shares_process(self, name: str) -> bool:
        """Tell whether attempts of a task run in the process of their worker."""
        task = self.workload.task(name)
        return task is not None and task.policy.isolation is not Isolation.PROCESS

    async def run(self, control: Control) -> Ending | None:
        """Carry one attempt through all its steps."""
        claim = control.claim
        task = self._tasks.get(claim.task) or self._built_in.get(claim.task)
        if task is None or claim.version > task.policy.version:
            problem = problem_of(claim)
            if problem is None:
                self.unknown(KnownTask(claim.task, 0 if task is None else task.policy.version + 1))
                return Ending(claim.ref, Move.BLOCK, reason=Reason.NO_WORKER)
            self.unreadable(claim, problem)
            return unreadable(claim, problem)
        # From here on code of the user's runs: models and upgrades read the arguments. Should it take the process
        # down, this job is to blame; and so it is until what it returned is written as JSON.
        self.claim_log.started(claim.ref)
        if self._tracing is None:
            ending = await self._carry(control, task)
        else:
            ending = await self._traced(control, task)
        if not control.outlived_by_thread:
            self.claim_log.returned(claim.ref)
        return ending

    async def _traced(self, control: Control, task: AnyTask) -> Ending | None:
        """Carry an attempt, and end its span if it came to have one."""
        ending = None
        try:
            ending = await self._carry(control, task)
        finally:
            if control.trace is not None:
                control.trace.end(ending)
        return ending

    async def _carry(self, control: Control, task: AnyTask) -> Ending | None:
        """Go from step to step with an attempt whose task is known."""
        claim = control.claim
        judge = Judge(claim, task.policy, self.clock.now(), self.random, NO_SECRETS, task.arguments.results)
        subprocesses = self.subprocesses if task.policy.isolation is Isolation.PROCESS else None
        arguments: dict[str, Any] = {}
        if subprocesses is None:
            try:
                arguments = task.arguments.decode(claim.payload)
            except PayloadError as error:
                return judge.dead(describe(error, task.arguments.scrub_for(claim.payload)))
            scrub = task.arguments.scrub_for(claim.payload, arguments)
            if scrub is not NO_SECRETS:
                judge, control.scrub = replace(judge, scrub=scrub), scrub
        if self._is_late(control, judge) and await self._expires(control, judge):
            return judge.expired()
        if subprocesses is None and claim.max_attempts == 1 and not await self._marked(control):
            return None
        if not control.may_start:
            return judge.put_off()
        if (closed_for := self.closures.closed_for(claim)) is not None:  # a window has begun meanwhile
            late = would_expire(claim, self.clock.now() + closed_for) and not await self._has_begun(control)
            return judge.expired() if late else judge.put_off(closed_for)
        if subprocesses is None:
            ending = await self._run(control, task, judge, arguments)
        else:
            self.claim_log.returned(claim.ref)  # nothing of it runs in this process
            ending = await subprocesses().run(
                control,
                judge,
                partial(self._marked_for_cell, control),
                partial(self.closures.closed_for, claim),
                partial(self._started, control),
            )
        if control.began_durable and ending is not None:
            await self._outlast_steps(control, judge)
            ending = _kept_to(control, judge, ending)
            _tell_left_over(control, ending)
        return ending if control.ending is None else _fixed(control, control.ending, ending)

    async def _outlast_steps(self, control: Control, judge: Judge) -> None:
        """Wait for steps that a handler has left behind, as `gather` does when one of several fails.

        Their results are kept so; else the next attempt would run them again, and beside them. No longer than the
        handler itself may run.
        """
        timeout = judge.policy.timeout
        while control.durable.busy and control.goes_on:
            if timeout is not None and self.clock.boot() - control.started_boot > timeout:
                break
            await asyncio.sleep(LOOK_EVERY)

    def _is_late(self, control: Control, judge: Judge) -> bool:
        start_by = control.claim.start_by
        return start_by is not None and judge.started_at > start_by and control.may_start

    async def _expires(self, control: Control, judge: Judge) -> bool:
        """Say so where a job comes too late to its first start; tell whether it must not run then."""
        claim = control.claim
        if await self._has_begun(control):
            return False
        if claim.start_by is not None:
            self.announcer.late(claim, claim.start_by, judge.started_at)
        return claim.on_late is OnLate.EXPIRE

    async def _has_begun(self, control: Control) -> bool:
        """Tell whether an earlier run of the job has written something down: to go on is never too late."""
        claim = control.claim
        if claim.fence == 1 or claim.on_late is not OnLate.EXPIRE:
            return False
        self.claim_log.returned(claim.ref)  # nothing of it runs while the store is asked
        memos = await asyncio.wrap_future(control.notebook.read())
        self.claim_log.started(claim.ref)
        return bool(memos)

    async def _marked(self, control: Control) -> bool:
        """Mark the job as started in the store; nothing of it runs while that takes its time."""
        self.claim_log.returned(control.claim.ref)
        ours = await self.reporter.mark(control)
        if ours:
            self.claim_log.started(control.claim.ref)
        return ours

    async def _marked_for_cell(self, control: Control) -> bool:
        """Mark the last chance of a job now that there is a process for it: while it waited, nothing of it ran."""
        return control.claim.max_attempts != 1 or await self.reporter.mark(control)

    def _run(
        self, control: Control, task: AnyTask, judge: Judge, arguments: dict[str, Any]
    ) -> Awaitable[Ending | None]:
        """Let the handler begin; return what waits for its end."""
        claim, context, parameter = control.claim, None, task.arguments.context_parameter
        control.judge, control.opener = judge, self._opener
        if self._middleware or parameter is not None:
            context = control.context
        if parameter is not None:
            arguments[parameter] = context
        control.started_boot = self.clock.boot()
        self.announcer.started(claim, judge.started_at)
        current_attempt.set(control)
        if self._tracing is not None:
            self._trace(control, judge, self._tracing)
        handler = partial(task.fn, **arguments)
        running = Running(control, judge, self.clock, self.threads, self.stuck, handler)
        if self._middleware and context is not None:
            return running.within(self._middleware, context, is_async=task.is_async)
        return running.on_loop() if task.is_async else running.in_thread()

    def _open(self, control: Control, judge: Judge) -> Context:
        """Make the context of an attempt: only one that asks for it has any."""
        control.shelf, control.now = self.files, self.clock.now
        control.transaction = partial(JobTransaction, self.backend, self.worker, control, judge)
        control.saving = partial(StepTransaction, self.backend, self.worker, control)
        return Context(control.claim, control, judge.scrub.record if judge.scrub else None)

    def _started(self, control: Control, judge: Judge) -> None:
        """Take note that an attempt begins elsewhere; `_run` has it in line, for a call more costs every job."""
        control.started_boot = self.clock.boot()
        self.announcer.started(control.claim, judge.started_at)
        current_attempt.set(control)
        if self._tracing is not None:
            self._trace(control, judge, self._tracing)

    def _trace(self, control: Control, judge: Judge, tracing: Tracing) -> None:
        """Begin the span of an attempt."""
        control.trace = tracing.begin(control.claim, judge.started_at - control.claim.run_at, self.worker)


def _fixed(control: Control, ending: Ending, judged: Ending | None) -> Ending:
    """Return how a transaction ended the job, with a warning where the handler said something else afterwards."""
    agrees = judged is not None and judged.move is ending.move and judged.result in (ending.result, b"null")
    if judged is not None and control.why is None and not agrees:
        said = str(judged.failure or ("another result" if judged.move is ending.move else f"a {judged.move}"))
        control.overruled(said)
        Context(control.claim, control).log.warning(
            "job %s was completed by its transaction; what its handler came to after that is ignored: %s",
            ending.ref.job_id,
            said,
        )
    return ending


def _kept_to(control: Control, judge: Judge, ending: Ending) -> Ending:
    """Return how a run ends that was suspended, refused a step or forgot one, whatever its handler made of that."""
    if control.ending is not None:
        return ending
    match control.durable.over:
        case Suspended() as suspended if ending.move is Move.COMPLETE:
            name = signal_name(suspended.reason)
            Context(control.claim, control).log.warning(
                "job %s waits %s, and its handler went on instead of ending: let Suspended pass, which `except"
                " BaseException` caught; what it came to is ignored",
                ending.ref.job_id,
                "for its time" if name is None else f"for signal {name!r}",
            )
            return judge.suspended(suspended)
        case None if ending.move in _TELLING and (forgotten := control.durable.forgotten()) is not None:
            if ending.move is Move.COMPLETE:
                return judge.dead(describe(forgotten, judge.scrub))
            Context(control.claim, control).log.warning("%s", forgotten)  # likely why it failed
            return ending
        case StepError() as error if ending.move in {Move.COMPLETE, Move.RETRY}:
            return judge.dead(describe(error, judge.scrub))
        case _:
            return ending


def _tell_left_over(control: Control, ending: Ending) -> None:
    """Warn of steps that the job did in an earlier run, and that the one which completes it did not ask for."""
    if ending.move is Move.COMPLETE and (left := control.durable.left_over):
        Context(control.claim, control).log.warning(
            "job %s completed without asking for steps that it did before: %s; were they removed, or renamed?",
            ending.ref.job_id,
            ", ".join(left),
        )
