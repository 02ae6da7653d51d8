"""Strategies over the table: a strategy is a class, made once in each instance.

*naive*: look for ready jobs every period, and again at once while there are any; lock each, run it, go on.

*lookahead*: look every period for jobs of the next one. In the order of their times, wait until about a second
before each (at random, so that instances do not all come at once), see whether it is still free, lock it, wait for
its time, and hand it to one of ten threads.

*separate*: what one claim of Standfast does, with the calls that the exercise has. Instances look in turn, by the
clock: one of them each period. Whoever looks locks all jobs of the next period at once, and nobody else wants them.
"""

import queue
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from random import Random
from types import MappingProxyType
from typing import ClassVar

from game.ledger import Ledger
from game.reference.table import CREATED, Listed, Table
from game.rules import PREPARE, WORK
from standfast.errors import ConfigurationError

LEAD = (0.3, 1.7)
"""Seconds before its time that a job is locked, at random."""

MARGIN = 0.3
"""Seconds that a look goes beyond the next one, which may be a little late."""

FENCE = 1
"""A lock of the table is never given back, so there is no second one."""

OpenTable = Callable[[], Table]


class Strategy:
    """Derive from this class and write `play` to enter a strategy of your own.

    `open_table()` gives a thread its connection to the table: `list_ready(ahead)`, `look(job)`, `lock(job)`.
    `number` counts the instances from 1 to `instances`. `period` is in seconds.
    """

    threads: ClassVar[int] = 50
    """How many jobs `waiting_room` holds at once."""

    def __init__(
        self,
        open_table: OpenTable,
        ledger: Ledger,
        stop: threading.Event,
        *,
        period: float = PREPARE,
        number: int = 1,
        instances: int = 1,
    ) -> None:
        self.open_table = open_table
        self.stop = stop
        self.period = period
        self.number = number
        self.instances = instances
        self._ledger = ledger

    def play(self) -> None:
        """Play until `stop` is set, and end what was locked."""
        raise NotImplementedError

    def run(self, table: Table, job: Listed) -> None:
        """Do the work of a locked job, and complete it. Waits for the job's time first."""
        while (left := job.run_at - time.time()) > 0:
            time.sleep(left)
        self._ledger.start(job.id, FENCE)
        time.sleep(WORK)
        self._ledger.end(job.id, FENCE)
        table.complete(job.id)

    @contextmanager
    def waiting_room(self) -> Iterator[Callable[[Listed], None]]:
        """Give a function that takes locked jobs and runs each at its time, in threads; wait for all in the end."""
        locked: queue.SimpleQueue[Listed | None] = queue.SimpleQueue()
        threads = [threading.Thread(target=self._run_locked, args=(locked,)) for _ in range(self.threads)]
        for thread in threads:
            thread.start()
        try:
            yield locked.put
        finally:
            for _ in threads:
                locked.put(None)
            for thread in threads:
                thread.join()

    def _run_locked(self, locked: "queue.SimpleQueue[Listed | None]") -> None:
        table = self.open_table()
        while (job := locked.get()) is not None:
            self.run(table, job)


class Naive(Strategy):
    """Poll, lock and run, one job after the other."""

    def play(self) -> None:
        """Play until told to stop."""
        table = self.open_table()
        while not self.stop.is_set():
            ready = table.list_ready()
            for job in ready:
                if self.stop.is_set():
                    return
                if table.lock(job.id):
                    self.run(table, job)
            if not ready:
                self.stop.wait(self.period)


class Lookahead(Strategy):
    """Fetch ahead, lock early, start on time."""

    threads = 10

    def play(self) -> None:
        """Play until told to stop."""
        random = Random()
        table = self.open_table()
        with self.waiting_room() as give:
            while not self.stop.is_set():
                began = time.monotonic()
                for job in table.list_ready(self.period):
                    if self.stop.wait(max(0.0, job.run_at - random.uniform(*LEAD) - time.time())):
                        return
                    if table.look(job.id) == CREATED and table.lock(job.id):
                        time.sleep(max(0.0, job.run_at - time.time()))
                        give(job)
                self.stop.wait(max(0.0, began + self.period - time.monotonic()))


class Separate(Strategy):
    """Look in turn, by the clock, and lock all that is found."""

    def play(self) -> None:
        """Play until told to stop. The first look is at the start: whose turn it is may not be there yet."""
        table = self.open_table()
        circle = self.period * self.instances
        turn = time.time() + (self.period * self.number - time.time()) % circle
        with self.waiting_room() as give:
            while not self.stop.is_set():
                for job in table.list_ready(self.period + MARGIN):
                    if table.lock(job.id):
                        give(job)
                self.stop.wait(max(0.0, turn - time.time()))
                turn += circle


STRATEGIES: Mapping[str, type[Strategy]] = MappingProxyType(
    {"naive": Naive, "lookahead": Lookahead, "separate": Separate}
)


def find_strategy(name: str) -> type[Strategy]:
    """Return the class of a strategy: one of ours by its name, or MODULE:CLASS. Raises ConfigurationError."""
    if name in STRATEGIES:
        return STRATEGIES[name]
    module, _, attribute = name.partition(":")
    found = getattr(import_module(module), attribute, None)
    if isinstance(found, type) and issubclass(found, Strategy) and found.play is not Strategy.play:
        return found
    wrong = "no class" if not isinstance(found, type) else "a class that is no strategy"
    raise ConfigurationError(
        f"{module} has {wrong} named {attribute!r}: derive a class from game.reference.Strategy"
        " and write its play()"
    )
