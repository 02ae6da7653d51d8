"""An errand: several verbs in a row, where each depends on the answers before it. As free of I/O as they are.

Each verb is a transaction of its own; what must happen together is one verb.
"""

from collections.abc import Awaitable, Callable, Generator
from dataclasses import dataclass
from functools import wraps
from inspect import GEN_CREATED, getgeneratorstate
from typing import Any, Generic, ParamSpec, TypeVar

from standfast.awaiting import run_at_once
from standfast.errors import ConfigurationError
from standfast.store.verb import Verb

T = TypeVar("T")
P = ParamSpec("P")

Verbs = Generator[Verb[Any], Any, T]


@dataclass(slots=True)
class Errand(Generic[T]):
    """One errand, ready to be run once."""

    steps: Verbs[T]


def errand(steps: Callable[P, Verbs[T]]) -> Callable[P, Errand[T]]:
    """Make a generator of verbs return an `Errand`."""

    @wraps(steps)
    def call(*args: P.args, **kwargs: P.kwargs) -> Errand[T]:
        return Errand(steps(*args, **kwargs))

    return call


def _fresh(errand: Errand[T]) -> Verbs[T]:
    if getgeneratorstate(errand.steps) != GEN_CREATED:
        raise ConfigurationError("this was run already, and can be run once: ask for it anew each time")
    return errand.steps


async def arun_errand(run: Callable[[Verb[Any]], Awaitable[Any]], errand: Errand[T]) -> T:
    """Run the verbs of an errand."""
    steps = _fresh(errand)
    try:
        verb = next(steps)
        while True:
            try:
                answer = await run(verb)
            except Exception as error:  # noqa: BLE001 - the errand may know what to do about it
                verb = steps.throw(error)
            else:
                verb = steps.send(answer)
    except StopIteration as stop:
        told: T = stop.value
        return told
    finally:
        steps.close()


def run_errand(run: Callable[[Verb[Any]], Any], errand: Errand[T]) -> T:
    """Do the same, blocking."""

    async def at_once(verb: Verb[Any]) -> Any:
        return run(verb)

    return run_at_once(arun_errand(at_once, errand))
