"""The loops of a worker or supervisor are tended: one that fails is begun again; where that is no help, it leaves.

    runs ─► fails ─► rests: 0.1 s, doubling to 5 s ─► runs …
              ├──► for the fifth time within a minute, whichever loop ─► it is unfit
              └──► where it cannot be begun again (HalfDoneError) ─────► likewise, and it is not

Each loop says in its own file what half-done work means for it when it is begun again. An unfit worker claims
nothing more; the others of its loops, and this one too, go on until it has drained.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Any

from standfast.clock import Clock

FIRST_REST = 0.1
LONGEST_REST = 5.0
MOST_FAILURES = 5
WITHIN = 60.0
"""Seconds in which so many failures make a worker unfit; also those after which a loop rests shortly again."""

Loop = Callable[[], Coroutine[Any, Any, None]]


class HalfDoneError(Exception):
    """A loop failed where it cannot be begun again: what it was about to do is in nobody's hands now."""


class Tender:
    """Looks after the loops of one process. `failed` hears of each failure, `unfit` once that they are too many."""

    def __init__(
        self, clock: Clock, failed: Callable[[str, BaseException, str], None], unfit: Callable[[str], None]
    ) -> None:
        self._clock = clock
        self._failed = failed
        self._unfit = unfit
        self._failed_at: deque[float] = deque(maxlen=MOST_FAILURES)
        self._is_unfit = False

    async def tend(self, name: str, loop: Loop) -> None:
        """Run a loop until it returns, begun again after each failure."""
        rest = FIRST_REST
        while True:
            begun_at = self._clock.boot()
            try:
                await loop()
            except HalfDoneError as error:
                self.give_up(name, error)
                return
            except Exception as error:  # noqa: BLE001 - whatever it is, the worker is not to die of it
                if self._clock.boot() - begun_at >= WITHIN:
                    rest = FIRST_REST
                self._heed(name, error, rest)
                await asyncio.sleep(rest)
                rest = min(2 * rest, LONGEST_REST)
            else:
                return

    def _heed(self, name: str, error: Exception, rest: float) -> None:
        now = self._clock.boot()
        self._failed_at.append(now)
        too_many = len(self._failed_at) == MOST_FAILURES and now - self._failed_at[0] <= WITHIN
        if too_many and not self._is_unfit:
            self.give_up(name, error)
        else:
            self._failed(name, error, f"begun again after {rest:g} s")

    def give_up(self, name: str, error: BaseException) -> None:
        """Have the worker replaced at once, for something that cannot be begun again."""
        self._failed(name, error, "it is the last time")
        if not self._is_unfit:
            self._is_unfit = True
            self._unfit(f"its {name} failed: {type(error).__name__}: {error}")
