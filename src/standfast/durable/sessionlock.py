"""The session flavour of a lock: held by a connection, and freed by the server the moment that connection dies.

It has no `ttl` and is not renewed. Its token comes from the record that a lock of this name has anyway.
"""

import math
import time
from collections.abc import Mapping, Sequence
from typing import Protocol, runtime_checkable

from standfast.durable.lock import House, Ways
from standfast.durable.lockkeeper import Holding
from standfast.durable.lockstate import draw_token
from standfast.errors import ConfigurationError
from standfast.model.backoff import TRANSIENT_ERRORS, RetryDeadline
from standfast.stores.verb import Verb


class SessionConnection(Protocol):
    """The connection that has a lock, or waits for it."""

    @property
    def is_open(self) -> bool:
        """Whether it lives, as far as this machine has heard."""

    def take(self, within: float) -> bool:
        """Wait for the lock, for so many seconds at most and perhaps less; tell whether it is ours."""

    async def atake(self, within: float) -> bool:
        """Do as `take` does, without blocking the event loop."""

    def leave(self) -> None:
        """Let others have the lock, and hang up."""

    async def aleave(self) -> None:
        """Do as `leave` does, without blocking the event loop."""


@runtime_checkable
class HasSessions(Protocol):
    """A store whose server has locks of its own."""

    def session_line(self, name: str) -> SessionConnection:
        """Return a connection of its own for a lock, not open yet. Raises ConfigurationError behind a pooler."""

    def session_holders(self, names: Sequence[str]) -> Verb[Mapping[str, str]]:
        """Return which locks are held by a session, by name, and in words who has them."""


class SessionHolding(Holding):
    """A lock that a connection holds, for as long as it lives."""

    renews = False

    def __init__(self, name: str, token: int, line: SessionConnection, house: House) -> None:
        super().__init__(name, str(id(line)), token, ttl=math.inf, asked_at=house.clock.boot(), clock=house.clock)
        self.line = line

    @property
    def ends_at(self) -> float:
        """It has no end but that of its connection."""
        return math.inf if self.line.is_open else -math.inf

    @property
    def granted_at(self) -> float:
        """It is not granted for a span."""
        return math.inf

    def lose(self) -> None:
        """Hold it no more, by the server too: there it would not end by itself."""
        super().lose()
        self.line.leave()


class SessionLock:
    """A lock of one place, by the server's own means."""

    def __init__(self, house: House, name: str) -> None:
        self._house = house
        self._name = name
        self._line()  # now, while it is clear who asks for what cannot be had

    async def wait(self, ways: Ways, timeout: float | None) -> Holding | None:
        """Wait for the lock and return it; None where it was not to be had in time."""
        line, patience = self._line(), RetryDeadline(self._house.retry_for)
        ends_at = math.inf if timeout is None else time.monotonic() + timeout
        holding = None
        try:
            within = max(ends_at - time.monotonic(), 0)
            while not await self._takes(ways, line, within, patience):
                if not within:
                    await ways.either(line.leave, line.aleave)
                    return None
                within = max(ends_at - time.monotonic(), 0)
            token = await ways.run(draw_token(self._house.backend.verbs, self._name))
            holding = SessionHolding(self._name, token, line, self._house)
            self._house.keepers().keep(holding)
        except BaseException:
            if holding is not None:
                self._house.keepers().let_go(holding)
            line.leave()
            raise
        return holding

    async def give_back(self, ways: Ways, holding: Holding) -> bool:
        """Let others have it; tell whether it was held until now."""
        held = not holding.lost
        if isinstance(holding, SessionHolding):
            await ways.either(holding.line.leave, holding.line.aleave)
        return held

    def _line(self) -> SessionConnection:
        backend = self._house.backend
        if not isinstance(backend, HasSessions):
            store = self._house.settings.url.partition(":")[0]
            raise ConfigurationError(
                f"session=True needs a postgresql:// store, and this one is {store}: leave it out, and the lock"
                " ends by its ttl"
            )
        return backend.session_line(self._name)

    async def _takes(self, ways: Ways, line: SessionConnection, within: float, patience: RetryDeadline) -> bool:
        try:
            taken = await ways.either(lambda: line.take(within), lambda: line.atake(within))
        except TRANSIENT_ERRORS as error:
            line.leave()
            if not within:
                raise  # nobody knows whether it is free
            await ways.pause(min(patience.pause_after(error), within))
            return False
        patience.reset()
        return taken
