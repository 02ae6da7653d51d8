"""Attempts as a kit has them run: they meet faults, and what their handlers raise is kept for the test."""

import asyncio
import math
import os
import platform
from collections.abc import Callable, Iterator, Mapping
from copy import copy
from dataclasses import dataclass
from datetime import datetime
from functools import wraps
from random import Random
from typing import Any

from standfast.app import Standfast
from standfast.context import CallNext, Context
from standfast.durable.runtime import OwnNotebook, current_attempt
from standfast.events import Events, WorkerCrashed
from standfast.hosts.builtin import built_in_tasks
from standfast.hosts.lifespan import enter_lifespans, leave_lifespans
from standfast.model.codec import decode_result
from standfast.model.crash import Death, DeathKind
from standfast.model.ids import new_worker_id
from standfast.model.job import Claim, Ending, KnownTask, Progress, Verdict
from standfast.model.memos import FOR_EVER
from standfast.model.outcomes import Outcome
from standfast.model.states import MOVES
from standfast.observe.alerts.senders import Programs
from standfast.stores.backend import Backend
from standfast.stores.values import ClaimRequest, WorkerInfo
from standfast.testing.clock import FakeClock
from standfast.testing.faults import Faults, Killed
from standfast.worker.attempt import AnyTask, Attempts, Workload
from standfast.worker.claim_log import ClaimLog, NoClaimLog
from standfast.worker.completer import Announcer, Ended
from standfast.worker.control import Control, StopReason
from standfast.worker.execution import ThreadExecutor
from standfast.worker.lease import Lease
from standfast.worker.progress import Reporter, Saver
from standfast.worker.storecalls import StoreCalls
from standfast.worker.windows import Closures


class WatchedControl(Control):
    """An attempt that stops at fault points, sees a cancellation at once, and keeps what its handler raised.

    `evidence` says what killed it, and `ignored` what its handler came to after its transaction had completed it.
    """

    takes_pauses = False
    """The clock of a test stands still, and nobody would move it on meanwhile."""

    def __init__(
        self,
        claim: Claim,
        lease: Lease,
        report: Callable[[Control, Progress], None],
        open_notebook: Callable[[Control], OwnNotebook],
        *,
        backend: Backend,
        clock: FakeClock,
        faults: Faults,
    ) -> None:
        super().__init__(claim, lease, report, open_notebook)
        self.evidence: str | None = None
        self.ignored: str | None = None
        self.raised: BaseException | None = None
        self._backend = backend
        self._clock = clock
        self._faults = faults

    @property
    def cancelled(self) -> bool:
        """Whether the handler should end soon. There are no beats in a test, so the store is asked here."""
        if self.why is None:
            job = self._backend.run(self._backend.verbs.get(self.claim.job_id))
            if job is not None and job.cancel_requested:
                self.tell(StopReason.CANCEL)
        return super().cancelled

    def nap(self, seconds: float) -> None:
        """Move the clock on by so much, unless the handler should end: nobody else would."""
        self._move_to(self._clock.boot() + seconds)

    async def anap(self, seconds: float) -> None:
        """Move the clock on, after those who go to sleep beside it: they sleep at the same time."""
        wakes_at = self._clock.boot() + seconds
        await asyncio.sleep(0)
        self._move_to(wakes_at)

    def _move_to(self, boot: float) -> None:
        if not self.cancelled:
            self._clock.advance(max(0.0, boot - self._clock.boot()))

    def fault_point(self, name: str) -> None:
        """Meet the fault that waits here, if there is one; a killed attempt meets its end at every point."""
        if self.evidence is not None:
            raise Killed
        try:
            self._faults.reach(name)
        except Killed:
            self.evidence = f"killed by its test at the fault point {name!r}"
            self.tell(StopReason.STOP)  # what the handler comes to now is of no interest to anybody
            raise

    def overruled(self, said: str) -> None:
        """Take note of what is ignored."""
        self.ignored = said

    def failure(self, ending: Ending) -> BaseException:
        """Return what the handler raised or, if it failed without, an error that says how."""
        whose = f"job {self.claim.job_id} ({self.claim.task}), attempt {self.claim.attempt + 1}"
        if self.ignored is None:
            kinds, after, said = Exception | Outcome, "", f"failed: {ending.failure}"
        else:
            kinds, after = Exception, ", after its transaction had completed the job"
            said = f"was completed by its transaction, and what its handler came to then is ignored: {self.ignored}"
        if isinstance(self.raised, kinds):
            self.raised.add_note(f"raised by {whose}{after}")
            return self.raised
        return AssertionError(f"{whose} {said}")


class Recorded(Mapping[str, AnyTask]):
    """The tasks of an app; what their functions raise is kept with the attempt too."""

    def __init__(self, tasks: Mapping[str, AnyTask]) -> None:
        self._tasks = tasks

    def __getitem__(self, name: str) -> AnyTask:
        task = copy(self._tasks[name])
        task.fn = _recorded_coroutine(task.fn) if task.is_async else _recorded(task.fn)
        return task

    def __iter__(self) -> Iterator[str]:
        return iter(self._tasks)

    def __len__(self) -> int:
        return len(self._tasks)


def _recorded(function: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(function)
    def call(**arguments: Any) -> Any:
        try:
            return function(**arguments)
        except BaseException as error:
            _keep(error)
            raise

    return call


def _recorded_coroutine(function: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(function)
    async def call(**arguments: Any) -> Any:
        try:
            return await function(**arguments)
        except BaseException as error:
            _keep(error)
            raise

    return call


async def record_around(_: Context, call_next: CallNext) -> Any:
    """Be the outermost middleware: what the others made of a handler's exception counts."""
    try:
        value = await call_next()
    except BaseException as error:
        _keep(error)
        raise
    _keep(None)
    return value


def _keep(error: BaseException | None) -> None:
    attempt = current_attempt.get()
    if isinstance(attempt, WatchedControl):
        attempt.raised = error


# A worker in the test's own process: it runs one job after another, and dies where the test wants it to.
#
#     register ─► claim ─► attempt ─► finish ─► claim … ─► nothing is due ─► buried as stopped
#                             └─► killed at a fault point ─────────────────► buried as crashed
#
# The loop is all that is its own. Attempts, the words for what became of them, lifespans and every verb are those of
# the workers in production.

LAST_WORDS = 1.0
"""Seconds for a coroutine to end when the drain is cancelled."""


@dataclass(frozen=True, slots=True)
class Run:
    """One attempt that a drain ran.

    `outcome` is the word in the job's history: complete, retry, snooze, die, cancel, block or release, and crashed
    where a fault killed it. `result` is what the handler returned, and `error` what it failed with, as text.
    """

    job_id: str
    task: str
    attempt: int
    outcome: str
    result: Any = None
    error: str | None = None


@dataclass(frozen=True, slots=True)
class KitEnvironment:
    """What the workers of one kit stand on."""

    app: Standfast
    backend: Backend
    clock: FakeClock
    events: Events
    faults: Faults
    keeps_windows: bool = False


@dataclass(frozen=True, slots=True)
class Worked:
    """How a worker's life went: whether it was killed, and when the next job is due that nobody has."""

    killed: bool
    next_due_at: datetime | None


class InProcessWorker:
    """One worker incarnation, for one drain. Made and used inside a running event loop."""

    def __init__(self, ground: KitEnvironment, ran: Callable[[Run], None], *, raising: bool) -> None:
        app, self._backend, self._clock, self._events = ground.app, ground.backend, ground.clock, ground.events
        self._ground = ground
        self._ran = ran
        self._raising = raising
        random = Unjittered()
        self._id = new_worker_id(Random())
        built_in = built_in_tasks(app, self._clock.now, Programs(), app.settings.name or "")
        self._workload = Workload(
            tasks=Recorded(app.tasks),
            built_in=Recorded(built_in),
            middleware=(record_around, *app.middlewares) if app.middlewares else (),
            tracing=app.tracing,
        )
        self._call = 0
        self._next_due: list[datetime | None] = []
        self._lease = Lease(self._clock, lease=math.inf, margin=0.0, beat_every=math.inf)
        self._lease.renewed(self._clock.boot())
        self._announcer = Announcer(self._events, app.tracing)
        self._threads = ThreadExecutor(1)
        self._closures = Closures(app.windows if ground.keeps_windows else (), self._clock)
        self._cannot_stop: asyncio.Future[tuple[str, str]] = asyncio.get_running_loop().create_future()
        calls = StoreCalls(self._backend, self._clock, self._events, random, app.settings.store_timeout)
        reporter = Reporter(calls, self._clock, self._id, tuple, self._announcer.progressed)
        self._saver = Saver(calls, self._id, reporter.heed)
        self._attempts = Attempts(
            workload=self._workload,
            backend=self._backend,
            worker=self._id,
            clock=self._clock,
            random=random,
            announcer=self._announcer,
            claim_log=ClaimLog(NoClaimLog()),
            reporter=reporter,
            files=app.shelf,
            closures=self._closures,
            threads=self._threads,
            stuck=self._stuck,
        )

    async def work(self) -> Worked:
        """Run what is due, until nothing is or a fault kills this worker."""
        death, dying = Death(DeathKind.STOPPED), None
        lifespans = await enter_lifespans(self._ground.app)
        saving = asyncio.create_task(self._saver.run())
        try:
            await self._backend.arun(self._backend.verbs.register(self._info()))
            while dying is None and (claim := await self._claim()) is not None:
                control = self._watched(claim)
                ending = await self._attempt(control)
                if control.evidence is None:
                    await self._saver.flush(control)
                    await self._finish(control, ending)
                else:
                    death, dying = Death(DeathKind.CRASHED, frozenset({claim.ref}), control.evidence), control
        finally:
            self._threads.abandon()
            saving.cancel()
            await leave_lifespans(lifespans)
            released = await self._backend.arun(self._backend.verbs.bury(self._id, death))
        if dying is not None:
            self._events.emit(WorkerCrashed(self._id, os.getpid(), death.evidence, 1, len(released)))
            self._ran(await self._told(dying.claim, None))
            if self._cannot_stop.done():
                told = "\n".join(self._cannot_stop.result())
                raise AssertionError(f"job {dying.claim.job_id} cannot be stopped: {told}")
        return Worked(dying is not None, min(self._times_to_come(), default=None))

    def _times_to_come(self) -> Iterator[datetime]:
        """Yield when something is due; a job that waits for a signal, however long it takes, has no such time."""
        never = self._clock.now() + FOR_EVER / 2
        return (at for at in self._next_due if at is not None and at < never)

    # -- the way of a claim ----------------------------------------------------------------------------------

    async def _claim(self) -> Claim | None:
        """Take the next due job: a suspect, which runs alone anyway, when there is no other."""
        while (claim := await self._claim_any()) is not None:
            refusal = self._closures.refusal(claim)
            if refusal is None:
                return claim
            await self._end(Ended(claim, refusal))
        return None

    async def _claim_any(self) -> Claim | None:
        self._next_due = []
        closed = self._closures.closed_queues()
        for group in (0, 1):
            if claim := await self._claim_of(group, closed):
                return claim
        suspects = (await self._backend.arun(self._backend.verbs.beat([]))).suspects
        for group in sorted({each.group for each in suspects}):
            if claim := await self._claim_of(group, closed):
                return claim
        if closed:
            await self._look_behind(closed)
        return None

    async def _claim_of(self, group: int, closed: tuple[str, ...]) -> Claim | None:
        self._call += 1
        request = ClaimRequest(self._id, self._call, limit=1, adopt=self._known(), group=group, closed=closed)
        answer = await self._backend.arun(self._backend.verbs.claim(request))
        if answer.jobs:
            return answer.jobs[0]
        self._next_due.append(answer.next_due_at)
        return None

    async def _look_behind(self, closed: tuple[str, ...]) -> None:
        """See whether something waits for closed queues to open."""
        looking = ClaimRequest(self._id, self._call, limit=0, queues=closed)
        waiting = (await self._backend.arun(self._backend.verbs.claim(looking))).next_due_at
        opens_at = self._closures.next_opening()
        if waiting is not None and opens_at is not None:
            self._next_due.append(max(waiting, opens_at))

    def _watched(self, claim: Claim) -> WatchedControl:
        return WatchedControl(
            claim,
            self._lease,
            self._progressed,
            self._saver.open,
            backend=self._backend,
            clock=self._clock,
            faults=self._ground.faults,
        )

    async def _attempt(self, control: WatchedControl) -> Ending | None:
        attempt = asyncio.create_task(self._attempts.run(control))
        control.attempt = attempt
        try:
            either: list[asyncio.Future[Any]] = [attempt, self._cannot_stop]
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        finally:
            if not attempt.done():
                control.interrupt(StopReason.STOP)
                attempt.cancel()
                await asyncio.wait([attempt], timeout=LAST_WORDS)
        if self._cannot_stop.done():
            control.evidence, _ = self._cannot_stop.result()
            return None
        return attempt.result()

    async def _finish(self, control: WatchedControl, ending: Ending | None) -> None:
        claim, verdict = control.claim, Verdict.STALE
        if ending is not None:
            ending = control.with_log(ending)
            verdict = await self._end(Ended(claim, ending, self._clock.boot() - control.started_boot))
        self._ran(await self._told(claim, ending if verdict is Verdict.ACCEPTED else None))
        if self._raising and ending is not None and (MOVES[ending.move].charges or control.ignored is not None):
            raise control.failure(ending)

    async def _end(self, ended: Ended) -> Verdict:
        [verdict] = await self._backend.arun(self._backend.verbs.finish(self._id, [ended.ending]))
        self._announcer.settled(ended, verdict)
        return verdict

    async def _told(self, claim: Claim, ending: Ending | None) -> Run:
        """Return what the store says about a claim that is over."""
        history = await self._backend.arun(self._backend.verbs.history(claim.job_id))
        past = next(attempt for attempt in history if attempt.fence == claim.fence)
        return Run(
            job_id=claim.job_id,
            task=claim.task,
            attempt=claim.attempt + 1,
            outcome=str(past.how or ""),
            result=self._result(claim, ending),
            error=past.error,
        )

    def _result(self, claim: Claim, ending: Ending | None) -> Any:
        if ending is None or ending.result is None:
            return None
        task = self._workload.task(claim.task)
        return decode_result(ending.result, None if task is None else task.result_type)

    def _progressed(self, control: Control, progress: Progress) -> None:
        """Pass progress on at once, every word of it: tests want to see it."""
        self._announcer.progressed(control.claim, progress)
        self._backend.run(self._backend.verbs.progress(self._id, [(control.claim.ref, progress)]))

    def _stuck(self, _: Control, why: str, stack: str) -> None:
        if not self._cannot_stop.done():
            self._cannot_stop.set_result((why, stack))

    def _info(self) -> WorkerInfo:
        lease = self._ground.app.settings.lease_span
        return WorkerInfo(self._id, "kit", platform.node(), os.getpid(), lease)

    def _known(self) -> tuple[KnownTask, ...]:
        return tuple(task.known for task in self._ground.app.tasks.values())


class Unjittered(Random):
    """A source of no surprise: a backoff of 30 seconds is one of 30 seconds, so that a test can wait for it."""

    def random(self) -> float:
        """Return the least number."""
        return 0.0
