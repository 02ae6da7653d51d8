"""Raise an exception at one place after the other where the interpreter looks for signals.

A signal's handler may raise after a call, at the start of a function and where a loop begins anew; nowhere else. So
`with lock:` is safe, and a line between `acquire()` and `try` is not.
"""

import contextlib
import dis
import queue
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import standfast

OURS = str(Path(standfast.__file__).parent)
ALONG_THE_WAY = (contextlib.__file__, queue.__file__, threading.__file__)
"""Python's own files that our calls run through."""

_LOOKS = {
    code for name, code in dis.opmap.items() if name.startswith("CALL") or name in {"RESUME", "JUMP_BACKWARD"}
}
"""After these the interpreter looks for signals."""


class TimeIsUpError(Exception):
    """What a handler raises that ends requests which take too long."""


@dataclass(frozen=True)
class Interrupted:
    """What came of one run: where it was interrupted, None where it was not, and how it ended."""

    at: str | None
    answer: Any = None
    error: BaseException | None = None


def at_every_place(
    run: Callable[[], Any],
    within: Callable[[str], bool] = lambda file: file.startswith(OURS) or file in ALONG_THE_WAY,
    error: Callable[[], BaseException] = TimeIsUpError,
    first: int = 1,
    step: int = 1,
) -> Iterator[Interrupted]:
    """Run again and again, interrupted at the first place, the next and so on, and at last nowhere.

    `within` says of which files the places count; every `step`-th of them is tried, from the `first` on.
    """
    number = first
    while True:
        outcome = interrupted_at(number, run, within, error)
        yield outcome
        if outcome.at is None:
            return
        number += step


def interrupted_at(
    number: int, run: Callable[[], Any], within: Callable[[str], bool], error: Callable[[], BaseException]
) -> Interrupted:
    """Run once, interrupted in this thread at the place of that number."""
    tracer = _Tracer(number, within, error)
    before = sys.gettrace()
    sys.settrace(tracer.begun)
    try:
        answer = run()
    except BaseException as raised:  # noqa: BLE001 - whoever tests looks at it
        return Interrupted(tracer.at, error=raised)
    finally:
        sys.settrace(before)
    return Interrupted(tracer.at, answer)


class _Tracer:
    def __init__(self, number: int, within: Callable[[str], bool], error: Callable[[], BaseException]) -> None:
        self._left = number
        self._within = within
        self._error = error
        self._last: dict[FrameType, int] = {}
        self.at: str | None = None

    def begun(self, frame: FrameType, _event: str, _arg: object) -> Any:
        if self.at is not None or not self._within(frame.f_code.co_filename):
            return None
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        return self._gone_on

    def _gone_on(self, frame: FrameType, event: str, _arg: object) -> Any:
        if event == "return":
            self._last.pop(frame, None)
        if event != "opcode" or self.at is not None:
            return self._gone_on
        last, self._last[frame] = self._last.get(frame), frame.f_lasti
        if last is not None and _is_place(frame.f_code, last, frame.f_lasti):
            self._left -= 1
            if self._left == 0:
                self._last.clear()
                self.at = f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno} {frame.f_code.co_name}"
                raise self._error()
        return self._gone_on


@cache
def _is_place(code: CodeType, last: int, here: int) -> bool:
    """Tell whether a handler may raise between two instructions.

    It does so as part of the first one. A tracer can only raise as part of the second: so not where that is caught
    elsewhere, as at the very end of a `try`.
    """
    return _instructions(code)[last] in _LOOKS and _caught(code, last) == _caught(code, here)


@cache
def _caught(code: CodeType, offset: int) -> int | None:
    """Return where it goes on if an instruction raises."""
    table = dis._parse_exception_table(code)  # type: ignore[attr-defined]
    return next((entry.target for entry in table if entry.start <= offset < entry.end), None)


@cache
def _instructions(code: CodeType) -> bytes:
    return code.co_code
