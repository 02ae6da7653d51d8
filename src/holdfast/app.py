"""The app: settings, tasks, events, and a store that is opened when it is first needed.

It declares and connects; it neither works jobs nor administers them. Whatever a store can do is a verb of
`app.verbs`, run by `app.call` or `await app.acall`.
"""

import os
from collections.abc import Callable, Mapping
from datetime import timedelta
from threading import RLock, get_ident
from types import MappingProxyType, TracebackType
from typing import Any, Self, TypeVar

from holdfast.clock import Clock, SystemClock
from holdfast.decorator import TaskDecorator
from holdfast.errors import ConfigurationError
from holdfast.events import Events
from holdfast.policy import Policy
from holdfast.settings import load_settings
from holdfast.store.backend import Backend
from holdfast.store.open import check_url, open_backend
from holdfast.store.protocol import Store
from holdfast.store.verb import Verb
from holdfast.task import Task, declare_task

T = TypeVar("T")
Span = float | timedelta


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

    `url` is the store's, and the environment variable HOLDFAST_URL overrides it. Spans are seconds or timedeltas;
    what each means and its default is in `holdfast.settings.Settings`. Nothing is opened until it is needed; as a
    context manager the app closes what it opened.
    """

    def __init__(
        self,
        url: str | None = None,
        *,
        namespace: str | None = None,
        lease: Span | None = None,
        beat: Span | None = None,
        grace: Span | None = None,
        hang_limit: Span | None = None,
        look_ahead: Span | None = None,
        safety_poll: Span | None = None,
        store_timeout: Span | None = None,
        concurrency: int | None = None,
        clock: Clock | None = None,
    ) -> None:
        self.settings = load_settings(
            url=url,
            namespace=namespace,
            lease=lease,
            beat=beat,
            grace=grace,
            hang_limit=hang_limit,
            look_ahead=look_ahead,
            safety_poll=safety_poll,
            store_timeout=store_timeout,
            concurrency=concurrency,
        )
        check_url(self.settings.url)
        self.clock: Clock = SystemClock() if clock is None else clock
        self.events = Events()
        self._tasks: dict[str, Task[..., Any]] = {}
        self._backend: Backend | None = None

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
                self._backend = open_backend(self.settings, self.clock)
            return self._backend

    @property
    def verbs(self) -> Store:
        """What the store can do; run it with `call` or `acall`."""
        return self.backend.verbs

    def call(self, verb: Verb[T]) -> T:
        """Run a verb, as in `app.call(app.verbs.pause("mail"))`."""
        return self.backend.run(verb)

    async def acall(self, verb: Verb[T]) -> T:
        """Run a verb without blocking the event loop."""
        return await self.backend.arun(verb)

    def close(self) -> None:
        """Let go of the store; the next use opens it again."""
        with _OPENING.lock:
            backend, self._backend = self._backend, None
        if backend is not None:
            backend.close()

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
