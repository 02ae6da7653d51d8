"""Looks at the store for all who ask: one at a time, one a second at most, and nobody waits for it for long.

none ─(somebody asks)─► going on ─(the store answers)─► seen ─(asked again, a second later)─► going on …
                            └─(too long)─► whoever asks is told so at once, until it has ended
"""

import asyncio
import logging
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from standfast.core.record import Kind
from standfast.errors import StandfastError
from standfast.health.report import Seen
from standfast.schedule.published import read_windows
from standfast.store.asked import Asked

log = logging.getLogger(__name__)

S = TypeVar("S")

EVERY = 1.0
"""Seconds between the beginnings of two looks."""

PATIENCE = 3.0
"""Seconds after which a store that has not answered is not waited for any longer."""

_SILENT = "does not answer"
_FAILED = "cannot be used"


def look_at(asked: Asked) -> Seen:
    """Ask the store for all that a report says."""
    began_at = time.monotonic()
    workers = asked.call(asked.verbs.workers())
    ages = asked.call(asked.verbs.queue_ages())
    windows = asked.call(asked.verbs.records(Kind.WINDOW))
    return Seen(time.monotonic() - began_at, workers, ages, read_windows(windows))


@dataclass(frozen=True, slots=True)
class _Look(Generic[S]):
    began_at: float
    seen: Future[S] = field(default_factory=Future)


class Looks(Generic[S]):
    """The looks of one process. Any thread, and any event loop, may ask for what was seen last.

    `problem` makes what is told to those who ask while the store does not answer, of what is wrong with it.
    """

    def __init__(
        self,
        look: Callable[[], S],
        problem: Callable[[str], S],
        patience: float = PATIENCE,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._look = look
        self._silent, self._failed = problem(_SILENT), problem(_FAILED)
        self._patience = patience
        self._clock = clock
        self._lock = threading.Lock()
        self._last: _Look[S] | None = None
        self._problem: str | None = None

    def seen(self) -> S:
        """Return what the store said a second ago at most, or that it does not answer."""
        last, left = self._current()
        try:
            return last.seen.result(left)
        except TimeoutError:
            return self._silent

    async def aseen(self) -> S:
        """Do as `seen` does, without blocking the event loop and without a thread for each who waits."""
        last, left = self._current()
        if not (left or last.seen.done()):
            return self._silent  # nobody who comes while it hangs leaves anything behind at the look
        waiting = asyncio.wrap_future(last.seen)
        done, _ = await asyncio.wait([waiting], timeout=left)
        return waiting.result() if done else self._silent

    def _current(self) -> tuple[_Look[S], float]:
        """Return the look to wait for, and for how long."""
        with self._lock:
            now = self._clock()
            if self._last is None or (self._last.seen.done() and now - self._last.began_at >= EVERY):
                self._last = _Look(now)
                self._begin(self._last.seen)
            return self._last, max(0.0, self._last.began_at + self._patience - now)

    def _begin(self, seen: "Future[S]") -> None:
        try:
            threading.Thread(target=self._go, args=(seen,), name="standfast-health", daemon=True).start()
        except RuntimeError as error:  # there are too many, or no memory for one more: the next look may have it
            self._tell(str(error))
            seen.set_result(self._failed)

    def _go(self, seen: "Future[S]") -> None:
        try:
            found, problem = self._look(), None
        except StandfastError as error:
            found, problem = self._failed, str(error)
        except Exception as error:  # noqa: BLE001 - whatever it is, those who wait are to be told
            found, problem = self._failed, f"internal error: {type(error).__name__}"
        self._tell(problem)
        seen.set_result(found)

    def _tell(self, problem: str | None) -> None:
        """Log what is wrong when it begins, and when it is over: answers do not say it."""
        if problem is not None and self._problem is None:
            log.warning("health: the store cannot be asked: %s", problem)
        elif problem is None and self._problem is not None:
            log.info("health: the store answers again")
        self._problem = problem
