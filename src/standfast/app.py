"""The app: settings, tasks, events, and a store that is opened when it is first needed.

It declares and connects; it neither works jobs nor administers them. Whatever a store can do is a verb of
`app.verbs`, run by `app.call` or `await app.acall`.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import timedelta
from functools import partial
from types import MappingProxyType, TracebackType
from typing import TYPE_CHECKING, Any, NoReturn, ParamSpec, Self, TypeVar, Unpack

from msgspec.structs import replace

from standfast.context import Lifespan, Middleware, check_lifespan, check_middleware
from standfast.durable.files import FileStore, SavedFile, file_store_of, find_files
from standfast.durable.lock import Leased, Lock
from standfast.durable.lockkeeper import Deputy, LockKeepers
from standfast.durable.lockstate import refuse_bad_lock
from standfast.durable.sessionlock import SessionLock
from standfast.errors import ArgumentsError, ConfigurationError
from standfast.events import Events
from standfast.handle import JobHandle
from standfast.hosts.background.group import BackgroundGroup
from standfast.hosts.background.launcher import Launcher
from standfast.hosts.background.work import Background
from standfast.model.alerts import AlertRule, Objective
from standfast.model.clock import Clock, SystemClock
from standfast.model.configuration import SettingArguments
from standfast.model.job import Job
from standfast.model.policy import Policy
from standfast.model.suggestions import closest_name, options_of, with_migration_hints
from standfast.model.tracing import Tracing
from standfast.model.validation import Seconds, as_seconds, queue_problems, refuse_any
from standfast.observe.alerts.alert_rules import AlertSettings
from standfast.observe.alerts.alert_settings import AlertDeclarations
from standfast.observe.alerts.channel import Channel, DeadMan
from standfast.observe.traces import open_tracing
from standfast.schedules.adaptive import TURN, Adaptive
from standfast.schedules.closed_hours import (
    About,
    ClosedHours,
    RecycleRules,
    Windows,
    declare_hours,
    declare_recycling,
)
from standfast.schedules.declarations import Declaration
from standfast.schedules.limits import Gate, Limits, Peaks
from standfast.schedules.operations import Schedules, declare
from standfast.schedules.rules import AnyRule
from standfast.schedules.windows import Window
from standfast.settings import URL_VARIABLE, read_settings
from standfast.stores.backend import Backend, Observer, know_identity
from standfast.stores.contract import Store
from standfast.stores.url import (
    OPEN_LOCK,
    check_url,
    made_by_an_import,
    open_backend,
    public_name,
    refuse_in_test,
    warn_of_enqueue_at_import,
)
from standfast.stores.verb import Procedure, Verb, arun_procedure, run_procedure
from standfast.stores.waiter import Waiter
from standfast.task import (
    BoundTask,
    DeclaredAt,
    Task,
    TaskDecorator,
    TaskOptions,
    declare_own,
    declare_task,
    refuse_alike,
)

if TYPE_CHECKING:
    from opentelemetry.propagators.textmap import TextMapPropagator
    from opentelemetry.trace import TracerProvider

    from standfast.admin.registry import AppAdmin


P = ParamSpec("P")
T = TypeVar("T")
M = TypeVar("M", bound=Middleware)
L = TypeVar("L", bound=Lifespan)


AnyJob = JobHandle[Any] | Job | str
"""A job, as itself, by its handle or by its id."""

_BY_SCHEDULE = "write app.schedule(NAME, TASK, Every(...)), or @app.task(schedule=...)"
_WORKER = "run `standfast worker MODULE:APP`"
_ELSEWHERE = {
    "send_task": "write app.tasks[NAME].enqueue(...); a program without the code of a task declares one of its name"
    " and parameters",
    "enqueue": "write TASK.enqueue(...), with a function that @app.task declares",
    "AsyncResult": "write app.handle(JOB_ID)",
    "conf": "give settings to Standfast(...), or write them into standfast.toml",
    "run": _WORKER,
    "start": _WORKER,
    "worker_main": _WORKER,
    "add_periodic_task": _BY_SCHEDULE,
    "on_after_configure": _BY_SCHEDULE,
    "periodic_task": "write @app.task(schedule=...)",
    "autodiscover_tasks": "import the modules of your tasks where the app is made, or in one that workers name",
}
"""What people write who come from other systems, and how it is written here."""


class _Tasks(dict[str, Task[..., Any]]):
    """Tasks by name: for one that is not there, the error has the name that was meant."""

    def __missing__(self, name: str) -> NoReturn:
        meant = closest_name(str(name), self)
        way = "import the module that declares it" if meant is None else f"did you mean {meant!r}?"
        raise KeyError(f"no task is named {name!r}; {way}")


@with_migration_hints(_ELSEWHERE)
class Standfast:
    """An app: its tasks and the store that their jobs live in.

    `url` is the store's. Spans are seconds or timedeltas; what each setting means and its default is in
    `standfast.model.configuration.Settings`. What is given here goes before the settings file, and STANDFAST_URL and
    its like go before it; `settings_from` tells where each came from. Nothing is opened until it is needed;
    as a context manager the app closes what it opened.
    """

    @options_of("Standfast")
    def __init__(
        self, url: str | None = None, *, clock: Clock | None = None, **settings: Unpack[SettingArguments]
    ) -> None:
        loaded = read_settings({"url": url, **settings}, url_check=check_url)
        self.settings = loaded.settings
        self.settings_from = loaded.where
        self._watching = AlertDeclarations(loaded.sections)
        self.clock: Clock = SystemClock() if clock is None else clock
        self.events = Events()
        self._windows: dict[tuple[About, str], ClosedHours] = {}
        self._queues: set[str] = set()
        self._limits = Limits()
        self._recycle: RecycleRules | None = None
        self._tasks = _Tasks()
        self._declarations: dict[str, Declaration] = {}
        self._tasks_at: dict[str, DeclaredAt] = {}
        self._declarations_at: dict[str, DeclaredAt] = {}
        self._middlewares: list[Middleware] = []
        self._lifespans: list[Lifespan] = []
        self._of_project = made_by_an_import()
        self._backend: Backend | None = None
        self._observer: Observer | None = None
        self._waiter: Waiter | None = None
        self._keepers: LockKeepers | None = None
        self.deputy: Deputy | None = None
        """Who keeps the locks of this process for it: in a worker, its supervisor."""
        self.known_as = self.settings.name or ""
        """Its name, or in a worker without one where it was found: so channels of several apps are told apart."""
        self._works: BackgroundGroup | None = None
        self._stand_in: tuple[Backend, Waiter] | None = None
        self.tracing: Tracing | None = None
        """What makes spans, once `use_tracing` was called."""

    @property
    def tasks(self) -> Mapping[str, Task[..., Any]]:
        """The tasks declared so far, by name."""
        return MappingProxyType(self._tasks)

    @property
    def task(self) -> TaskDecorator:
        """Declare a function as a task: `@app.task`, or `@app.task(queue="mail", timeout=30)`."""
        return TaskDecorator(self._register, timeout=self.settings.timeout)

    @property
    def declarations(self) -> Sequence[Declaration]:
        """The schedules declared so far; workers bring them into the store when they start."""
        return tuple(self._declarations.values())

    @property
    def schedules(self) -> Schedules:
        """What can be done with the schedules in the store, as in `app.call(app.schedules.pause("nightly"))`."""
        return Schedules(self.verbs, timedelta(seconds=self.settings.look_ahead))

    @property
    def admin(self) -> "AppAdmin":
        """What the command line and the dashboard can do, for tools of your own: `app.admin.queues()`."""
        from standfast.admin.registry import AppAdmin  # noqa: PLC0415 - few apps need it, and it imports much

        return AppAdmin(self)

    def schedule(
        self, name: str, task: Task[P, Any] | BoundTask[P, Any], rule: AnyRule, /, *args: P.args, **kwargs: P.kwargs
    ) -> None:
        """Declare that a task is to run with these arguments as often as the rule says.

        Workers bring it into the store when they start. For a schedule made at run time, see `schedules`.
        """
        self._declare(declare(name, task, rule, args, kwargs), DeclaredAt.here())

    @property
    def backend(self) -> Backend:
        """The open store; the first use opens it."""
        backend = self._backend
        if backend is not None:
            return backend
        with OPEN_LOCK.lock:
            if self._backend is None:
                backend = self._stand_in[0] if self._stand_in else self._open_own()
                if self._observer is not None:
                    backend.observe(self._observer)
                self._backend = backend
            return self._backend

    def _open_own(self) -> Backend:
        warn_of_enqueue_at_import()
        url = self.settings.url
        if self._of_project and self.settings_from["url"] != URL_VARIABLE and not url.startswith("memory:"):
            refuse_in_test(public_name(url))
        return open_backend(self.settings, self.clock)

    def observe(self, observer: Observer) -> None:
        """Call `observer(verb, answer, seconds, error)` after each call of the store, open or not yet."""
        with OPEN_LOCK.lock:
            self._observer = observer
            if self._backend is not None:
                self._backend.observe(observer)

    @property
    def waiter(self) -> Waiter:
        """The one through which every handle of this app waits; the first use makes it."""
        waiter = self._waiter
        if waiter is not None:
            return waiter
        with OPEN_LOCK.lock:
            if self._waiter is None:
                self._waiter = self._stand_in[1] if self._stand_in else Waiter(self.backend)
            return self._waiter

    @property
    def keepers(self) -> LockKeepers:
        """Who keeps the locks that this app holds; the first use makes it."""
        keepers = self._keepers
        if keepers is not None:
            return keepers
        with OPEN_LOCK.lock:
            if self._keepers is None:
                self._keepers = LockKeepers(self.backend, self.clock, lambda: self.deputy)
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
        """Put `async def around(ctx, call_next)` around each attempt; the first declared is the outermost."""
        check_middleware(around)
        self._middlewares.append(around)
        return around

    @options_of("app.use_tracing")
    def use_tracing(
        self, provider: "TracerProvider | None" = None, propagator: "TextMapPropagator | None" = None
    ) -> None:
        """Make spans of OpenTelemetry for enqueues, attempts and steps, and let jobs carry the trace."""
        if self.tracing is not None:
            raise ConfigurationError("app.use_tracing is called twice; call it once, where the app is made")
        self.tracing = open_tracing(provider, propagator)

    @property
    def lifespans(self) -> Sequence[Lifespan]:
        """The lifespans declared so far."""
        return tuple(self._lifespans)

    def lifespan(self, lifespan: L) -> L:
        """Let each worker process run an `async def` with one `yield`: until then before its jobs, the rest after.

        It takes the app. The first declared is entered first and left last.
        """
        check_lifespan(lifespan)
        self._lifespans.append(lifespan)
        return lifespan

    def handle(self, job_id: str) -> JobHandle[Any]:
        """Return a handle for a job whose id was kept; `task.handle` knows the type of its result too."""
        return JobHandle(job_id, "", self)

    def files(self, job: AnyJob) -> Mapping[str, SavedFile]:
        """Return the files that a job has saved, by name. Raises JobNotFoundError."""
        return run_procedure(self.call, find_files(self.verbs, self.shelf, self._meant(job).id))

    async def afiles(self, job: AnyJob) -> Mapping[str, SavedFile]:
        """Return the files that a job has saved without blocking the event loop. Raises JobNotFoundError."""
        return await arun_procedure(self.acall, find_files(self.verbs, self.shelf, self._meant(job).id))

    def signal(self, job: AnyJob, name: str, data: Any = None) -> None:
        """Send a job, given as its handle, itself or its id, a signal: `ctx.wait_for(name)` returns `data` there."""
        self._meant(job).signal(name, data)

    async def asignal(self, job: AnyJob, name: str, data: Any = None) -> None:
        """Send a job a signal as `signal` does, without blocking the event loop."""
        await self._meant(job).asignal(name, data)

    @options_of("app.lock")
    def lock(self, name: str, *, ttl: Seconds = 30, timeout: Seconds | None = None, session: bool = False) -> Lock:
        """Return a lock that one at a time holds, of all who use the store: `with app.lock("nightly"):`.

        It is renewed while it is held, and ends `ttl` after its holder died. A block waits `timeout` seconds
        for it, then LockTimeoutError is raised. With `session`, on PostgreSQL alone, a connection holds it, and
        it ends with that.
        """
        refuse_bad_lock(name, 1, ttl, timeout)
        flavour = SessionLock(self, name) if session else Leased(self, name, 1, float(as_seconds(ttl)))
        return Lock(self, name, flavour, as_seconds(timeout))

    @options_of("app.semaphore")
    def semaphore(self, name: str, places: int, *, ttl: Seconds = 30, timeout: Seconds | None = None) -> Lock:
        """Return one place of a lock that so many at a time hold: `with app.semaphore("api", 5):`."""
        refuse_bad_lock(name, places, ttl, timeout)
        return Lock(self, name, Leased(self, name, places, float(as_seconds(ttl))), as_seconds(timeout))

    @property
    def windows(self) -> Sequence[ClosedHours]:
        """The windows declared so far, of queues and of tasks; the workers of this app keep to them."""
        return tuple(self._windows.values())

    @options_of("app.queue")
    def queue(
        self, name: str, *, window: Windows | None = None, concurrency: int | None = None, peak: Peaks | None = None
    ) -> None:
        """Declare that no job of a queue starts inside a window, and how many run at a time in one process."""
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
        return self._limits

    @options_of("app.gate")
    def gate(self, name: str, limit: int, *, peak: Peaks | None = None) -> Gate:
        """Declare a gate: of all tasks that go through it, so many jobs run at a time in one process.

        Declare it before its tasks, which name it: `@app.task(gate="disk")`. In a `peak` the limit is lower.
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
        """Declare that fewer jobs run at a time while the host's event loop lags, or its requests take too long."""
        return self._limits.adapt(Adaptive(lag, latency, lowest, turn))

    @property
    def recycle_rules(self) -> RecycleRules:
        """When worker processes are replaced, and when not, as far as that is declared."""
        return self._recycle or RecycleRules()

    @options_of("app.recycle")
    def recycle(self, *, at: AnyRule | None = None, never: Windows = ()) -> None:
        """Declare that worker processes are replaced at the times of a rule, and for no reason inside a window."""
        if self._recycle is not None:
            raise ConfigurationError("app.recycle is called twice; call it once, with all that it is to say")
        self._recycle = declare_recycling(at, never)

    @options_of("app.alerts")
    def alerts(
        self,
        *,
        rules: Sequence[AlertRule] = (),
        channels: Sequence[Channel] = (),
        quiet_hours: Sequence[Window] = (),
        dead_man: DeadMan | None = None,
        dashboard_url: str | None = None,
        enabled: bool = True,
    ) -> None:
        """Declare who is told of trouble, and of what beside the rules that count from the start.

        A rule takes the place of another of its name. In `quiet_hours` only what is critical is told at once.
        """
        self._watching.alerts(rules, channels, quiet_hours, dead_man, dashboard_url=dashboard_url, enabled=enabled)

    @options_of("app.objective")
    def objective(
        self,
        name: str,
        *,
        target: float,
        task: str | None = None,
        queue: str | None = None,
        start_within: Seconds | None = None,
        over: int = 28,
    ) -> None:
        """Declare what share of the jobs of a task or queue succeeds, or with `start_within` starts in time."""
        within = None if start_within is None else as_seconds(start_within)
        self._watching.objective(
            Objective(name=name, target=target, task=task, queue=queue, start_within=within, over=over)
        )

    def need_channel(self, channel: str, what: str) -> None:
        """Take that `what` goes through a channel, which app.alerts or the settings file is to declare."""
        self._watching.need_channel(channel, what)

    def watching_through(self, channels: Collection[str]) -> AlertSettings:
        """Return what it takes to send through some channels, those of the settings file too, and nothing more."""
        return self._watching.through(channels)

    @property
    def watching(self) -> AlertSettings:
        """What is watched and who is told, with what the settings file says."""
        timeouts = {name: task.policy.timeout for name, task in self._tasks.items()}
        return replace(
            self._watching.all,
            timeouts=timeouts,
            keep_dead=self.settings.keep_dead,
            keep_dead_for=self.settings.keep_dead_for,
        )

    def call(self, verb: Verb[T] | Procedure[T], tx: Any = None) -> T:
        """Run a verb, as in `app.call(app.verbs.pause("mail"))`; inside the transaction of `tx`, if it is given.

        A procedure, such as those of `schedules`, is several verbs.
        """
        if isinstance(verb, Procedure):
            return run_procedure(partial(self.call, tx=tx), verb)
        backend = self._backend or self.backend
        return backend.run(verb) if tx is None else backend.run_in(verb, tx)

    async def acall(self, verb: Verb[T] | Procedure[T], tx: Any = None) -> T:
        """Run a verb without blocking the event loop."""
        if isinstance(verb, Procedure):
            return await arun_procedure(partial(self.acall, tx=tx), verb)
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
    def _work(self) -> BackgroundGroup:
        with OPEN_LOCK.lock:
            if self._works is None:
                self._works = BackgroundGroup(self, to_disk=self._stand_in is None)
            return self._works

    @property
    def shelf(self) -> FileStore:
        """Where the files are that jobs save."""
        settings = replace(self.settings, url="memory://", files=None) if self._stand_in else self.settings
        return file_store_of(settings, lambda: self.call(know_identity(self.verbs)))

    def prepare(self) -> None:
        """Open the store and make its tables ready, which the first use does otherwise.

        A transaction of your own may find them missing, and cannot make them.
        """
        self.call(self.verbs.glance(()))

    def close(self) -> None:
        """End the work in the background, within `grace`, and let go of the store, which the next use opens again."""
        self._work.close(self.settings.grace)
        backend = waiter = keepers = None
        try:
            with OPEN_LOCK.lock:
                backend, self._backend = self._backend, None
                waiter, self._waiter = self._waiter, None
                keepers, self._keepers = self._keepers, None
        finally:  # close each one, even if the close of another is interrupted
            try:
                if keepers is not None:
                    keepers.close()
            finally:
                try:
                    if waiter is not None:
                        waiter.close()
                finally:
                    if backend is not None:
                        backend.close()

    async def aclose(self) -> None:
        """Close as `close` does, and let the event loop go on while work in the background ends."""
        await self._work.aclose(self.settings.grace)
        self.close()

    @contextmanager
    def elsewhere(self, backend: Backend, waiter: Waiter, clock: Clock) -> Iterator[None]:
        """Live on another store and by another clock within the block, however often it is closed: for tests."""
        with OPEN_LOCK.lock:
            own = (self.clock, self._stand_in, self._backend, self._waiter, self._keepers, self._works)
            self.clock, self._stand_in = clock, (backend, waiter)
            self._backend = self._waiter = self._keepers = self._works = None
        try:
            yield
        finally:
            try:
                self.close()
            finally:
                with OPEN_LOCK.lock:
                    self.clock, self._stand_in, self._backend, self._waiter, self._keepers, self._works = own

    def __enter__(self) -> Self:
        self.background.open()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _register(self, fn: Callable[..., Any], policy: Policy, declared: TaskOptions) -> Task[..., Any]:
        task, at = declare_task(fn, declared.get("name"), policy, self), DeclaredAt.here()
        window, rule = declared.get("window"), declared.get("schedule")
        hours = None if window is None else declare_hours(About.TASK, task.name, window)
        before = self._tasks.get(task.name)
        if before is not None:
            self._forget(before, task, at)
        self._limits.task(task.name, declared.get("concurrency"), declared.get("peak"), declared.get("gate"))
        if rule is not None:
            self._declare(declare_own(task, rule), at)
        if hours is not None:
            self._windows[hours.about, hours.name] = hours
        self._tasks[task.name], self._tasks_at[task.name] = task, at
        return task

    def _forget(self, before: Task[..., Any], task: Task[..., Any], at: DeclaredAt) -> None:
        """Make room for a task whose module was run again. Raises ConfigurationError where it is another."""
        name, before_at = task.name, self._tasks_at[task.name]
        if not at.repeats(before_at):
            raise refuse_alike(name, before.fn.__qualname__, before_at, task.fn.__qualname__, at)
        self._limits.forget_task(name)
        self._windows.pop((About.TASK, name), None)
        if self._declarations_at.get(name) is before_at:  # its own schedule
            del self._declarations[name], self._declarations_at[name]

    def _declare(self, declaration: Declaration, at: DeclaredAt) -> None:
        name = declaration.name
        if name in self._declarations and not at.repeats(self._declarations_at[name]):
            raise ConfigurationError(f"two schedules are named {name!r}; give one of them another name")
        self._declarations[name], self._declarations_at[name] = declaration, at

    def _meant(self, job: AnyJob) -> JobHandle[Any]:
        if isinstance(job, JobHandle | Job):
            return self.handle(job.id)
        if not isinstance(job, str):
            raise ArgumentsError(f"a job is meant by itself, its handle or its id, not by {job!r:.80}")
        return self.handle(job)
