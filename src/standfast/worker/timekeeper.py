"""Asks the store for its time, where jobs wait for it here and it is not known well enough.

Claims and beats tell the time too; but they write, and the answer comes when the server's disk has it: so late, at
times, that the jobs would be late by it. A small read is answered at once. It is made only while jobs are held, and
seldom: clocks grow apart slowly.
"""

import asyncio
from collections.abc import Callable

from standfast.errors import StoreError
from standfast.store.protocol import ask_time
from standfast.worker.storecalls import StoreCalls
from standfast.worker.storeclock import StoreClock

LOOK_EVERY = 0.5
"""Seconds between two looks whether jobs are held."""

ASK_EVERY = 10.0
"""Seconds between two questions where answers do not come quicker; the first ones are asked sooner."""

VAGUE = 0.001
"""Seconds by which jobs may be late because the time is not known better."""


class Timekeeper:
    """Sees to it that a worker knows the store's time."""

    def __init__(
        self,
        calls: StoreCalls,
        clock: StoreClock,
        held: Callable[[], int],
        learned: Callable[[], None] = lambda: None,
    ) -> None:
        self._calls = calls
        self._clock = clock
        self._held = held
        self._learned = learned

    async def run(self) -> None:
        """Ask whenever it is worth it."""
        pause = LOOK_EVERY
        while True:
            is_vague = self._clock.vagueness > VAGUE
            if is_vague and self._held():
                await self._ask()
                pause = min(2 * pause, ASK_EVERY)
                await asyncio.sleep(pause)
            else:
                pause = pause if is_vague else LOOK_EVERY
                await asyncio.sleep(LOOK_EVERY)

    async def _ask(self) -> None:
        sent_at = self._clock.boot()
        try:
            answer = await self._calls.once(ask_time(self._calls.verbs))
        except StoreError:
            return  # the claims say what is wrong with it
        self._clock.learn(sent_at, answer.now, self._clock.boot())
        self._learned()
