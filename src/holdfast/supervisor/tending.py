"""Keeps the loops of a supervisor going: one that fails is told of and begins anew, until that happens too often.

running ─► failed ─► pause ─► running …          LIMIT failures within WITHIN seconds ─► the supervisor gives up
"""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable

from holdfast.clock import Clock
from holdfast.errors import HoldfastError

log = logging.getLogger(__name__)

LIMIT = 5
WITHIN = 60.0

FIRST_PAUSE = 0.1
LONGEST_PAUSE = 5.0


class Tending:
    """The loops of one supervisor. `failed` hears of each failure, `give_up` of too many."""

    def __init__(
        self,
        clock: Clock,
        failed: Callable[[str, Exception], None],
        give_up: Callable[[HoldfastError], None],
    ) -> None:
        self._clock = clock
        self._failed = failed
        self._give_up = give_up
        self._failures = deque[float](maxlen=LIMIT)

    async def keep(self, name: str, run: Callable[[], Awaitable[None]]) -> None:
        """Run a loop to its end, which most have not; begin anew where it fails."""
        pause = FIRST_PAUSE
        while True:
            begun = self._clock.boot()
            try:
                await run()
            except Exception as error:
                now = self._clock.boot()
                log.exception("a loop of the supervisor failed: %s; it begins anew", name)
                self._failed(name, error)
                self._failures.append(now)
                if len(self._failures) == LIMIT and now - self._failures[0] <= WITHIN:
                    often = f"its loops failed {LIMIT} times within {now - self._failures[0]:.0f} s"
                    self._give_up(HoldfastError(f"the supervisor gives up: {often}, last {name}: {error!r}"))
                    return
                pause = FIRST_PAUSE if now - begun > WITHIN else pause
                await asyncio.sleep(pause)
                pause = min(2 * pause, LONGEST_PAUSE)
            else:
                return
