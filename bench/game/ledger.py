"""What instances did, by their own word: one line per event in a file that has nothing to do with the store.

A line is one write to a file opened for appending, so lines of many processes never mix and outlive `kill -9`.
"""

import os
import time
from pathlib import Path
from typing import Literal

import msgspec

from game.counted.lines import read_lines
from game.evidence import Run

LEDGER_VARIABLE = "GAME_LEDGER"
INSTANCE_VARIABLE = "GAME_INSTANCE"

_END = b'"what":"end"'
"""What a line about the end of a job has in it."""


class Entry(msgspec.Struct, frozen=True):
    """A job's work began or ended, at this time of the wall clock, under this claim and in this instance."""

    what: Literal["start", "end"]
    job: int
    fence: int
    instance: str
    at: float


class Ledger:
    """The file, to write to: opened once, as a late line would be a late job."""

    def __init__(self, path: Path, instance: str) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        self._instance = instance
        self._encode = msgspec.json.Encoder().encode

    def start(self, job: int, fence: int) -> None:
        """Write down that the work begins."""
        self._write(Entry("start", job, fence, self._instance, time.time()))

    def end(self, job: int, fence: int) -> None:
        """Write down that the work is done: the time is that at which it has ended, the ExecuteAt of the rules."""
        self._write(Entry("end", job, fence, self._instance, time.time()))

    def _write(self, entry: Entry) -> None:
        os.write(self._file, self._encode(entry) + b"\n")


def this_ledger() -> Ledger:
    """Return the ledger of the instance that this process belongs to."""
    return Ledger(Path(os.environ[LEDGER_VARIABLE]), os.environ[INSTANCE_VARIABLE])


class Ends:
    """Counts the jobs that have run while the ledger grows: what was read before is not read again."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._read = self._counted = 0

    def count(self) -> int:
        """Return how many have run so far."""
        if self._path.exists():
            with self._path.open("rb") as file:
                file.seek(self._read)
                whole, newline, _begun = file.read().rpartition(b"\n")
            self._read += len(whole) + len(newline)
            self._counted += whole.count(_END)
        return self._counted


def read_runs(path: Path) -> list[Run]:
    """Return the runs in the order in which they started."""
    runs: dict[tuple[int, int, str], Run] = {}
    for entry in msgspec.json.decode(b"[" + b",".join(read_lines(path)) + b"]", type=list[Entry]):
        key = entry.job, entry.fence, entry.instance
        if entry.what == "start":
            if key in runs:  # of a claim that runs twice nothing is hidden
                key = (*key[:2], f"{entry.instance} again {len(runs)}")
            runs[key] = Run(entry.job, entry.fence, entry.instance, entry.at)
        else:
            runs[key] = msgspec.structs.replace(runs[key], end=entry.at)
    return sorted(runs.values(), key=lambda run: run.start)
