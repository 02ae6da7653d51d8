"""The attempt, and the step, in which the code that asks runs."""

import math
import time
from contextvars import ContextVar
from typing import Any


class StepHere:
    """A step that runs, and by when it should be over, if it has a timeout."""

    __slots__ = ("_ends_at", "name", "timeout")

    def __init__(self, name: str, timeout: float | None) -> None:
        self.name = name
        self.timeout = timeout
        self._ends_at = None if timeout is None else time.monotonic() + timeout

    @property
    def left(self) -> float:
        """How many seconds it has yet."""
        return math.inf if self._ends_at is None else max(0.0, self._ends_at - time.monotonic())

    @property
    def overdue(self) -> bool:
        """Whether its time is over."""
        return self._ends_at is not None and time.monotonic() >= self._ends_at


attempt_here: ContextVar[Any] = ContextVar("attempt_here", default=None)
"""The attempt that the present code belongs to (`worker/control.py`); None where it belongs to none."""

step_here: ContextVar[StepHere | None] = ContextVar("standfast_step", default=None)
"""Coroutines and threads of a step have it; a bare `threading.Thread` that a step starts has not."""
