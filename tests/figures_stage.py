"""Workers that count, publish and fold on a store in memory, one verb at a time."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta

from standfast.model.job import Claim, ClaimRef, Ending, Verdict
from standfast.model.records import Kind
from standfast.model.states import Move
from standfast.observe.figures.counts import Tally
from standfast.observe.figures.histogram import LAST
from standfast.observe.figures.publisher import Publisher
from standfast.observe.figures.rollup import Folded, fold_due, read_rollup
from standfast.observe.figures.series import Figures, Series, read_figures
from standfast.stores.memory.store import MemoryBackend
from standfast.stores.verb import run_procedure
from standfast.testing import FakeClock

HOUR = timedelta(hours=1)


def bucket_of(milliseconds: float) -> int:
    """Return the bucket of a span; `Tally.count` has this in line, as a call more costs every job."""
    return min(int(milliseconds * milliseconds).bit_length(), LAST) if milliseconds > 0 else 0


@dataclass(frozen=True)
class Ended:
    """What a completer hands to the tally."""

    claim: Claim
    ending: Ending
    seconds: float = 0.0


def ended(clock, move=Move.COMPLETE, *, task="send", queue="mail", seconds=0.1, late=0.01) -> Ended:
    now = clock.now()
    ref = ClaimRef("job", 1)
    claim = Claim(ref, task, 1, b"{}", queue, 0, now - timedelta(seconds=late), 0, 0, 5)
    return Ended(claim, Ending(ref, move, started_at=now), seconds)


def count(tally: Tally, ends: Iterable[Ended]) -> None:
    ends = list(ends)
    tally.count(ends, [Verdict.ACCEPTED] * len(ends))


def numbers(figures: Figures) -> dict[str, int]:
    """Return the counts of figures that are not zero."""
    names = ("completed", "failed", "dead", "cancelled", "given_back")
    return {name: getattr(figures, name) for name in names if getattr(figures, name)}


class Stage:
    """A store, a clock, and workers."""

    def __init__(self, backend=None, clock=None) -> None:
        self.clock = clock or FakeClock()
        self.backend = backend or MemoryBackend(self.clock)
        self.verbs = self.backend.verbs
        self.workers: dict[str, tuple[Tally, Publisher]] = {}

    async def run(self, verb):
        """Run a verb without an event loop of the store's own."""
        return self.backend.run(verb)

    def worker(self, name: str = "w1") -> Tally:
        if name not in self.workers:
            tally = Tally(self.clock)
            self.workers[name] = tally, Publisher(tally, name, self.verbs, self.run)
        return self.workers[name][0]

    def count(self, *moves: Move, worker: str = "w1", **how) -> None:
        count(self.worker(worker), [ended(self.clock, move, **how) for move in moves])

    async def publish(self) -> None:
        for _, publisher in self.workers.values():
            await publisher.publish()

    def fold(self) -> Folded:
        """Fold all that is due."""
        folded = run_procedure(self.backend.run, fold_due(self.verbs))
        while folded.more:
            folded = run_procedure(self.backend.run, fold_due(self.verbs))
        return folded

    def read(self, span: timedelta = HOUR, **how) -> Series:
        return run_procedure(self.backend.run, read_figures(self.verbs, self.clock.now() - span, **how))

    def records(self, kind: Kind = Kind.FIGURES) -> Counter[str]:
        """Return how many records there are of each length that tell of jobs."""
        records = self.backend.run(self.verbs.records(kind))
        return Counter(record.name.partition(".")[0] for record in records if read_rollup(record).rows)
