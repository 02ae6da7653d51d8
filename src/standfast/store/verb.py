"""A verb: one thing a store can do, written once and free of I/O.

A store's method returns a `Verb`: a generator that yields statements, receives their answers and returns what
the caller wants. It never begins or commits. A driver, sync or async, runs it inside one transaction; so both
share every line, and the same verb can run on a user's own connection.
"""

from collections.abc import Awaitable, Callable, Generator, Sequence
from enum import Enum
from functools import partial, wraps
from typing import Any, Concatenate, Generic, ParamSpec, Protocol, TypeVar

import msgspec

T = TypeVar("T")
S = TypeVar("S")
P = ParamSpec("P")


class Access(Enum):
    """What kind of transaction a verb needs."""

    READ = "read"
    WRITE = "write"
    BEAT = "beat"
    """Writes heartbeats only, reads anything: must not wait for a writer of jobs."""


class Tone(Enum):
    """What the bell may say, each to those who listen for it."""

    WORK = "work"
    """A job may be due: for idle workers."""
    RESULT = "result"
    """A job may have ended or be further on: for those who wait for jobs."""


class Query(msgspec.Struct, frozen=True):
    """A statement whose answer is its rows."""

    sql: str
    params: Sequence[Any] = ()


class Command(msgspec.Struct, frozen=True):
    """A statement whose answer is how many rows it changed."""

    sql: str
    params: Sequence[Any] = ()


class Bulk(msgspec.Struct, frozen=True):
    """One statement run for many parameter rows; its answer is how many rows it changed in all."""

    sql: str
    rows: Sequence[Sequence[Any]]


class Script(msgspec.Struct, frozen=True):
    """A named script that the server runs in one step, with its arguments; its answer is what it returns."""

    name: str
    args: Sequence[Any] = ()


class Together(msgspec.Struct, frozen=True):
    """Statements of which none needs the answer of another: sent at once where that saves a round trip.

    Its answer is the list of theirs. They run in this order.
    """

    statements: Sequence[Query | Command]


class Last(msgspec.Struct, frozen=True):
    """A statement after which its verb yields no other: sent with the commit, or as a transaction by itself."""

    statement: Query | Command | Together


class Try(msgspec.Struct, frozen=True):
    """A first statement that is a transaction by itself: committed when answered. Its verb may go on in another.

    Where the verb runs in a transaction of the user's own, it is a part of that, unless it is to be `apart`.
    """

    statement: Query
    apart: bool = False


Statement = Query | Command | Bulk | Script | Together | Last | Try
Steps = Generator[Statement, Any, T]


def follow(steps: Steps[T], answer: Callable[[Statement], Any]) -> T:
    """Feed a verb the answers to its statements until it returns."""
    try:
        statement = next(steps)
        while True:
            statement = steps.send(answer(statement))
    except StopIteration as stop:
        told: T = stop.value
        return told
    finally:
        steps.close()


async def afollow(steps: Steps[T], answer: Callable[[Statement], Awaitable[Any]]) -> T:
    """Do the same where to answer is to await."""
    try:
        statement = next(steps)
        while True:
            statement = steps.send(await answer(statement))
    except StopIteration as stop:
        told: T = stop.value
        return told
    finally:
        steps.close()


class Verb(msgspec.Struct, Generic[T]):
    """One call of a verb, ready to be run once by a driver.

    `wakes` says that it may make a job due, so that idle workers must hear the bell after its commit. `tells` says
    that it may end a job or move its progress, so that those who wait for jobs must hear. `brings` is for those who
    count: the jobs that `enqueue` is to bring, and the changes of `change_records` if jobs come of them. `again`
    gives its steps anew, for a driver whose connection broke. `once`: it must not be sent again if the first try
    may have been committed, because the second answer would differ.
    """

    name: str
    access: Access
    steps: Steps[T]
    wakes: bool = False
    tells: bool = False
    brings: Sequence[Any] = ()
    again: Callable[[], Steps[T]] | None = None
    once: bool = False

    @property
    def tones(self) -> tuple[Tone, ...]:
        """How to ring after its commit."""
        return _TONES[self.wakes, self.tells]


_TONES = {
    (False, False): (),
    (True, False): (Tone.WORK,),
    (False, True): (Tone.RESULT,),
    (True, True): (Tone.WORK, Tone.RESULT),
}


def verb(
    access: Access, *, wakes: bool = False, tells: bool = False, once: bool = False
) -> Callable[[Callable[Concatenate[S, P], Steps[T]]], Callable[Concatenate[S, P], Verb[T]]]:
    """Make a generator method return a `Verb` of its own name."""

    def decorate(steps: Callable[Concatenate[S, P], Steps[T]]) -> Callable[Concatenate[S, P], Verb[T]]:
        @wraps(steps)
        def call(self: S, /, *args: P.args, **kwargs: P.kwargs) -> Verb[T]:
            again = partial(steps, self, *args, **kwargs)
            return Verb(steps.__name__, access, again(), wakes, tells, (), again, once)

        return call

    return decorate


class SyncDriver(Protocol):
    """Runs verbs, blocking."""

    def run(self, verb: Verb[T]) -> T:
        """Run the verb in one transaction and return its answer."""
        ...


class AsyncDriver(Protocol):
    """Runs verbs without blocking the event loop."""

    async def arun(self, verb: Verb[T]) -> T:
        """Run the verb in one transaction and return its answer."""
        ...
