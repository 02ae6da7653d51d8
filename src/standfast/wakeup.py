"""How a loop rests: for a time, unless it is called before."""

import asyncio


class Wakeup:
    """Ends the rest of a loop. One that is called while it is busy does not rest the next time: no call is lost."""

    def __init__(self) -> None:
        self._called = asyncio.Event()
        self.call = self._called.set
        """Ends the rest of the loop, or its next one; to be called in its own event loop."""

    async def rest(self, seconds: float | None) -> bool:
        """Rest until called, but no longer than this; return whether there was a call."""
        if not self._called.is_set():
            try:
                async with asyncio.timeout(seconds):  # wait_for of Python 3.11 may swallow a cancellation
                    await self._called.wait()
            except TimeoutError:
                return False
        self._called.clear()
        return True
