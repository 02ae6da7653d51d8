"""Runs the scripts of a verb. Each of them is one atomic step of the server."""

from collections.abc import Callable
from typing import Any, TypeVar

from holdfast.store.verb import Script, Statement, Steps, follow

T = TypeVar("T")


def run_steps(call: Callable[[Script], Any], steps: Steps[T]) -> T:
    """Feed a verb the replies to its scripts until it returns."""

    def reply(statement: Statement) -> Any:
        if not isinstance(statement, Script):
            raise TypeError(f"Redis cannot run {type(statement).__name__} statements: the verb is of another store")
        return call(statement)

    return follow(steps, reply)
