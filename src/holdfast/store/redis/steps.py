"""Runs the scripts of a verb. Each of them is one atomic step of the server."""

from collections.abc import Awaitable, Callable
from typing import Any, NoReturn, TypeVar

from holdfast.store.verb import Access, Script, Statement, Verb

T = TypeVar("T")


def run_steps(call: Callable[[Access, Script], Any], verb: Verb[T]) -> T:
    """Feed a verb the replies to its scripts until it returns."""
    steps, access = verb.steps, verb.access
    try:
        statement = next(steps)
        while True:
            script = statement if isinstance(statement, Script) else _refuse(statement)
            statement = steps.send(call(access, script))
    except StopIteration as stop:
        told: T = stop.value
        return told
    finally:
        steps.close()


async def arun_steps(call: Callable[[Access, Script], Awaitable[Any]], verb: Verb[T]) -> T:
    """Do the same where to call is to await."""
    steps, access = verb.steps, verb.access
    try:
        statement = next(steps)
        while True:
            script = statement if isinstance(statement, Script) else _refuse(statement)
            statement = steps.send(await call(access, script))
    except StopIteration as stop:
        told: T = stop.value
        return told
    finally:
        steps.close()


def _refuse(statement: Statement) -> NoReturn:
    raise TypeError(f"Redis cannot run {type(statement).__name__} statements: the verb is of another store")
