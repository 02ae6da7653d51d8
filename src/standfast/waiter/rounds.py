"""The rounds of the lookout's thread: look at what is watched, then wait for a reason to look again."""

import asyncio
from typing import TYPE_CHECKING

from standfast.errors import StoreError
from standfast.store.backend import Listener
from standfast.wakeup import Wakeup

if TYPE_CHECKING:
    from standfast.waiter.lookout import Lookout

FIRST_PAUSE = 0.01
"""Seconds until the first look that no ring has asked for; each next pause is longer, to the longest."""
LONGEST_PAUSE = 0.25
GROWTH = 1.5

SPACING = 0.005
"""Seconds between looks in a storm of rings; but so many may follow each other at once."""
AT_ONCE = 4

_UNRUNG = 60.0
"""Seconds after which an ear that heard nothing listens again."""

LINGER = 1.0
"""Seconds that the thread stays when nothing is watched any more: often another watch follows."""


def go_rounds(lookout: "Lookout") -> None:
    """Look for all who wait, in this thread, until nothing has been watched for a moment."""
    asyncio.run(_Rounds(lookout).go())


class _Rounds:
    """What the thread does: look, and wait for a reason to look again."""

    def __init__(self, lookout: "Lookout") -> None:
        self._lookout = lookout
        self._wakeup = Wakeup()
        self._rung = False
        self._pause = FIRST_PAUSE
        self._paid_until = 0.0

    async def go(self) -> None:
        loop = asyncio.get_running_loop()
        self._lookout.attend(lambda: loop.call_soon_threadsafe(self._wakeup.call))
        bell: asyncio.Task[None] | None = None
        at_all = True
        while True:
            self._look(at_all=at_all)
            if self._lookout.watching:
                bell = bell or asyncio.create_task(self._heed_bell())
                called = await self._wakeup.rest(self._pause)
                self._pause = self._pause if called else min(self._pause * GROWTH, LONGEST_PAUSE)
            elif await self._stay():
                called, self._pause = True, FIRST_PAUSE
            else:
                return
            await self._breathe()
            at_all, self._rung = self._rung or not called, False

    def _look(self, *, at_all: bool) -> None:
        began = self._now()
        self._lookout.look(at_all=at_all)
        cost = max(SPACING, 2 * (self._now() - began))  # a look at many takes long: rest as long as it took
        self._paid_until = max(self._paid_until, began) + cost

    async def _breathe(self) -> None:
        """Let a storm of rings be one look, and a single ring a look at once."""
        await asyncio.sleep(max(self._paid_until - AT_ONCE * SPACING - self._now(), 0))

    async def _stay(self) -> bool:
        """Stay a while without a watch; return whether there is one again."""
        leave_at = self._now() + LINGER
        while not self._lookout.watching:
            left = leave_at - self._now()
            if (left <= 0 or self._lookout.closed) and self._lookout.leave():
                return False
            await self._wakeup.rest(left)
        return True

    async def _heed_bell(self) -> None:
        listener = await self._listener()
        try:
            while True:
                # Also at first: what ended before there was anyone to hear it rang for nobody.
                self._rung = True
                self._wakeup.call()
                while not await listener.wait(_UNRUNG):
                    pass
        finally:
            listener.close()

    async def _listener(self) -> Listener:
        """Open the bell. It is a hint only: while it cannot be opened, there are the looks after each pause."""
        while True:
            try:
                return self._lookout.listen()
            except StoreError:
                await asyncio.sleep(LONGEST_PAUSE)

    def _now(self) -> float:
        return asyncio.get_running_loop().time()
