"""A store that is open: its verbs, the two drivers that run them, and its bell."""

from typing import Protocol

from holdfast.store.protocol import Store
from holdfast.store.verb import AsyncDriver, SyncDriver


class Listener(Protocol):
    """One idle worker's ear. A ring between two waits is not lost: the next wait returns at once."""

    async def wait(self, timeout: float) -> bool:
        """Return True as soon as the bell rings, False after `timeout` seconds."""
        ...

    def close(self) -> None:
        """Stop listening."""
        ...


class Bell(Protocol):
    """Wakes idle workers. A hint only: a lost ring delays a job until the next safety poll, no more."""

    def ring(self) -> None:
        """Wake every listener, in this process and in others. Never raises."""
        ...

    def listen(self) -> Listener:
        """Start listening, inside a running event loop."""
        ...


class Backend(SyncDriver, AsyncDriver, Protocol):
    """An open store. Its drivers ring the bell after the commit of a verb that `wakes`."""

    @property
    def verbs(self) -> Store:
        """The verbs of this store."""
        ...

    @property
    def bell(self) -> Bell:
        """The bell of this store."""
        ...

    def close(self) -> None:
        """Let go of connections and threads."""
        ...
