"""What runs of jobs inside hosts did, by their own word: a file that has nothing to do with the store."""

import json
import os
from collections import Counter
from dataclasses import asdict, dataclass, field
from pathlib import Path

VARIABLE = "STANDFAST_TEST_NOTES"


@dataclass(frozen=True, slots=True)
class Note:
    """One event of one run: start, asked (to stop), step or done."""

    what: str
    key: str
    job: str
    fence: int
    about: str = ""
    pid: int = field(default_factory=os.getpid)


def note(what, ctx, about=""):
    """Write one line with one system call, which a kill leaves whole."""
    line = json.dumps(asdict(Note(what, ctx.idempotency_key, ctx.job_id, ctx.fence, about))).encode() + b"\n"
    file = os.open(os.environ[VARIABLE], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        assert os.write(file, line) == len(line)
    finally:
        os.close(file)


class Notes:
    """The file, as the test reads it."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def read(self, what: str, job: str | None = None) -> list[Note]:
        """Return the events of a kind, of one job or of all."""
        text = self.path.read_text() if self.path.exists() else ""
        lines, _, _begun = text.rpartition("\n")
        notes = [Note(**json.loads(line)) for line in lines.splitlines()]
        return [each for each in notes if each.what == what and job in {None, each.job}]

    def done(self) -> Counter[str]:
        """Return how often the work of each key was done."""
        return Counter(each.key for each in self.read("done"))

    def unasked(self) -> list[Note]:
        """Return the runs that ended half-way and were never asked to."""
        ended = {(each.job, each.fence) for what in ("asked", "done") for each in self.read(what)}
        return [each for each in self.read("start") if (each.job, each.fence) not in ended]
