"""Finds the calls of a handler that nobody awaited: nothing of them was done, and their result is none."""

import sys
from collections.abc import Coroutine
from inspect import CORO_CREATED, getcoroutinestate
from pathlib import Path
from typing import Any, TypeVar

from standfast.errors import StepError

T = TypeVar("T")

_OURS = str(Path(__file__).resolve().parents[1])


class Awaited:
    """The calls of one run that are to be awaited. Used from any thread."""

    def __init__(self) -> None:
        self._calls: list[tuple[Coroutine[Any, Any, Any], str]] = []

    def add(self, call: str, coroutine: Coroutine[Any, Any, T]) -> Coroutine[Any, Any, T]:
        """Remember a call and the line of the handler that made it; return what is to be awaited."""
        self._calls.append((coroutine, f"{call} in {_users_line()}"))
        return coroutine

    def forgotten(self) -> StepError | None:
        """Return the error of the first call that nobody awaited; one that was cancelled before it began was."""
        left = [(each, call) for each, call in self._calls if getcoroutinestate(each) == CORO_CREATED]
        for each, _ in left:
            each.close()  # the error says more than Python's warning would
        if not left:
            return None
        return StepError(
            f"{left[0][1]}, was not awaited, and nothing of it was done: write `await` before it, and retry the job"
        )


def _users_line() -> str:
    frame = sys._getframe(1)  # noqa: SLF001 - a whole traceback would cost every step more
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_OURS):
        frame = frame.f_back
    return f"{Path(frame.f_code.co_filename).name}, line {frame.f_lineno}"
