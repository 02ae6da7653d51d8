"""Which parts of a handler's run may go on at the same time: steps may, a wait is alone, nothing follows the end.

A run is over when it is suspended, or when its steps were found not to fit. Whatever the handler makes of that, no
step and no wait of it begins then, and it cannot complete the job.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypeVar

from standfast.core.interruption import Suspended
from standfast.errors import StepError

End = StepError | Suspended

E = TypeVar("E", StepError, Suspended)


class Gate:
    """The way into the steps and waits of one run, for any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._steps = set[object]()
        self._waiting: object = None
        self.over: End | None = None

    @property
    def busy(self) -> bool:
        """Whether a step runs."""
        return bool(self._steps)

    def end(self, why: E) -> E:
        """Remember why this run cannot go on; the first reason stays."""
        self.over = self.over or why
        return why

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        """Let a step run."""
        step = object()
        try:
            with self._lock:
                self._check()
                if self._waiting is not None:
                    raise self.end(
                        StepError(
                            f"step {name!r} begins beside a wait, which ends the handler: await one, then the other"
                        )
                    )
                self._steps.add(step)
            yield
        finally:
            self._steps.discard(step)

    @contextmanager
    def wait(self) -> Iterator[None]:
        """Let the only wait begin that there is at a time."""
        wait = object()
        try:
            with self._lock:
                self._check()
                if self._waiting is not None:
                    raise self.end(
                        StepError(
                            "two waits at a time: a job waits for one thing, so write one after the other, or let"
                            " all who answer send the same signal"
                        )
                    )
                if self._steps:
                    raise self.end(
                        StepError(
                            "a wait ends the handler, and a step of it still runs: await all steps, then wait"
                        )
                    )
                self._waiting = wait
            yield
        except Suspended as suspended:
            self.end(suspended)
            raise
        finally:
            if self._waiting is wait:
                self._waiting = None

    def _check(self) -> None:
        if self.over is not None:
            raise self.over
