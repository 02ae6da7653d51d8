"""One of something in each process: nothing that is open is used on the other side of a fork."""

import os
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

from standfast.errors import StoreError


class Closable(Protocol):
    """What holds connections and threads. Making one opens nothing; its first use does."""

    def close(self) -> None:
        """Wait for what runs, then let go of all."""
        ...


E = TypeVar("E", bound=Closable)


class EachProcess(Generic[E]):
    """Makes an engine when a process first needs one. `name` is what to call the store in an error."""

    def __init__(self, make: Callable[[], E], name: str) -> None:
        self._make = make
        self._name = name
        self._engines: dict[int, E] = {}
        self._closed = False

    def __call__(self) -> E:
        """Return this process's own."""
        pid = os.getpid()
        engine = self._engines.get(pid)
        return self._new(pid) if engine is None else engine

    def close(self) -> None:
        """Close this process's own, if there is one, and make no other."""
        self._closed = True
        engine = self._engines.pop(os.getpid(), None)
        if engine is not None:
            engine.close()

    def _new(self, pid: int) -> E:
        if self._closed:
            raise StoreError(f"{self._name} was closed: open a new store")
        # No lock here, it might have been held during a fork: of two threads the first `setdefault` wins, and an
        # engine that loses has opened nothing.
        engine = self._engines.setdefault(pid, self._make())
        for inherited in [other for other in self._engines if other != pid]:
            # A parent's: its threads did not come along, and what it has open is of no use here.
            self._engines.pop(inherited, None)
        return engine
