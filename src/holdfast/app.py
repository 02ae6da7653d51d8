"""The app: settings, tasks, events, and a store that is opened when it is first needed.

It declares and connects; it neither works jobs nor administers them. Whatever a store can do is a verb of
`app.verbs`, run by `app.call` or `await app.acall`. What it reaches by name there, jobs and locks, is in reach.py.
"""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import timedelta
from functools import partial
from threading import RLock, get_ident
from types import MappingProxyType, TracebackType
from typing import Any, ParamSpec, Self, TypeVar

from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from holdfast.background.handle import Background
from holdfast.background.launcher import Launcher
from holdfast.background.works import Works
from holdfast.clock import Clock, SystemClock
from holdfast.decorator import Beside, TaskDecorator
from holdfast.durable.shelf import Shelf
from holdfast.errors import ConfigurationError
from holdfast.events import Events
from holdfast.gates.adaptive import TURN, Adaptive
from holdfast.gates.limit import Peaks
from holdfast.gates.limits import DeclaredLimits, Gate, Limits
from holdfast.hooks import Lifespan, Middleware, check_lifespan, check_middleware
from holdfast.locks.keeper import Deputy, Keepers
from holdfast.policy import Policy, Seconds
from holdfast.policy.problems import queue_problems, refuse_any
from holdfast.reach import Reach
from holdfast.schedule.closing import About, ClosedHours, Windows, declare_hours
from holdfast.schedule.declaring import Declaration
from holdfast.schedule.recycle import RecycleRules, declare_recycling
from holdfast.schedule.rules import AnyRule
from holdfast.schedule.schedules import Schedules, declare, declare_own
from holdfast.settings import read_settings
from holdfast.spelling import options_of
from holdfast.store.backend import Backend
from holdfast.store.errand import Errand, arun_errand, run_errand
from holdfast.store.files import shelf_of
from holdfast.store.open import check_url, open_backend
from holdfast.store.protocol import Store
from holdfast.store.verb import Verb
from holdfast.task import BoundTask, Task, declare_task
from holdfast.waiter import Waiter

P = ParamSpec("P")
T = TypeVar("T")
M = TypeVar("M", bound=Middleware)
L = TypeVar("L", bound=Lifespan)


class _Opening:
    """The lock under which apps open their stores; a fork waits for it.

    To open a store is to import it, and a child forked meanwhile would wait for ever for the thread that does: for
    our lock, or for Python's lock of the module.
    """

    def __init__(self) -> None:
        self._begin()

    def before_fork(self) -> None:
        if self.lock.acquire(timeout=_FORK_PATIENCE):
            self._forking.append(get_ident())

    def after_in_parent(self) -> None:
        if get_ident() in self._forking:
            self._forking.remove(get_ident())
            self.lock.release()

    def after_in_child(self) -> None:
        self._begin()

    def _begin(self) -> None:
        self.lock = RLock()
        self._forking = list[int]()


_FORK_PATIENCE = 5.0
_OPENING = _Opening()
os.register_at_fork(
    before=_OPENING.before_fork, after_in_parent=_OPENING.after_in_parent, after_in_child=_OPENING.after_in_child
)


class Holdfast(Reach):
    """An app: its tasks and the store that their jobs live in.

    `url` is the store's. Spans are seconds or timedeltas; what each setting means and its default is in
    `holdfast.settings.Settings`. What is given here goes before the settings file, and HOLDFAST_URL and its like go
    before it; `settings_from` tells where each came from. Nothing is opened until it is needed;
    as a context manager the app closes what it opened.
    """

    def __init__(
        self,
        url: str | None = None,
        *,
        namespace: str | None = None,
        lease: Seconds | None = None,
        beat: Seconds | None = None,
        grace: Seconds | None = None,
        hang_limit: Seconds | None = None,
        look_ahead: Seconds | None = None,
        safety_poll: Seconds | None = None,
        store_timeout: Seconds | None = None,
        retry_for: Seconds | None = None,
        concurrency: int | None = None,
        max_wait: Seconds | UnsetType | None = UNSET,
        keep_finished: Seconds | UnsetType | None = UNSET,
        recycle_age: Seconds | None = None,
        recycle_jobs: int | None = None,
        recycle_memory: int | str | None = None,
        drain_limit: Seconds | None = None,
        name: str | None = None,
        release: str | None = None,
        incidents_dir: str | os.PathLike[str] | None = None,
        keep_incidents: int | None = None,
        keep_incidents_for: Seconds | UnsetType | None = UNSET,
        keep_incidents_mb: int | None = None,
        blocked_warning: Seconds | UnsetType | None = UNSET,
        incident_locals: bool | None = None,
        files: str | os.PathLike[str] | None = None,
        files_limit: int | str | None = None,
        background_limit: int | None = None,
        background_when_full: str | None = None,
        clock: Clock | None = None,
    ) -> None:
        given: dict[str, object] = {
            "url": url,
            "namespace": namespace,
            "lease": lease,
            "beat": beat,
            "grace": grace,
            "hang_limit": hang_limit,
            "look_ahead": look_ahead,
            "safety_poll": safety_poll,
            "store_timeout": store_timeout,
            "retry_for": retry_for,
            "concurrency": concurrency,
            "max_wait": max_wait,
            "keep_finished": keep_finished,
            "recycle_age": recycle_age,
            "recycle_jobs": recycle_jobs,
            "recycle_memory": recycle_memory,
            "drain_limit": drain_limit,
            "name": name,
            "release": release,
            "incidents_dir": incidents_dir,
            "keep_incidents": keep_incidents,
            "keep_incidents_for": keep_incidents_for,
            "keep_incidents_mb": keep_incidents_mb,
            "blocked_warning": blocked_warning,
            "incident_locals": incident_locals,
            "files": files,
            "files_limit": files_limit,
            "background_limit": background_limit,
            "background_when_full": background_when_full,
        }
        loaded = read_settings(given, url_check=check_url)
        self.settings = loaded.settings
        self.settings_from = loaded.where
        self.clock: Clock = SystemClock() if clock is None else clock
        self.events = Events()
        self._tasks: dict[str, Task[..., Any]] = {}
        self._declarations: dict[str, Declaration] = {}
        self._windows: dict[tuple[About, str], ClosedHours] = {}
        self._queues: set[str] = set()
        self._limits = DeclaredLimits()
        self._recycle: RecycleRules | None = None
        self._middlewares: list[Middleware] = []
        self._lifespans: list[Lifespan] = []
        self._backend: Backend | None = None
        self._waiter: Waiter | None = None
        self._keepers: Keepers | None = None
        self.deputy: Deputy | None = None
        """Who keeps the locks of this process for it: in a worker, its supervisor."""
        self._works: Works | None = None
        self._stand_in: tuple[Backend, Waiter] | None = None

    @property
    def tasks(self) -> Mapping[str, Task[..., Any]]:
        """The tasks declared so far, by name."""
        return MappingProxyType(self._tasks)

    @property
    def task(self) -> TaskDecorator:
        """Declare a function as a task: `@app.task`, or `@app.task(queue="mail", timeout=30)`."""
        return TaskDecorator(self._register)

    @property
    def declarations(self) -> Sequence[Declaration]:
        """The schedules declared so far; workers bring them into the store when they start."""
        return tuple(self._declarations.values())

    @property
    def schedules(self) -> Schedules:
        """What can be done with the schedules in the store, as in `app.call(app.schedules.pause("nightly"))`."""
        return Schedules(self.verbs, timedelta(seconds=self.settings.look_ahead))

    def schedule(
        self, name: str, task: Task[P, Any] | BoundTask[P, Any], rule: AnyRule, /, *args: P.args, **kwargs: P.kwargs
    ) -> None:
        """Declare that a task is to run with these arguments as often as the rule says.

        Workers bring what is declared into the store when they start, and retire what is declared no more. For a
        schedule that is made at run time, see `schedules`.
        """
        self._declare(declare(name, task, rule, args, kwargs))

    @property
    def windows(self) -> Sequence[ClosedHours]:
        """The windows declared so far, of queues and of tasks; the workers of this app keep to them."""
        return tuple(self._windows.values())

    @options_of("app.queue")
    def queue(
        self,
        name: str,
        *,
        window: Windows | None = None,
        concurrency: int | None = None,
        peak: Peaks | None = None,
    ) -> None:
        """Declare that no job of a queue starts inside a window, and how many run at a time in one process.

        Running jobs are asked to finish before a window begins, and what had to wait starts when it has ended.
        While `concurrency` of its jobs run, or in a `peak` fewer, none is claimed here: other processes may.
        """
        refuse_any(queue_problems(name))
        if name in self._queues:
            raise ConfigurationError(
                f"queue {name!r} is declared twice; declare it once, with all its windows: window=(..., ...)"
            )
        if window is None and concurrency is None and peak is None:
            raise ConfigurationError(
                f"app.queue({name!r}) says nothing; say how many of its jobs run at a time, as in concurrency=2, or"
                ' when none starts, as in window=Window("03:00", "03:15", tz="Asia/Taipei")'
            )
        hours = None if window is None else declare_hours(About.QUEUE, name, window)
        self._limits.queue(name, concurrency, peak)
        self._queues.add(name)
        if hours is not None:
            self._windows[hours.about, hours.name] = hours

    @property
    def limits(self) -> Limits:
        """How many jobs may run at a time in one process, as far as that is declared."""
        return self._limits.all

    @options_of("app.gate")
    def gate(self, name: str, limit: int, *, peak: Peaks | None = None) -> Gate:
        """Declare a gate: of all tasks that go through it, so many jobs run at a time in one process.

        In a `peak` fewer: `peak={Window("09:00", "18:00"): 1}`. Declare it before its tasks, which name it:
        `@app.task(gate="disk")`.
        """
        return self._limits.gate(name, limit, peak)

    def peak(self, peak: Peaks) -> None:
        """Declare how many jobs a worker process runs at a time in its peak hours, instead of its `concurrency`."""
        self._limits.peak(peak)

    @options_of("app.adaptive")
    def adaptive(
        self,
        *,
        lag: Seconds | None = 0.05,
        latency: Seconds | None = None,
        lowest: int = 1,
        turn: Seconds | None = TURN,
    ) -> Adaptive:
        """Declare that fewer jobs run at a time while the host's event loop lags, or its requests take too long.

        The limits are seconds. What is returned is told of both: see `holdfast.gates.adaptive.Adaptive`.
        """
        return self._limits.adapt(Adaptive(lag, latency, lowest, turn))

    @property
    def recycle_rules(self) -> RecycleRules:
        """When worker processes are replaced, and when not, as far as that is declared."""
        return self._recycle or RecycleRules()

    @options_of("app.recycle")
    def recycle(self, *, at: AnyRule | None = None, never: Windows = ()) -> None:
        """Declare that worker processes are replaced at the times of a rule, and for no reason inside a window.

        Each by another that works before it leaves: see also the settings `recycle_age`, `recycle_jobs` and
        `recycle_memory`.
        """
        if self._recycle is not None:
            raise ConfigurationError("app.recycle is called twice; call it once, with all that it is to say")
        self._recycle = declare_recycling(at, never)

    @property
    def backend(self) -> Backend:
        """The open store; the first use opens it."""
        backend = self._backend
        if backend is not None:
            return backend
        with _OPENING.lock:
            if self._backend is None:
                self._backend = self._stand_in[0] if self._stand_in else open_backend(self.settings, self.clock)
            return self._backend

    @property
    def waiter(self) -> Waiter:
        """The one through which every handle of this app waits; the first use makes it."""
        waiter = self._waiter
        if waiter is not None:
            return waiter
        with _OPENING.lock:
            if self._waiter is None:
                self._waiter = self._stand_in[1] if self._stand_in else Waiter(self.backend)
            return self._waiter

    @property
    def keepers(self) -> Keepers:
        """Who keeps the locks that this app holds; the first use makes it."""
        keepers = self._keepers
        if keepers is not None:
            return keepers
        with _OPENING.lock:
            if self._keepers is None:
                self._keepers = Keepers(self.backend, self.clock, lambda: self.deputy)
            return self._keepers

    @property
    def verbs(self) -> Store:
        """What the store can do; run it with `call` or `acall`."""
        return (self._backend or self.backend).verbs

    @property
    def retry_for(self) -> float:
        """For how many seconds an enqueue goes on trying while the store is away, unless it says so itself."""
        return self.settings.retry_for

    @property
    def middlewares(self) -> Sequence[Middleware]:
        """The middleware declared so far, the outermost first."""
        return tuple(self._middlewares)

    def middleware(self, around: M) -> M:
        """Put `async def around(ctx, call_next)` around each attempt; the first declared is the outermost.

        It awaits `call_next()`, which runs the handler, and returns or raises the outcome.
        """
        check_middleware(around)
        self._middlewares.append(around)
        return around

    @property
    def lifespans(self) -> Sequence[Lifespan]:
        """The lifespans declared so far."""
        return tuple(self._lifespans)

    def lifespan(self, lifespan: L) -> L:
        """Let each worker process run an `async def` with one `yield`: until then before its jobs, the rest after.

        It takes the app. Several are entered in the order of their declaration and left in reverse.
        """
        check_lifespan(lifespan)
        self._lifespans.append(lifespan)
        return lifespan

    def call(self, verb: Verb[T] | Errand[T], tx: Any = None) -> T:
        """Run a verb, as in `app.call(app.verbs.pause("mail"))`; inside the transaction of `tx`, if it is given.

        An errand, such as those of `schedules`, is several verbs.
        """
        if isinstance(verb, Errand):
            return run_errand(partial(self.call, tx=tx), verb)
        backend = self._backend or self.backend
        return backend.run(verb) if tx is None else backend.run_in(verb, tx)

    async def acall(self, verb: Verb[T] | Errand[T], tx: Any = None) -> T:
        """Run a verb without blocking the event loop."""
        if isinstance(verb, Errand):
            return await arun_errand(partial(self.acall, tx=tx), verb)
        return await (self.backend.arun(verb) if tx is None else self.backend.arun_in(verb, tx))

    @property
    def background(self) -> Launcher:
        """Run a function in the background of this process: `app.background(fn, *args)`. It is not durable."""
        return Launcher(self._work, lambda: self._tasks, self.settings.background_when_full)

    @property
    def backgrounds(self) -> Sequence[Background[Any]]:
        """What runs in the background of this process, and what waits to."""
        return () if self._works is None else self._works.all

    @property
    def _work(self) -> Works:
        with _OPENING.lock:
            if self._works is None:
                self._works = Works(self, to_disk=self._stand_in is None)
            return self._works

    @property
    def shelf(self) -> Shelf:
        """Where the files are that jobs save."""
        return shelf_of(replace(self.settings, url="memory://", files=None) if self._stand_in else self.settings)

    def prepare(self) -> None:
        """Open the store and make its tables ready, which the first use does otherwise.

        A transaction of your own, on whose connection you enqueue, may find them missing, and cannot make them.
        """
        self.call(self.verbs.glance(()))

    def close(self) -> None:
        """End the work in the background, within `grace`, and let go of the store, which the next use opens again.

        Whoever waits for a job is told so by a StoreError. In async code `aclose`.
        """
        self._work.close(self.settings.grace)
        with _OPENING.lock:
            backend, self._backend = self._backend, None
            waiter, self._waiter = self._waiter, None
            keepers, self._keepers = self._keepers, None
        if keepers is not None:
            keepers.close()
        if waiter is not None:
            waiter.close()
        if backend is not None:
            backend.close()

    async def aclose(self) -> None:
        """Close as `close` does, and let the event loop go on while work in the background ends."""
        await self._work.aclose(self.settings.grace)
        self.close()

    @contextmanager
    def elsewhere(self, backend: Backend, waiter: Waiter, clock: Clock) -> Iterator[None]:
        """Live on another store and by another clock within the block, however often it is closed: for tests.

        The app's own store, if it is open, stays so, and is not touched.
        """
        with _OPENING.lock:
            own = (self.clock, self._stand_in, self._backend, self._waiter, self._keepers, self._works)
            self.clock, self._stand_in = clock, (backend, waiter)
            self._backend = self._waiter = self._keepers = self._works = None
        try:
            yield
        finally:
            try:
                self.close()
            finally:
                with _OPENING.lock:
                    self.clock, self._stand_in, self._backend, self._waiter, self._keepers, self._works = own

    def __enter__(self) -> Self:
        self.background.open()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _register(self, fn: Callable[..., Any], policy: Policy, beside: Beside) -> Task[..., Any]:
        task = declare_task(fn, beside.name, policy, self)
        if task.name in self._tasks:
            raise ConfigurationError(f"two tasks are named {task.name!r}; give one of them another name=")
        hours = None if beside.window is None else declare_hours(About.TASK, task.name, beside.window)
        self._limits.task(task.name, beside.concurrency, beside.peak, beside.gate)
        if beside.schedule is not None:
            self._declare(declare_own(task, beside.schedule))
        if hours is not None:
            self._windows[hours.about, hours.name] = hours
        self._tasks[task.name] = task
        return task

    def _declare(self, declaration: Declaration) -> None:
        if declaration.name in self._declarations:
            raise ConfigurationError(f"two schedules are named {declaration.name!r}; give one of them another name")
        self._declarations[declaration.name] = declaration
