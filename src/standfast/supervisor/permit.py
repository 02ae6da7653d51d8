"""The permit to do what only one machine of the fleet may do at a time: a lock of the fleet's own.

It is taken, renewed and given back by comparison of versions, and ends by the store's time: whoever dies with it
keeps nobody waiting for long. Its holder goes by its own boot clock, from before it asked, and so believes to have
it for a little less long than the store does: of two supervisors never both.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from datetime import timedelta

from standfast.clock import Clock
from standfast.core.record import Kind
from standfast.errors import StoreError
from standfast.locks.errands import Look, give_back, take
from standfast.locks.roll import Bid
from standfast.store.errand import Errand, Verbs, arun_errand, errand
from standfast.store.protocol import Store
from standfast.worker.storecalls import StoreCalls

RECYCLE = "recycle"
"""The permit to replace children."""

GIVEN_BACK_WITHIN = 1.0
"""Seconds for the store to take one back; then it ends by itself, and nobody's stop waits for it."""


@errand
def take_permit(verbs: Store, name: str, holder: str, span: timedelta) -> Verbs[bool]:
    """Take a permit for this long from now, or have it for so long again; tell whether that was granted."""
    look: Look = yield from take(verbs, Kind.PERMIT, name, Bid(holder, span)).steps
    return look.token is not None


def give_back_permit(verbs: Store, name: str, holder: str) -> Errand[bool]:
    """Let others have a permit at once, if it is still ours."""
    return give_back(verbs, Kind.PERMIT, name, holder, forgets=True)


class Permit:
    """A permit of the fleet, as one supervisor asks for it; granted for `span` seconds, again and again."""

    def __init__(self, calls: StoreCalls, clock: Clock, holder: str, span: float, name: str = RECYCLE) -> None:
        self._calls = calls
        self._clock = clock
        self._holder = holder
        self._span = span
        self._name = name
        self._ends_at = 0.0

    @property
    def ours(self) -> bool:
        """Whether it is ours now."""
        return self._clock.boot() < self._ends_at

    @asynccontextmanager
    async def held(self) -> AsyncIterator[bool]:
        """Have it, if it is to be had, for as long as the block takes; tell whether it is."""
        if not await self._take():
            yield False
            return
        renewing = asyncio.ensure_future(self._renew())
        try:
            yield True
        finally:
            renewing.cancel()
            self._ends_at = 0.0
            with suppress(StoreError, TimeoutError):  # else it ends by itself
                async with asyncio.timeout(GIVEN_BACK_WITHIN):
                    errand = give_back_permit(self._calls.verbs, self._name, self._holder)
                    await arun_errand(self._calls.once, errand)

    async def _take(self) -> bool:
        asked_at = self._clock.boot()
        span = timedelta(seconds=self._span)
        try:
            errand = take_permit(self._calls.verbs, self._name, self._holder, span)
            taken = await arun_errand(self._calls.once, errand)
        except StoreError:
            return False
        if taken:
            self._ends_at = asked_at + self._span
        return taken

    async def _renew(self) -> None:
        while True:
            await asyncio.sleep(self._span / 3)
            await self._take()
