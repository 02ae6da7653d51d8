"""A verb: one thing a store can do, written once and free of I/O.

A store's method returns a `Verb`: a generator that yields statements, receives their answers and returns what
the caller wants. It never begins or commits. A driver, sync or async, runs it inside one transaction; so both
share every line, and the same verb can run on a user's own connection.
"""

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import wraps
from typing import Any, Concatenate, Generic, ParamSpec, Protocol, TypeVar

T = TypeVar("T")
S = TypeVar("S")
P = ParamSpec("P")


class Access(Enum):
    """What kind of transaction a verb needs."""

    READ = "read"
    WRITE = "write"
    BEAT = "beat"
    """Writes heartbeats only, reads anything: must not wait for a writer of jobs."""


@dataclass(frozen=True, slots=True)
class Query:
    """A statement whose answer is its rows."""

    sql: str
    params: Sequence[Any] = ()


@dataclass(frozen=True, slots=True)
class Command:
    """A statement whose answer is how many rows it changed."""

    sql: str
    params: Sequence[Any] = ()


@dataclass(frozen=True, slots=True)
class Bulk:
    """One statement run for many parameter rows; its answer is how many rows it changed in all."""

    sql: str
    rows: Sequence[Sequence[Any]]


Statement = Query | Command | Bulk
Steps = Generator[Statement, Any, T]


@dataclass(slots=True)
class Verb(Generic[T]):
    """One call of a verb, ready to be run once by a driver.

    `wakes` says that it may make a job due, so that idle workers must hear the bell after its commit.
    """

    name: str
    access: Access
    steps: Steps[T]
    wakes: bool = False


def verb(
    access: Access, *, wakes: bool = False
) -> Callable[[Callable[Concatenate[S, P], Steps[T]]], Callable[Concatenate[S, P], Verb[T]]]:
    """Make a generator method return a `Verb` of its own name."""

    def decorate(steps: Callable[Concatenate[S, P], Steps[T]]) -> Callable[Concatenate[S, P], Verb[T]]:
        @wraps(steps)
        def call(self: S, /, *args: P.args, **kwargs: P.kwargs) -> Verb[T]:
            return Verb(steps.__name__, access, steps(self, *args, **kwargs), wakes)

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
