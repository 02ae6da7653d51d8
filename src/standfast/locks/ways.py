"""The two ways to ask the store and to pause: what is written once as async code serves sync callers too."""

import time
from collections.abc import Awaitable, Callable
from typing import Protocol, TypeVar

from standfast.awaiting import to_its_end
from standfast.clock import Clock
from standfast.locks.keeper import Keepers
from standfast.settings import Settings
from standfast.store.backend import Backend
from standfast.store.errand import Errand, arun_errand, run_errand

T = TypeVar("T")


class House(Protocol):
    """What a lock needs of its app."""

    settings: Settings
    clock: Clock

    @property
    def backend(self) -> Backend:
        """The open store."""
        ...

    @property
    def keepers(self) -> Keepers:
        """Who keeps what is held."""
        ...

    @property
    def retry_for(self) -> float:
        """For how many seconds to go on trying while the store is away."""
        ...


class Ways(Protocol):
    """How the store is asked and how one pauses: blocking, or by awaiting."""

    async def run(self, errand: Errand[T]) -> T:
        """Run an errand."""
        ...

    async def either(self, blocking: Callable[[], T], awaiting: Callable[[], Awaitable[T]]) -> T:
        """Do one of two, by whether there is an event loop."""
        ...

    async def pause(self, seconds: float) -> None:
        """Do nothing for a while."""
        ...


class Blocking:
    """Blocks the thread."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend

    async def run(self, errand: Errand[T]) -> T:
        """Run an errand."""
        return run_errand(self._backend.run, errand)

    async def either(self, blocking: Callable[[], T], awaiting: Callable[[], Awaitable[T]]) -> T:  # noqa: ARG002
        """Do what blocks."""
        return blocking()

    async def pause(self, seconds: float) -> None:
        """Do nothing for a while."""
        time.sleep(seconds)  # noqa: ASYNC251 - there is no event loop


class Awaiting:
    """Leaves the event loop to others meanwhile."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend

    async def run(self, errand: Errand[T]) -> T:
        """Run an errand, to its end: a call that was cancelled may give us a place after we have looked for it."""
        return await to_its_end(arun_errand(self._backend.arun, errand))

    async def either(self, blocking: Callable[[], T], awaiting: Callable[[], Awaitable[T]]) -> T:  # noqa: ARG002
        """Do what is to be awaited."""
        return await awaiting()

    async def pause(self, seconds: float) -> None:
        """Do nothing for a while."""
        import asyncio  # noqa: PLC0415 - a fifth of what it takes to import us, and here it is loaded already

        await asyncio.sleep(seconds)
