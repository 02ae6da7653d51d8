"""What handlers did, by their own word: one line per event in a file that has nothing to do with the store.

A line is one write to a file opened for appending, so lines of many processes never mix and outlive `kill -9`.
Times are of the boot clock, which is the same in every process, and of the wall clock, which is the store's.
"""

import json
import os
import time
from collections import defaultdict
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from standfast.model.clock import SystemClock

VARIABLE = "STANDFAST_TEST_LEDGER"

CLOCK = SystemClock()


@dataclass(frozen=True, slots=True)
class Entry:
    """One event of one run. `what` is start or end; `lost` is what the handler was told at that moment."""

    what: str
    job: str
    fence: int
    lost: bool = False
    pid: int = field(default_factory=os.getpid)
    boot: float = field(default_factory=CLOCK.boot)
    wall: float = field(default_factory=time.time)

    @property
    def at(self) -> datetime:
        return datetime.fromtimestamp(self.wall, UTC)


@dataclass(frozen=True, slots=True)
class Run:
    """One run of a job under one claim; `end` is None where its process died under it."""

    start: Entry
    end: Entry | None

    @property
    def fence(self) -> int:
        return self.start.fence


class Ledger:
    """The file, to write to and to read from."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def write(self, what: str, ctx) -> None:
        """Write one line with one system call."""
        line = json.dumps(asdict(Entry(what, ctx.job_id, ctx.fence, ctx.lost))).encode() + b"\n"
        file = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            assert os.write(file, line) == len(line)
        finally:
            os.close(file)

    def entries(self) -> list[Entry]:
        """Return what is written in full: one who reads beside a writer may see a line that has only begun."""
        text = self.path.read_text() if self.path.exists() else ""
        lines, _, _begun = text.rpartition("\n")
        return [Entry(**json.loads(line)) for line in lines.splitlines()]

    def runs(self) -> dict[str, list[Run]]:
        """Return the runs of each job in the order in which they started. A claim must not run twice."""
        starts: dict[tuple[str, int], Entry] = {}
        ends: dict[tuple[str, int], Entry] = {}
        for entry in self.entries():
            seen = starts if entry.what == "start" else ends
            assert (entry.job, entry.fence) not in seen, f"{entry.what} twice: {entry}"
            seen[entry.job, entry.fence] = entry
        runs: dict[str, list[Run]] = defaultdict(list)
        for key, start in sorted(starts.items(), key=lambda item: item[1].boot):
            runs[start.job].append(Run(start, ends.get(key)))
        return runs

    def runs_of(self, job: str) -> list[Run]:
        return self.runs().get(job, [])
