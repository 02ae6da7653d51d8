"""An event loop in virtual time, in which processes can be stopped, resumed and killed between any two callbacks.

Time passes only when nothing is left to do. Each callback belongs to the simulated process in whose context it was
scheduled: that of a dead process never runs (not even a `finally`: that is what kill -9 means), that of a stopped
one waits until the process goes on.
"""

import asyncio
import selectors
from collections.abc import Callable, Mapping
from contextvars import Context, ContextVar, copy_context
from typing import Any

from simulator.process import Process

here: ContextVar[Process | None] = ContextVar("here", default=None)
"""The process in which the running code lives; None is the world itself."""


class _NoSelector(selectors.BaseSelector):
    """Waits for nothing but virtual time: there is no real I/O."""

    def __init__(self, passes: Callable[[float], None]) -> None:
        self._passes = passes
        self._keys: dict[Any, selectors.SelectorKey] = {}

    def register(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        key = selectors.SelectorKey(fileobj, int(fileobj), events, data)
        self._keys[fileobj] = key
        return key

    def unregister(self, fileobj: Any) -> selectors.SelectorKey:
        return self._keys.pop(fileobj)

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None:
            raise RuntimeError("the simulated world has nothing left to wait for")
        self._passes(max(timeout, 0.0))
        return []

    def get_map(self) -> Mapping[Any, selectors.SelectorKey]:
        return self._keys


class VirtualLoop(asyncio.SelectorEventLoop):
    """See the module."""

    def __init__(self) -> None:
        self._virtual = 0.0
        super().__init__(_NoSelector(self._pass))
        self.set_task_factory(_quiet_task)

    def _pass(self, seconds: float) -> None:
        self._virtual += seconds

    def time(self) -> float:
        """Return virtual seconds since the world began."""
        return self._virtual

    def call_soon(  # type: ignore[override]  # the supertype's variadic generics add nothing here
        self, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.Handle:
        """Schedule a callback in its process."""
        guard = _Guard(callback, args, context)
        guard.handle = super().call_soon(guard, context=guard.context)
        return guard.handle

    def call_soon_threadsafe(  # type: ignore[override]
        self, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.Handle:
        """Schedule a callback in its process: all of the world is in one thread."""
        return self.call_soon(callback, *args, context=context)

    def call_at(  # type: ignore[override]
        self, when: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        """Schedule a callback in its process at a virtual time."""
        guard = _Guard(callback, args, context)
        guard.handle = handle = super().call_at(when, guard, context=guard.context)
        return handle


class _Guard:
    """A callback that runs only as its process does; cancelled while that is stopped, it does not run after."""

    def __init__(self, callback: Callable[..., object], args: tuple[Any, ...], context: Context | None) -> None:
        self._callback = callback
        self._args = args
        self.context = copy_context() if context is None else context
        self.handle: asyncio.Handle

    def __call__(self) -> None:
        process = self.context.get(here)
        if process is None:
            self._run()
        else:
            process.run(self._run, self.context)

    def _run(self) -> None:
        if not self.handle.cancelled():
            self._callback(*self._args)


def _quiet_task(loop: asyncio.AbstractEventLoop, coroutine: Any, **options: Any) -> "asyncio.Task[Any]":
    """Make tasks that may be left pending: those of a killed process are, by design."""
    task: asyncio.Task[Any] = asyncio.Task(coroutine, loop=loop, **options)
    task._log_destroy_pending = False  # type: ignore[attr-defined]
    context: Context | None = options.get("context")
    process = here.get() if context is None else context.get(here)
    if process is not None:
        process.tasks.append(task)
    return task
