"""The testing kit: an app on a store of the test's own, whose jobs run when the test says so.

with StandfastKit(app) as kit:
    welcome.enqueue(user=7)
    kit.drain()
    kit.assert_enqueued(send_email, to="a@example.com")
"""

import asyncio
import logging
import threading
from collections import Counter
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from contextvars import copy_context
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from types import TracebackType
from typing import Any, Self, TypeVar

import msgspec

from standfast.app import Standfast
from standfast.errors import UnknownTaskError
from standfast.events import Event, Events
from standfast.handle import JobHandle
from standfast.model.job import Job
from standfast.model.outcomes import Outcome
from standfast.model.records import Fire, Kind
from standfast.model.validation import Seconds
from standfast.observe.logs.job_log import TailHandler, keep_log_tails
from standfast.schedules.declarations import Declarer, release_of, synchronise
from standfast.schedules.fires import fire_due
from standfast.stores.url import open_backend
from standfast.stores.verb import run_procedure
from standfast.supervisor.scheduler import events_of
from standfast.task import Task
from standfast.testing.clock import FakeClock
from standfast.testing.enqueued import Enqueued, Expected, all_enqueued
from standfast.testing.faults import Fault, Faults, Killed
from standfast.testing.standin import StandInBackend, StandInWaiter
from standfast.testing.worker import InProcessWorker, KitEnvironment, Run, Worked

# How sync code runs a coroutine: on an event loop of its own, in this thread or beside a loop that runs here.

T = TypeVar("T")


def run_here(work: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Run a coroutine to its end in this thread. Raises RuntimeError where an event loop runs."""
    __tracebackhide__ = True
    if _loop_runs():
        raise RuntimeError("an event loop runs here: `await kit.adrain()`, or adrain_all, in async tests")
    # With a loop of our own making, that of the thread (`asyncio.get_event_loop`) is left as it is.
    with asyncio.Runner(loop_factory=asyncio.new_event_loop) as runner:
        return runner.run(work())


def run_anywhere(work: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Run a coroutine to its end; where an event loop runs, in another thread, while this one waits."""
    __tracebackhide__ = True
    if not _loop_runs():
        return run_here(work)
    with ThreadPoolExecutor(1) as threads:
        return threads.submit(copy_context().run, run_here, work).result()


def _loop_runs() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


# Jobs that run at once: whatever makes one due is followed by a drain.


class InlineRunner:
    """Heeds what wakes workers. While `raising` is None it does nothing."""

    def __init__(self, drain: Callable[[bool], Coroutine[Any, Any, Any]]) -> None:
        self.raising: bool | None = None
        self._drain = drain

    def woken(self) -> None:
        """Run what became due, before the call that made it so returns."""
        __tracebackhide__ = True
        if (raising := self.raising) is not None:
            run_anywhere(lambda: self._drain(raising))

    async def awoken(self) -> None:
        """Do so on the running event loop."""
        __tracebackhide__ = True
        if self.raising is not None:
            await self._drain(self.raising)


# The schedules of a kit's app: declared when they should be, and fired when the test says so.

_AT_THEIR_TIME = timedelta()
"""Nothing is fired ahead: what a test does not let come does not happen."""


class ScheduleRunner:
    """What the workers and supervisors of a kit would do about schedules."""

    def __init__(self, ground: KitEnvironment) -> None:
        self._app, self._backend, self._events = ground.app, ground.backend, ground.events
        self._declared = 0

    def declare(self) -> None:
        """Bring into the store what the app declares, unless that is done."""
        declared, windows = self._app.declarations, self._app.windows
        if len(declared) == self._declared:
            return
        self._declared = len(declared)
        settings = self._app.settings
        name, release = settings.name or "kit", settings.release or release_of(declared, windows)
        who = Declarer(name, release, worker="", ahead=_AT_THEIR_TIME, insists=True)
        run_procedure(self._backend.run, synchronise(self._backend.verbs, who, declared, windows))

    def fire(self) -> list[Fire]:
        """Decide about all that is due; return what was decided."""
        self.declare()
        fires: list[Fire] = []
        while self._due():
            look = run_procedure(self._backend.run, fire_due(self._backend.verbs, _AT_THEIR_TIME))
            fires += look.fires
            for event in events_of(look):
                self._events.emit(event)
        return fires

    def next_due_at(self) -> datetime | None:
        """Return when a schedule is due next."""
        records = self._backend.run(self._backend.verbs.records(Kind.SCHEDULE))
        return min((record.due_at for record in records if record.due_at is not None), default=None)

    def _due(self) -> bool:
        looked = self._backend.run(self._backend.verbs.due_records(Kind.SCHEDULE, timedelta(), 1))
        return bool(looked.records)


# What keeps a drain from running for ever.

RUNS = 1000
"""So many attempts may one drain run."""

NESTED = 25
"""So many inline jobs may have enqueued one another."""


@dataclass(slots=True)
class Runs:
    """The attempts of one drain, as many as it may run."""

    limit: int = RUNS
    done: list[Run] = field(default_factory=list)

    def add(self, run: Run) -> None:
        """Add an attempt. Raises AssertionError where there are too many."""
        self.done.append(run)
        if len(self.done) > self.limit:
            [(task, count)] = Counter(each.task for each in self.done).most_common(1)
            raise AssertionError(
                f"the drain ran {len(self.done):,} attempts, {count:,} of them of {task}, and there is no end: does"
                " a handler enqueue itself or snooze for ever? If so many are right, give a higher limit="
            )


class InlineDepth:
    """The drains in progress: several where inline jobs enqueue others, each within the one before."""

    def __init__(self) -> None:
        self.depth = 0
        self._endless: AssertionError | None = None
        self._lock = threading.Lock()

    def __enter__(self) -> None:
        with self._lock:
            if self.depth >= NESTED:
                self._endless = AssertionError(
                    f"inline jobs have enqueued one another {NESTED} deep, and there is no end: does a handler"
                    " enqueue itself? Test it with kit.drain()"
                )
                raise self._endless
            self.depth += 1

    def check(self) -> None:
        """Raise what was found to be endless, at every level: each handler takes it for a failure of its own."""
        if self._endless is not None:
            raise self._endless

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._lock:
            self.depth -= 1
            if self.depth == 0:
                self._endless = None


AnyTask = Task[..., Any]


class StandfastKit:
    """Puts an app on a fresh store in memory, with a clock that stands still, for the length of a `with` block.

    `url` names another store than memory: with a SQLite file, `tx=` and `ctx.transaction` can be tested too.
    `clock` starts at `start`, or at the present time, and moves only when the test moves it. Windows of queues and
    tasks count only with a `start`: at which hour a test happens to run must not matter. `events` are all that were
    emitted about jobs and workers.
    """

    def __init__(self, app: Standfast, *, url: str = "memory://", start: datetime | None = None) -> None:
        self.app = app
        self.clock = FakeClock(datetime.now(UTC) if start is None else start)
        self.events: list[Event] = []
        self._faults = Faults()
        self._inline = InlineRunner(lambda raising: self.adrain(raising=raising))
        self._nesting = InlineDepth()
        self._open = False
        backend = open_backend(msgspec.structs.replace(app.settings, url=url), self.clock)
        emitted = Events()
        emitted.subscribe(self.events.append)
        emitted.subscribe(app.events.emit)
        self._ground = KitEnvironment(
            app, backend, self.clock, emitted, self._faults, keeps_windows=start is not None
        )
        self._clockwork = ScheduleRunner(self._ground)
        self._waiter = StandInWaiter(backend, lambda: self._nesting.depth > 0)
        self._leaving = ExitStack()

    def __enter__(self) -> Self:
        backend = StandInBackend(self._ground.backend, self._inline)
        self._leaving.callback(self._ground.backend.close)
        self._leaving.enter_context(self.app.elsewhere(backend, self._waiter, self.clock))
        self._leaving.enter_context(_log_tails())
        self._clockwork.declare()
        self._open = True
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        __tracebackhide__ = True
        self._open = False
        self._leaving.close()
        if error is None:
            self._faults.check()

    # -- running jobs ----------------------------------------------------------------------------------------

    def drain(self, *, raising: bool = False, limit: int = RUNS) -> list[Run]:
        """Run every job that is due, one after another as a worker would, until none is; return what was run.

        Jobs that handlers enqueue run too. What fails is tried again by its policy, at a later time: `advance` the
        clock, or use `drain_all`. With `raising`, the first failure ends the drain, and the handler's own exception
        is raised, also one that came after its `ctx.transaction` had completed the job and is ignored in life. A
        crash (`crash_after`) ends it too, as it would end a worker. More than `limit` runs are an AssertionError: a
        handler seems to enqueue or snooze for ever.
        """
        __tracebackhide__ = True
        return run_here(lambda: self.adrain(raising=raising, limit=limit))

    async def adrain(self, *, raising: bool = False, limit: int = RUNS) -> list[Run]:
        """Run every job that is due, as `drain` does, on the running event loop."""
        __tracebackhide__ = True
        ran = Runs(limit)
        await self._work(ran, raising=raising)
        return ran.done

    def drain_all(self, *, raising: bool = False, limit: int = RUNS) -> list[Run]:
        """Drain, move the clock to when the next job is due, and drain again, until nothing waits for its time.

        So retries, delayed jobs and those that sleep run too, and what was killed by a fault is run again. A job
        that waits for a signal goes on when its timeout is over; without one it stays where it is.
        """
        __tracebackhide__ = True
        return run_here(lambda: self.adrain_all(raising=raising, limit=limit))

    async def adrain_all(self, *, raising: bool = False, limit: int = RUNS) -> list[Run]:
        """Drain and move the clock, as `drain_all` does, on the running event loop."""
        __tracebackhide__ = True
        ran = Runs(limit)
        while True:
            worked = await self._work(ran, raising=raising)
            if worked.killed:
                continue
            if worked.next_due_at is None or worked.next_due_at <= self.clock.now():
                return ran.done
            self.advance(worked.next_due_at - self.clock.now())

    @contextmanager
    def inline(self, *, raising: bool = False) -> Iterator[None]:
        """Run each job, and what becomes due through it, before its enqueue returns.

        With `raising`, the enqueue raises what the handler raised. Jobs enqueued with `tx=` wait for a drain, as
        they do not exist before your transaction commits.
        """
        before, self._inline.raising = self._inline.raising, raising
        try:
            yield
        finally:
            self._inline.raising = before

    def advance(self, time: Seconds) -> None:
        """Move the clock on, by seconds or a timedelta. By that alone nothing runs and no schedule fires.

        `fire_schedules` and `drain` after it, or use `live`.
        """
        self._clockwork.declare()
        self.clock.advance(time.total_seconds() if isinstance(time, timedelta) else time)

    # -- schedules -------------------------------------------------------------------------------------------

    def fire_schedules(self) -> list[Fire]:
        """Fire the app's schedules that are due by the clock, as a supervisor would; return what was decided.

        Their jobs are enqueued: `drain` runs them. A schedule counts from the start of the kit, or from when the
        clock is first moved after its declaration. A time that is more than `misfire_after` ago was missed.
        """
        __tracebackhide__ = True
        self._check_open()
        return self._clockwork.fire()

    def live(self, time: Seconds, *, raising: bool = False, limit: int = RUNS) -> list[Run]:
        """Let time pass as it does where a worker runs: schedules fire and jobs run, each at its time.

        Returns what was run. The clock moves from one due time to the next; handlers take no time by it.
        """
        __tracebackhide__ = True
        return run_here(lambda: self.alive(time, raising=raising, limit=limit))

    async def alive(self, time: Seconds, *, raising: bool = False, limit: int = RUNS) -> list[Run]:
        """Let time pass, as `live` does, on the running event loop."""
        __tracebackhide__ = True
        self._check_open()
        ran = Runs(limit)
        span = time if isinstance(time, timedelta) else timedelta(seconds=time)
        ends_at = self.clock.now() + span
        while True:
            self._clockwork.fire()
            worked = await self._work(ran, raising=raising)
            if worked.killed:
                continue
            now = self.clock.now()
            due = [at for at in (worked.next_due_at, self._clockwork.next_due_at()) if at is not None and at > now]
            next_at = min(due, default=None)
            if next_at is None or next_at > ends_at:
                self.advance(max(ends_at - now, timedelta()))  # a handler that slept may have moved it further
                return ran.done
            self.advance(next_at - now)

    # -- faults ----------------------------------------------------------------------------------------------

    def crash_after(self, point: str, *, times: int = 1) -> Fault:
        """Kill the next `times` attempts that come to `ctx.fault_point(point)`, as if their process had died there.

        Nothing of the handler runs after that but its `finally` blocks. The job is charged as it would be in life,
        the drain ends, and the next one runs the job again. In a `with` statement the fault is gone at the end of
        the block and must have struck by then, else an AssertionError says which points were reached.
        """
        return self._faults.arm(point, times, Killed())

    def fail_at(self, point: str, error: Exception | Outcome, *, times: int = 1) -> Fault:
        """Raise `error` from `ctx.fault_point(point)` in the next `times` attempts that come to it."""
        return self._faults.arm(point, times, error)

    # -- looking ---------------------------------------------------------------------------------------------

    def job(self, handle: JobHandle[Any] | str) -> Job:
        """Return a job, by its handle or id, as it is now. Raises JobNotFoundError."""
        return (self.app.handle(handle) if isinstance(handle, str) else handle).job()

    def enqueued(self, task: AnyTask | str | None = None) -> list[Enqueued]:
        """Return what was enqueued, run or not: the jobs of a task, given as such or by name, or all of them."""
        return all_enqueued(self.app, None if task is None else self._task(task).name)

    def assert_enqueued(
        self,
        task: AnyTask | str,
        /,
        *,
        times: int | None = None,
        queue: str | None = None,
        key: str | None = None,
        delay: Seconds | None = None,
        at: datetime | None = None,
        tags: Iterable[str] = (),
        arguments: Mapping[str, Any] | None = None,
        **named: Any,
    ) -> None:
        """Fail unless such a job was enqueued, or so many `times`; what is not named may be anything.

        Arguments are given by name, and compared with what the handler receives; those whose names are also
        options, as `queue`, go into `arguments`. `tags` must all be there.
        """
        __tracebackhide__ = True
        options = _given(queue=queue, key=key, delay=delay, at=at, tags=tuple(tags) or None)
        expected = Expected(self._task(task), options, {**(arguments or {}), **named})
        jobs = self.enqueued()
        count = expected.count(jobs)
        if times is None and count == 0:
            raise AssertionError(f"{expected} was not enqueued\n{expected.tell(jobs)}")
        if times not in {None, count}:
            raise AssertionError(f"{expected} was enqueued {count}×, not {times}×\n{expected.tell(jobs)}")

    def assert_not_enqueued(
        self,
        task: AnyTask | str,
        /,
        *,
        queue: str | None = None,
        key: str | None = None,
        delay: Seconds | None = None,
        at: datetime | None = None,
        tags: Iterable[str] = (),
        arguments: Mapping[str, Any] | None = None,
        **named: Any,
    ) -> None:
        """Fail if such a job was enqueued; the fewer you name, the more jobs are meant."""
        __tracebackhide__ = True
        options = _given(queue=queue, key=key, delay=delay, at=at, tags=tuple(tags) or None)
        expected = Expected(self._task(task), options, {**(arguments or {}), **named})
        jobs = self.enqueued()
        if count := expected.count(jobs):
            raise AssertionError(
                f"{expected} should not have been enqueued and was, {count}×\n{expected.tell(jobs)}"
            )

    # -- inside ----------------------------------------------------------------------------------------------

    async def _work(self, ran: Runs, *, raising: bool) -> Worked:
        __tracebackhide__ = True
        self._check_open()

        def tell(run: Run) -> None:
            ran.add(run)
            self._waiter.look()
            self._nesting.check()

        try:
            with self._nesting:
                return await InProcessWorker(self._ground, tell, raising=raising).work()
        finally:
            self._waiter.look()

    def _check_open(self) -> None:
        __tracebackhide__ = True
        if not self._open:
            raise RuntimeError("the kit is not in use: write `with StandfastKit(app) as kit:`")

    def _task(self, task: AnyTask | str) -> AnyTask:
        name = task if isinstance(task, str) else task.name
        found = self.app.tasks.get(name)
        if found is None:
            raise UnknownTaskError(f"the app has no task {name!r}; it has {', '.join(self.app.tasks) or 'none'}")
        return found


@contextmanager
def _log_tails() -> Iterator[None]:
    """Keep the end of what attempts log, as workers do; a kit within a kit need not do so again."""
    root = logging.getLogger()
    if any(isinstance(handler, TailHandler) for handler in root.handlers):
        yield
        return
    end = keep_log_tails(root)
    try:
        yield
    finally:
        end()


def _given(**options: Any) -> dict[str, Any]:
    return {name: value for name, value in options.items() if value is not None}
