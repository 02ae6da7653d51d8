"""A bell that never rings."""

import asyncio

from standfast.stores.verb import Tone


class SilentListener:
    """The ear of one who waits in vain."""

    async def wait(self, timeout: float) -> bool:
        """Return False after `timeout` seconds."""
        await asyncio.sleep(timeout)
        return False

    def close(self) -> None:
        """Stop listening."""


class SilentBell:
    """The bell of a store that tells nobody anything."""

    def ring(self, tone: Tone = Tone.WORK) -> None:
        """Do nothing."""

    def listen(self, tone: Tone = Tone.WORK) -> SilentListener:  # noqa: ARG002 - the port's shape
        """Return an ear that never hears."""
        return SilentListener()
