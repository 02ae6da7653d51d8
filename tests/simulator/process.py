"""A simulated operating-system process: it runs, is stopped, goes on, and ends once."""

import asyncio
from collections.abc import Callable
from contextvars import Context
from typing import Any


class Process:
    """A set of callbacks that live and die together."""

    def __init__(self, pid: int, name: str) -> None:
        self.pid = pid
        self.name = name
        self.group = 0
        """Of which suspects it is; 0 for any other jobs."""
        self.alive = True
        self.stopped_at: float | None = None
        self._resumed_at = 0.0
        self.tasks: list[asyncio.Task[Any]] = []
        self.exit: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._backlog: list[tuple[Callable[[], None], Context]] = []

    def run(self, callback: Callable[[], None], context: Context) -> None:
        """Run a callback of this process, now, later or never."""
        if self.alive and self.stopped_at is None:
            callback()
        else:
            self._backlog.append((callback, context))

    def end(self, code: int) -> None:
        """End: nothing of it runs any more."""
        if not self.exit.done():
            self.alive = False
            self.exit.set_result(code)

    @property
    def was_killed(self) -> bool:
        """Whether it ended other than of its own accord."""
        return self.exit.done() and self.exit.result() != 0

    def haunt(self) -> None:
        """Let its callbacks run again after the play, so that its tasks can be cancelled."""
        self.end(0)
        self.alive = True
        self.resume()

    def stop(self, now: float) -> None:
        """Stop as by SIGSTOP."""
        if self.stopped_at is None:
            self.stopped_at = now

    def calm_for(self, now: float) -> float:
        """Return for how long it has not been stopped."""
        return 0.0 if self.stopped_at is not None else now - self._resumed_at

    def resume(self) -> None:
        """Go on as by SIGCONT: what piled up runs first, in order."""
        self.stopped_at = None
        self._resumed_at = asyncio.get_running_loop().time()
        backlog, self._backlog = self._backlog, []
        loop = asyncio.get_running_loop()
        for callback, context in backlog:
            loop.call_soon(callback, context=context)
