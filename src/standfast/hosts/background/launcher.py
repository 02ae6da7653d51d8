"""`app.background`: begins work in the background of this process."""

from collections.abc import Callable, Coroutine
from enum import StrEnum
from typing import Any, Concatenate, Literal, ParamSpec, TypeVar, overload

from standfast.context import Life
from standfast.errors import ArgumentsError, BackgroundFullError, ConfigurationError
from standfast.hosts.background.group import BackgroundGroup
from standfast.hosts.background.work import Background, Enqueued, read_call
from standfast.model.suggestions import options_of
from standfast.model.validation import is_word
from standfast.task import Task

P = ParamSpec("P")
R = TypeVar("R")

WhenFullWord = Literal["wait", "reject", "enqueue"]


class WhenFull(StrEnum):
    """What becomes of work that finds no room."""

    WAIT = "wait"
    """It begins when other work has ended; the call returns at once."""
    REJECT = "reject"
    """It is refused with BackgroundFullError."""
    ENQUEUE = "enqueue"
    """It becomes a durable job: its function must be a task of the app."""


class Launcher:
    """What `app.background` is: called with a function and its arguments it runs them, and returns a handle."""

    def __init__(
        self, works: BackgroundGroup, tasks: Callable[[], Any], when_full: str, name: str | None = None
    ) -> None:
        self._works = works
        self._tasks = tasks
        self._when_full = WhenFull(when_full)
        self._name = name

    @overload
    def __call__(
        self, fn: Callable[Concatenate[Life, P], Coroutine[Any, Any, R]], /, *args: P.args, **kwargs: P.kwargs
    ) -> Background[R]: ...
    @overload
    def __call__(
        self, fn: Callable[P, Coroutine[Any, Any, R]], /, *args: P.args, **kwargs: P.kwargs
    ) -> Background[R]: ...
    @overload
    def __call__(
        self, fn: Callable[Concatenate[Life, P], R], /, *args: P.args, **kwargs: P.kwargs
    ) -> Background[R]: ...
    @overload
    def __call__(self, fn: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> Background[R]: ...
    def __call__(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Background[Any]:
        """Run `fn(*args, **kwargs)` in the background of this process, and return its handle at once.

        A plain function runs in a thread, an `async def` on the event loop of its caller or on one of our own.
        It is not durable: it ends with the process, and `app.close()` waits `grace` for it. A parameter
        annotated with `Life` tells it to end. Raises ArgumentsError, BackgroundFullError and
        BackgroundClosedError.
        """
        when_full, call = self._when_full, read_call(fn, args, kwargs, self._name)
        task = self._task_to_enqueue(fn, call.name, args, kwargs) if when_full is WhenFull.ENQUEUE else None
        self._works.check_open()
        work = self._works.begin(call, may_wait=when_full is WhenFull.WAIT)
        if work is not None:
            return work
        if task is not None:
            return Enqueued(task.enqueue(*args, **kwargs))
        raise BackgroundFullError(
            f"{call.name} finds no room in the background; try again later, or raise background_limit"
        )

    @options_of("app.background.options")
    def options(self, *, when_full: WhenFullWord | None = None, name: str | None = None) -> "Launcher":
        """Return `app.background` with options for the next work; the app stays as it is."""
        if when_full is not None and not is_word(WhenFull, when_full):
            raise ConfigurationError(f"when_full must be 'wait', 'reject' or 'enqueue', not {when_full!r}")
        if name is not None and not (isinstance(name, str) and name):
            raise ConfigurationError(f"name must be a text, not {name!r}")
        return Launcher(self._works, self._tasks, when_full or self._when_full, name)

    def open(self) -> None:
        """Take in work again, after a close."""
        self._works.open()

    def close(self, grace: float) -> None:
        """End all work: it is told, waited for within the grace, and then cancelled where it is a coroutine."""
        self._works.close(grace)

    async def aclose(self, grace: float) -> None:
        """Close as `close` does, and let the event loop go on meanwhile."""
        await self._works.aclose(grace)

    def _task_to_enqueue(self, fn: Any, name: str, args: tuple[Any, ...], kwargs: Any) -> Task[..., Any]:
        """Return the task that it becomes a job of, if need be: whether it can is found out before."""
        if not isinstance(fn, Task) or self._tasks().get(fn.name) is not fn:
            raise ArgumentsError(
                f"{name} is no task of this app, so it cannot be enqueued when there is no room: declare it with"
                " @app.task, or use when_full='wait' or 'reject'"
            )
        fn.options().request(args, kwargs)
        return fn
