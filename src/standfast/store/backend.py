"""A store that is open: its verbs, the two drivers that run them, and its bell."""

from abc import ABC, abstractmethod
from typing import Any, NoReturn, Protocol, TypeVar

from standfast.store.protocol import Store
from standfast.store.verb import AsyncDriver, SyncDriver, Tone, Verb

T = TypeVar("T")


class Listener(Protocol):
    """The ear of one who waits. A ring between two waits is not lost: the next wait returns at once."""

    async def wait(self, timeout: float) -> bool:
        """Return True as soon as the bell rings, False after `timeout` seconds."""
        ...

    def close(self) -> None:
        """Stop listening."""
        ...


class Bell(Protocol):
    """Wakes who waits. A hint only: a lost ring delays a job or its result until the next safety poll, no more."""

    def ring(self, tone: Tone = Tone.WORK) -> None:
        """Wake every listener for this tone, in this process and in others. Never raises, nor blocks a loop."""
        ...

    def listen(self, tone: Tone = Tone.WORK) -> Listener:
        """Start listening for this tone alone, inside a running event loop."""
        ...


class Joined(SyncDriver, Protocol):
    """The transaction on a connection of the caller's own, as a store takes part in it."""

    def begin(self) -> None:
        """Begin a transaction that `commit` or `rollback` ends; one that is open already is taken over."""
        ...

    def commit(self) -> None:
        """Commit what began with `begin`. If that fails, whatever the reason, the caller has to roll back."""
        ...

    def rollback(self) -> None:
        """Undo everything since `begin`, and what was open before it."""
        ...


class AsyncJoined(Protocol):
    """The same for async callers."""

    async def run(self, verb: Verb[T]) -> T:
        """Run the verb in that transaction and return its answer."""
        ...

    async def begin(self) -> None:
        """Begin a transaction that `commit` or `rollback` ends; one that is open already is taken over."""
        ...

    async def commit(self) -> None:
        """Commit what began with `begin`. If that fails, whatever the reason, the caller has to roll back."""
        ...

    async def rollback(self) -> None:
        """Undo everything since `begin`, and what was open before it."""
        ...


class Backend(SyncDriver, AsyncDriver, Protocol):
    """An open store. Its drivers ring the bell after the commit of a verb that `wakes` or `tells`."""

    @property
    def verbs(self) -> Store:
        """The verbs of this store."""
        ...

    @property
    def bell(self) -> Bell:
        """The bell of this store."""
        ...

    def run_in(self, verb: Verb[T], connection: Any) -> T:
        """Run the verb inside the transaction of a sync connection of the caller's own, who commits it, or not.

        Raises ConfigurationError, before anything is written, for a connection that this store cannot use so.
        """
        ...

    async def arun_in(self, verb: Verb[T], connection: Any) -> T:
        """Do as `run_in` does, for an async connection, and refuse a sync one."""
        ...

    def join(self, connection: Any) -> Joined:
        """Return the transaction on a sync connection of the caller's own, to begin and to end it.

        Raises ConfigurationError for a connection that this store cannot use so.
        """
        ...

    def ajoin(self, connection: Any) -> AsyncJoined:
        """Do as `join` does, for an async connection, and refuse a sync one."""
        ...

    def close(self) -> None:
        """Let go of connections and threads."""
        ...


class NoTransactions(ABC):
    """What stores do that take part in no transaction of the caller's own: `join` says why."""

    @abstractmethod
    def join(self, connection: Any) -> NoReturn:
        """Refuse, and say what to do instead."""

    def ajoin(self, connection: Any) -> NoReturn:
        """Refuse as `join` does."""
        self.join(connection)

    def run_in(self, verb: Verb[T], connection: Any) -> T:
        """Refuse as `join` does."""
        verb.steps.close()
        self.join(connection)

    async def arun_in(self, verb: Verb[T], connection: Any) -> T:
        """Refuse as `run_in` does."""
        return self.run_in(verb, connection)


class Around:
    """All of another open store but `run` and `arun`, for those who have something to do around these."""

    def __init__(self, inner: Backend) -> None:
        self._inner = inner

    @property
    def verbs(self) -> Store:
        """The verbs of the store."""
        return self._inner.verbs

    @property
    def bell(self) -> Bell:
        """The bell of the store."""
        return self._inner.bell

    def run_in(self, verb: Verb[T], connection: Any) -> T:
        """Run the verb inside the caller's own transaction, whose end nobody here hears of."""
        return self._inner.run_in(verb, connection)

    async def arun_in(self, verb: Verb[T], connection: Any) -> T:
        """Do as `run_in` does, for an async connection."""
        return await self._inner.arun_in(verb, connection)

    def join(self, connection: Any) -> Joined:
        """Return the transaction on a sync connection of the caller's own."""
        return self._inner.join(connection)

    def ajoin(self, connection: Any) -> AsyncJoined:
        """Return the transaction on an async connection of the caller's own."""
        return self._inner.ajoin(connection)

    def close(self) -> None:
        """Let go of the store."""
        self._inner.close()
