"""A store that is open: its verbs, the engine that runs them in each process, and its bell."""

import os
import secrets
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Coroutine
from time import perf_counter
from typing import Any, Protocol, TypeVar

import msgspec

from standfast.errors import StoreError
from standfast.model.records import Change, Kind, Record, read_body
from standfast.stores.contract import Store
from standfast.stores.verb import Tone, Verb, Verbs, arun_procedure, procedure, run_procedure

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


class Joined(Protocol):
    """The transaction on a connection of the caller's own, as a store takes part in it."""

    def run(self, verb: Verb[T]) -> T:
        """Run the verb in that transaction and return its answer."""
        ...

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


class Engine(Protocol):
    """What one process has open of a store. Making an engine opens nothing; its first use does."""

    def run(self, verb: Verb[T]) -> T:
        """Run the verb in one transaction and return its answer."""
        ...

    def arun(self, verb: Verb[T]) -> Coroutine[Any, Any, T]:
        """Do as `run` does, without blocking the event loop."""
        ...

    def close(self) -> None:
        """Wait for what runs, then let go of connections and threads."""
        ...


Observer = Callable[[Verb[Any], Any, float, BaseException | None], None]
"""Takes a call that is over: its verb, the answer, how many seconds it took, and the error instead of the answer."""


class Backend(ABC):
    """An open store, with an engine for each process: no connection and no thread is used after a fork.

    The bell rings after the commit of a verb that `wakes` or `tells`.
    """

    verbs: Store
    """The verbs of this store."""
    bell: Bell
    """The bell of this store."""

    def __init__(self, name: str) -> None:
        """`name` is what errors call the store."""
        self._name = name
        self._engines: dict[int, Any] = {}
        self._is_closed = False
        self._observer: Observer | None = None

    @abstractmethod
    def _open(self) -> Engine:
        """Make the engine of this process."""

    def _engine(self) -> Any:
        """Return the engine of this process. Its id also tells of a fork that Python's handlers never saw."""
        pid = os.getpid()
        engine = self._engines.get(pid)
        if engine is None:
            if self._is_closed:
                raise StoreError(f"{self._name} was closed: open a new store")
            # No lock here, it might have been held during a fork: of two threads the first `setdefault` wins, and an
            # engine that loses has opened nothing.
            engine = self._engines.setdefault(pid, self._open())
            for inherited in [other for other in self._engines if other != pid]:
                # A parent's: its threads did not come along, and its connections are of no use here.
                self._engines.pop(inherited, None)
        return engine

    def run(self, verb: Verb[T]) -> T:
        """Run the verb in one transaction and return its answer."""
        if self._observer is None:
            answer: T = self._engine().run(verb)
            return answer
        began = perf_counter()
        try:
            answer = self._engine().run(verb)
        except BaseException as error:
            self._observer(verb, None, perf_counter() - began, error)
            raise
        self._observer(verb, answer, perf_counter() - began, None)
        return answer

    def arun(self, verb: Verb[T]) -> Coroutine[Any, Any, T]:
        """Do as `run` does, without blocking the event loop."""
        if self._observer is None:
            call: Coroutine[Any, Any, T] = self._engine().arun(verb)
            return call
        return self._observed(verb, self._observer)

    async def _observed(self, verb: Verb[T], observe: Observer) -> T:
        began = perf_counter()
        try:
            answer: T = await self._engine().arun(verb)
        except BaseException as error:
            observe(verb, None, perf_counter() - began, error)
            raise
        observe(verb, answer, perf_counter() - began, None)
        return answer

    def observe(self, observer: Observer) -> None:
        """Call `observer` after each verb from now on, in place of an earlier observer.

        Verbs that run in a transaction of the caller's own are not observed.
        """
        self._observer = observer

    def run_in(self, verb: Verb[T], connection: Any) -> T:
        """Run the verb inside the transaction of a sync connection of the caller's own, who commits it, or not.

        Raises ConfigurationError, before anything is written, for a connection that this store cannot use so.
        """
        return self.join(connection).run(verb)

    async def arun_in(self, verb: Verb[T], connection: Any) -> T:
        """Do as `run_in` does, for an async connection, and refuse a sync one."""
        return await self.ajoin(connection).run(verb)

    @abstractmethod
    def join(self, connection: Any) -> Joined:
        """Return the transaction on a sync connection of the caller's own, to begin and to end it.

        Raises ConfigurationError for a connection that this store cannot use so.
        """

    @abstractmethod
    def ajoin(self, connection: Any) -> AsyncJoined:
        """Do as `join` does, for an async connection, and refuse a sync one."""

    def close(self) -> None:
        """Let go of connections and threads; running verbs end first."""
        self._is_closed = True
        engine = self._engines.pop(os.getpid(), None)
        if engine is not None:
            engine.close()


class HasStore(Protocol):
    """Somebody with a store, which may be opened when it is first used: an app, for one."""

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
