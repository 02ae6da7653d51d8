"""Turns: of what costs much, only some is done at once, and the others wait."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from weakref import WeakKeyDictionary


class Turns:
    """So many at once have their turn, in each event loop."""

    def __init__(self, at_once: int) -> None:
        self._at_once = at_once
        self._rooms: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Semaphore] = WeakKeyDictionary()

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """Wait for a turn, and have it."""
        async with self._rooms.setdefault(asyncio.get_running_loop(), asyncio.Semaphore(self._at_once)):
            yield
