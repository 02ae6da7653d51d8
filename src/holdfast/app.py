"""The app: settings, tasks, events, and a store that is opened when it is first needed.

It declares and connects; it neither works jobs nor administers them. Whatever a store can do is a verb of
`app.verbs`, run by `app.call` or `await app.acall`.
"""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from threading import RLock, get_ident
from types import MappingProxyType, TracebackType
from typing import Any, Self, TypeVar

from msgspec import UNSET, UnsetType

from holdfast.clock import Clock, SystemClock
from holdfast.decorator import TaskDecorator
from holdfast.errors import ConfigurationError
from holdfast.events import Events
from holdfast.handle import JobHandle
from holdfast.hooks import Lifespan, Middleware, check_lifespan, check_middleware
from holdfast.policy import Policy, Seconds
from holdfast.settings import read_settings
from holdfast.store.backend import Backend
from holdfast.store.open import check_url, open_backend
from holdfast.store.protocol import Store
from holdfast.store.verb import Verb
from holdfast.task import Task, declare_task
from holdfast.waiter import Waiter

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


class Holdfast:
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
        }
        loaded = read_settings(given, url_check=check_url)
        self.settings = loaded.settings
        self.settings_from = loaded.where
        self.clock: Clock = SystemClock() if clock is None else clock
        self.events = Events()
        self._tasks: dict[str, Task[..., Any]] = {}
        self._middlewares: list[Middleware] = []
        self._lifespans: list[Lifespan] = []
        self._backend: Backend | None = None
        self._waiter: Waiter | None = None
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

    def call(self, verb: Verb[T], tx: Any = None) -> T:
        """Run a verb, as in `app.call(app.verbs.pause("mail"))`; inside the transaction of `tx`, if it is given."""
        backend = self._backend or self.backend
        return backend.run(verb) if tx is None else backend.run_in(verb, tx)

    async def acall(self, verb: Verb[T], tx: Any = None) -> T:
        """Run a verb without blocking the event loop."""
        return await (self.backend.arun(verb) if tx is None else self.backend.arun_in(verb, tx))

    def handle(self, job_id: str) -> JobHandle[Any]:
        """Return a handle for a job whose id was kept; `task.handle` knows the type of its result too."""
        return JobHandle(job_id, "", self)

    def prepare(self) -> None:
        """Open the store and make its tables ready, which the first use does otherwise.

        A transaction of your own, on whose connection you enqueue, may find them missing, and cannot make them.
        """
        self.call(self.verbs.glance(()))

    def close(self) -> None:
        """Let go of the store; the next use opens it again. Whoever waits for a job is told so by a StoreError."""
        with _OPENING.lock:
            backend, self._backend = self._backend, None
            waiter, self._waiter = self._waiter, None
        if waiter is not None:
            waiter.close()
        if backend is not None:
            backend.close()

    @contextmanager
    def elsewhere(self, backend: Backend, waiter: Waiter, clock: Clock) -> Iterator[None]:
        """Live on another store and by another clock within the block, however often it is closed: for tests.

        The app's own store, if it is open, stays so, and is not touched.
        """
        with _OPENING.lock:
            own = self.clock, self._stand_in, self._backend, self._waiter
            self.clock, self._stand_in = clock, (backend, waiter)
            self._backend = self._waiter = None
        try:
            yield
        finally:
            try:
                self.close()
            finally:
                with _OPENING.lock:
                    self.clock, self._stand_in, self._backend, self._waiter = own

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _register(self, fn: Callable[..., Any], name: str | None, policy: Policy) -> Task[..., Any]:
        task = declare_task(fn, name, policy, self)
        if task.name in self._tasks:
            raise ConfigurationError(f"two tasks are named {task.name!r}; give one of them another name=")
        self._tasks[task.name] = task
        return task
