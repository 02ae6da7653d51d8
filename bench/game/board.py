"""The published runs of 2019, and where a run of today would stand among them; and a board of one's own runs.

`board.csv` has the facts of all 99. Those that broke the rules (unfinished, early or late jobs) rank nobody.
"""

import csv
from collections.abc import Iterable, Sequence
from datetime import datetime
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Self

import msgspec

from game.counted.lines import append_line, read_lines
from standfast.errors import ConfigurationError


class Published(msgspec.Struct, frozen=True):
    """One run. `mode` is HATEST, or WORKERS with the number of instances."""

    runner: str
    mode: str
    lists: int
    lost: int
    reads: int
    created: int
    completed: int
    mean: float
    stdev: float
    late: int
    early: int
    cost: int
    efficient: float

    @property
    def keeps_the_rules(self) -> bool:
        """Whether all jobs were run, none early and none late."""
        return self.created == self.completed and not self.early and not self.late


class Place(msgspec.Struct, frozen=True):
    """A rank among runs, this one included."""

    rank: int
    of: int


class Standing(msgspec.Struct, frozen=True):
    """Where a run would stand: among all published runs that kept the rules, and among those of its mode."""

    mode: str
    cost: Place
    efficient: Place
    cost_in_mode: Place | None
    efficient_in_mode: Place | None
    better_in_both: int
    """How many published runs, of any mode, are better in one score and no worse in the other."""

    @classmethod
    def of(cls, mode: str, cost: int, efficient: float) -> Self:
        """Return the standing of a run."""
        board = [run for run in published() if run.keeps_the_rules]
        alike = [run for run in board if run.mode == mode]
        return cls(
            mode=mode,
            cost=_place(cost, [run.cost for run in board]),
            efficient=_place(efficient, [run.efficient for run in board]),
            cost_in_mode=_place(cost, [run.cost for run in alike]) if alike else None,
            efficient_in_mode=_place(efficient, [run.efficient for run in alike]) if alike else None,
            better_in_both=sum(
                run.cost <= cost and run.efficient <= efficient and (run.cost, run.efficient) != (cost, efficient)
                for run in board
            ),
        )


@cache
def published() -> tuple[Published, ...]:
    """Return all published runs."""
    text = resources.files(__package__).joinpath("board.csv").read_text()
    rows = list(csv.DictReader(text.splitlines()))
    return tuple(msgspec.convert(rows, list[Published], strict=False))


class OwnRun(msgspec.Struct, frozen=True):
    """One strategy's game on a board of one's own: a line of its file, so all values are plain."""

    played_at: datetime
    strategy: str
    mode: str
    duration: float
    seed: int
    period: float
    comparable: bool
    cost: int
    efficient: float | None
    mean: float | None
    stdev: float | None
    lists: int
    lost: int
    reads: int
    jobs: int
    completed: int
    early: int
    late: int
    restarted: int
    doubled: int

    @property
    def keeps_the_rules(self) -> bool:
        """Whether all jobs were run, none early, none late and none twice."""
        return self.completed == self.jobs and not (self.early or self.late or self.doubled)

    @property
    def standing(self) -> Standing | None:
        """Where it stands among the published runs; None if it is no such game or broke the rules."""
        if not self.comparable or not self.keeps_the_rules or self.efficient is None:
            return None
        return Standing.of(self.mode, self.cost, self.efficient)


def append_runs(path: Path, runs: Iterable[OwnRun]) -> None:
    """Add runs to a board, each with one write: several games may end at once."""
    for run in runs:
        append_line(path, msgspec.json.encode(run))


def read_runs(path: Path) -> list[OwnRun]:
    """Return the runs of a board, the cheapest first, those that compare with the published ones before others."""
    runs: list[OwnRun] = []
    for number, line in enumerate(read_lines(path), 1):
        try:
            runs.append(msgspec.json.decode(line, type=OwnRun))
        except msgspec.DecodeError as error:
            raise ConfigurationError(f"line {number} of {path} is not a run: {error}; remove the line") from error
    return sorted(runs, key=lambda run: (not run.comparable, run.cost, run.efficient or 0.0))


def _place(value: float, others: Sequence[float]) -> Place:
    return Place(1 + sum(other < value for other in others), len(others) + 1)
