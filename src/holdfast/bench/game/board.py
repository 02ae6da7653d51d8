"""The published runs of 2019, and where a run of today would stand among them.

`board.csv` has the facts of all 99. Those that broke the rules (unfinished, early or late jobs) rank nobody.
"""

import csv
from collections.abc import Sequence
from functools import cache
from importlib import resources
from typing import Self

import msgspec


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


def _place(value: float, others: Sequence[float]) -> Place:
    return Place(1 + sum(other < value for other in others), len(others) + 1)
