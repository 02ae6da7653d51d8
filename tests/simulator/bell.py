"""The bell of the world."""

from typing import TYPE_CHECKING

from standfast.model.concurrency import Wakeup
from standfast.stores.backend import Listener
from standfast.stores.verb import Tone

if TYPE_CHECKING:
    from simulator.world import World


class WorldBell:
    """The bell, rung by the store's commits and sometimes not heard."""

    def __init__(self, world: "World") -> None:
        self._world = world
        self._listeners: list[WorldListener] = []

    def ring(self, tone: Tone = Tone.WORK) -> None:
        """Wake the listeners, but for those that the weather deafens."""
        for listener in self._listeners:
            if listener.tone is tone and self._world.random.random() >= self._world.weather.lose_ring:
                listener.wakeup.call()

    def listen(self, tone: Tone = Tone.WORK) -> Listener:
        """Start listening."""
        listener = WorldListener(self._listeners, tone)
        self._listeners.append(listener)
        return listener


class WorldListener:
    """One ear."""

    def __init__(self, listeners: "list[WorldListener]", tone: Tone) -> None:
        self.tone = tone
        self._listeners = listeners
        self.wakeup = Wakeup()

    async def wait(self, timeout: float) -> bool:
        """Return True as soon as the bell rings, False after `timeout` seconds."""
        return await self.wakeup.rest(timeout)

    def close(self) -> None:
        """Stop listening."""
        self._listeners.remove(self)
