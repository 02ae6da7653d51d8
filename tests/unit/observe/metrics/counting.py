"""Processes that count in a shared folder, and what all of them have counted."""

from metered import ended, told

from standfast.model.clock import SystemClock
from standfast.model.job import Verdict
from standfast.observe.metrics.cells import JOBS
from standfast.observe.metrics.meter import MeteredTally
from standfast.observe.metrics.shared import SharedFolder, counts_in


class Counter:
    """One who counts attempts in the folder."""

    def __init__(self, folder):
        self.meter = SharedFolder(folder).meter()
        self._tally = MeteredTally(self.meter, SystemClock())

    def count(self, number=1, task="send"):
        self._tally.count([ended(task) for _ in range(number)], [Verdict.ACCEPTED] * number)
        return self

    def end(self):
        """End as a process does that is killed: the kernel lets go of its lock, and its file stays."""
        self.meter.close()
        return self


def completed(folder):
    """Return the attempts that a reader sees, by task."""
    rows = SharedFolder(folder).sums().rows
    return {name[2]: row[0] for name, row in rows.items() if name[0] == JOBS}


def lines(folder):
    return told(SharedFolder(folder))


def files(folder):
    return len(counts_in(folder))
