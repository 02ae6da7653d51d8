"""The calls of a store, written down as they happen: a file of lines, each of them one write.

A call has two lines, one before it and one after: what a killed process had asked for counts too.
"""

import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from types import MappingProxyType
from typing import Any

import msgspec

from game.counted.lines import append_line, read_lines
from standfast.model.job import Verdict

_NUMBERS = count(1)
"""The numbers of a process's calls, whichever store of it they are made of."""

_FENCED = frozenset({"start", "progress", "save", "finish"})
_SIZES: Mapping[str, Any] = MappingProxyType(
    {
        "claim": lambda answer: len(answer.jobs),
        "get": lambda answer: int(answer is not None),
        **dict.fromkeys(("history", "memos"), lambda _: 1),
        **dict.fromkeys(("glance", "start", "progress", "save", "finish", "reconcile", "bury"), len),
    }
)
"""How many jobs an answer is about, of the verbs that are about jobs; of a beat there are none to count."""


class Asked(msgspec.Struct, frozen=True, tag="asked"):
    """A call is about to be made, at this time of the wall clock."""

    pid: int
    call: int
    verb: str
    at: float


class Answered(msgspec.Struct, frozen=True, tag="answered", omit_defaults=True):
    """The call is over after so many seconds. `stale` counts the refused ones of `jobs`."""

    pid: int
    call: int
    took: float
    jobs: int = 0
    stale: int = 0
    error: str | None = None


class Call(msgspec.Struct, frozen=True):
    """One call. `took` is None where its process did not live to see the answer."""

    verb: str
    at: float
    pid: int
    took: float | None = None
    jobs: int = 0
    stale: int = 0
    error: str | None = None


class Journal:
    """The file, to write to. Any number of processes and threads may."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._encode = msgspec.json.Encoder().encode

    @contextmanager
    def noting(self, verb: str) -> Iterator["Answer"]:
        """Write down a call, before and after; what is put into the answer meanwhile is told as well."""
        pid, call, answer = os.getpid(), next(_NUMBERS), Answer(verb)
        self._write(Asked(pid, call, verb, time.time()))
        began = time.perf_counter()
        try:
            yield answer
        except BaseException as error:
            answer.error = type(error).__name__
            raise
        finally:
            took = time.perf_counter() - began
            self._write(Answered(pid, call, took, answer.jobs, answer.stale, answer.error))

    def _write(self, line: Asked | Answered) -> None:
        append_line(self._path, self._encode(line))


class Answer:
    """What is known of a call's answer."""

    __slots__ = ("_verb", "error", "jobs", "stale")

    def __init__(self, verb: str) -> None:
        self._verb = verb
        self.jobs = 0
        self.stale = 0
        self.error: str | None = None

    def count(self, answer: Any) -> None:
        """Count the jobs that a store's answer is about."""
        if self._verb in _SIZES:
            self.jobs = _SIZES[self._verb](answer)
        if self._verb in _FENCED:
            self.stale = answer.count(Verdict.STALE)


def read_calls(path: Path) -> list[Call]:
    """Return the calls in the order in which they were made."""
    calls: dict[tuple[int, int], Call] = {}
    for line in msgspec.json.decode(b"[" + b",".join(read_lines(path)) + b"]", type=list[Asked | Answered]):
        key = line.pid, line.call
        if isinstance(line, Asked):
            calls[key] = Call(line.verb, line.at, line.pid)
        else:
            asked = calls[key]
            calls[key] = Call(asked.verb, asked.at, asked.pid, line.took, line.jobs, line.stale, line.error)
    return list(calls.values())
