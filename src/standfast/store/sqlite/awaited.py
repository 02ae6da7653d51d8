"""Joined transactions on async connections: through SQLAlchemy's own bridge, on which sync code runs."""

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from standfast.store.foreign import not_awaited
from standfast.store.sqlite.foreign import awaited, foreign
from standfast.store.sqlite.joined import Home, Joined
from standfast.store.verb import Verb

if TYPE_CHECKING:
    from sqlalchemy.ext.asyncio import AsyncConnection, AsyncSession

T = TypeVar("T")


class AsyncJoined:
    """One async connection of the user's own, and the transaction on it."""

    def __init__(self, connection: "AsyncConnection | AsyncSession", home: Home) -> None:
        self._connection = connection
        self._home = home

    async def run(self, verb: Verb[T]) -> T:
        """Run a verb in the transaction that is open, or in one that the user's commit or rollback ends."""
        await self._prepare()
        return await self._inside(lambda joined: joined.run(verb))

    async def begin(self) -> None:
        """Begin a transaction that `commit` or `rollback` ends; one that is open already is taken over."""
        await self._prepare()
        await self._inside(Joined.begin)

    async def commit(self) -> None:
        """Commit what began with `begin`. If that fails, whatever the reason, the caller has to roll back."""
        await self._inside(Joined.commit)

    async def rollback(self) -> None:
        """Undo everything since `begin`, and what was open before it."""
        await self._inside(Joined.rollback)

    async def _prepare(self) -> None:
        """Make the tables ready in a thread, as far as this can be done now: the event loop does not wait."""
        if not self._home.is_prepared() and not await self._inside(lambda joined: joined.is_open):
            await asyncio.to_thread(self._home.prepare)

    async def _inside(self, work: Callable[[Joined], T]) -> T:
        return await self._connection.run_sync(lambda sync: work(Joined(foreign(sync), self._home)))


def ajoin(connection: Any, home: Home) -> AsyncJoined:
    """Return the transaction on an async connection of the user's own. Raises ConfigurationError for any other."""
    found = awaited(connection)
    if found is None:
        foreign(connection)  # what is no connection at all is told so
        raise not_awaited(connection)
    return AsyncJoined(found, home)
