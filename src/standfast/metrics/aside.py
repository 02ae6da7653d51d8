"""What takes long to read, for those who cannot wait: a thread of its own reads it, and not too often.

none ─(somebody asks)─► read aside ─► known ─(asked later)─► read aside; who asks meanwhile has what was known …

To count millions of jobs, or to read the figures of four weeks, is no reason to say that the store does not answer,
and who asks every second is no reason to do it every second.
"""

import threading
import time
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")

SHARE = 0.01
"""The part of the time that reading takes, about, unless it takes very long."""

LONGEST_PAUSE = 60.0
"""Seconds after which it is read again however long that took: a store that was held up once is fast again."""

PATIENCE = 1.0
"""Seconds that somebody who asks waits for it."""


class Aside(Generic[T]):
    """What `read` returns, or has returned: at least `every` seconds pass between two reads. One thread may ask."""

    def __init__(
        self,
        read: Callable[[], T],
        *,
        every: float = 0.0,
        patience: float = PATIENCE,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._read = read
        self._every = every
        self._patience = patience
        self._monotonic = monotonic
        self._next_at: float | None = None
        self._reading: threading.Thread | None = None
        self._latest: T | None = None
        self._error: Exception | None = None

    def latest(self) -> T | None:
        """Return what was read last, None before there is anything. Raises what reading has raised, once."""
        if self._reading is None and (self._next_at is None or self._monotonic() >= self._next_at):
            self._reading = threading.Thread(target=self._go, name="standfast-aside", daemon=True)
            self._reading.start()
        if self._reading is not None:
            self._reading.join(self._patience)
            if not self._reading.is_alive():
                self._reading = None
        error, self._error = self._error, None
        if error is not None:
            raise error
        return self._latest

    def _go(self) -> None:
        began_at = self._monotonic()
        self._next_at = began_at + self._every
        try:
            self._latest = self._read()
        except Exception as error:  # noqa: BLE001 - it is raised where somebody asks
            self._latest, self._error = None, error  # what was known may be long over
        else:
            ended_at = self._monotonic()
            pause = min((ended_at - began_at) / SHARE, LONGEST_PAUSE)
            self._next_at = max(self._next_at, ended_at + pause)
