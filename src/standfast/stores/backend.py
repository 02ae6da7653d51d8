"""A store that is open: its verbs, the two drivers that run them, and its bell."""

import os
import secrets
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from typing import Any, Generic, NoReturn, Protocol, TypeVar

import msgspec

from standfast.errors import StoreError
from standfast.model.records import Change, Kind, Record, read_body
from standfast.stores.contract import Store
from standfast.stores.verb import (
    AsyncDriver,
    SyncDriver,
    Tone,
    Verb,
    Verbs,
    arun_procedure,
    procedure,
    run_procedure,
)

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


class BackendWrapper:
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


# One of something in each process: nothing that is open is used on the other side of a fork.


class Closable(Protocol):
    """What holds connections and threads. Making one opens nothing; its first use does."""

    def close(self) -> None:
        """Wait for what runs, then let go of all."""
        ...


E = TypeVar("E", bound=Closable)


class PerProcess(Generic[E]):
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


# Whose store is looked at.


class HasStore(Protocol):
    """Somebody with a store: an app, for one."""

    @property
    def verbs(self) -> Store:
        """What its store can do."""
        ...

    def call(self, verb: Verb[T]) -> T:
        """Run a verb."""
        ...


# Which store this is: a random id, made once in the store itself. Two stores of the same URL have different ones.
#
# A server that was emptied, or that another one has taken the place of, has another id, or none.

_NAME = "store"


class _Body(msgspec.Struct, frozen=True):
    id: str


@procedure
def find_identity(verbs: Store) -> Verbs[str | None]:
    """Return the id of the store; None where it has none."""
    return (yield from _read(verbs))


@procedure
def know_identity(verbs: Store) -> Verbs[str]:
    """Return the id of the store, and make one where it has none."""
    while (known := (yield from _read(verbs))) is None:
        made = secrets.token_hex(8)
        yield verbs.change_records([Change(Kind.STORE, _NAME, 0, made, msgspec.json.encode(_Body(made)))])
    return known


def identity_of(backend: Backend) -> str:
    """Return the id of a store, blocking."""
    return run_procedure(backend.run, know_identity(backend.verbs))


def _read(verbs: Store) -> Verbs[str | None]:
    records: tuple[Record, ...] = yield verbs.records(Kind.STORE, (_NAME,))
    if not records:
        return None
    body = read_body(records[0], _Body)
    if body is None:
        raise StoreError("the record that says which store this is cannot be read: restore it, or the store")
    return body.id


class KnownStore:
    """The store as one process has met it."""

    def __init__(self, run: Callable[[Verb[Any]], Awaitable[Any]], verbs: Store) -> None:
        self._run = run
        self._verbs = verbs
        self.id: str | None = None
        """None before it was met."""

    async def meet(self) -> str:
        """Return the id that the store has now, and remember it; one that has none gets one."""
        self.id = await arun_procedure(self._run, know_identity(self._verbs))
        return self.id

    async def is_another(self, than: str | None = None) -> bool:
        """Tell whether the store is not the one that was met, or the one of this id."""
        known = than or self.id
        return known is not None and await arun_procedure(self._run, find_identity(self._verbs)) != known
