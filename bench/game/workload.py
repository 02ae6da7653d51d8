"""The jobs of a game: when each is created and due, in seconds from the start. Pure, and the same for a seed.

t = 0        since                                   until          end
  │  warm-up   │  jobs are due                          │  the last   │
  │            │  every 3 s, bursts every 13 s, random  │  ones end   │
  └─ live: one is created every 1 to 3 s, for 10.1 s later ─┘
"""

from itertools import accumulate
from random import Random

import msgspec

from game.rules import PREPARE, REAL_DURATION

WARM_UP = 30.0
SHORTEST_WARM_UP = 11.0
"""No job may be created less than 10 s ahead, however short the game is."""

STEADY_PERIOD = 3.0
BURST_PERIOD = 13.0
BURST = 20
GAPS = range(1000, 3000)
"""Milliseconds between two jobs of a random stream."""

LIVE_AHEAD = 10.1
"""Seconds that a live job is created ahead of its time."""

REST = 19.0
"""Seconds between the last job's time and the end: as long as it is in the real game, which ends at 660 s."""


class Workload(msgspec.Struct, frozen=True):
    """What is due when.

    `planned` are the times of the jobs that are there from the start; `live` is when each of the others is created.
    """

    since: float
    until: float
    end: float
    planned: tuple[float, ...]
    live: tuple[float, ...]

    @property
    def jobs(self) -> int:
        """How many there are."""
        return len(self.planned) + len(self.live)


def make_workload(duration: float, seed: int) -> Workload:
    """Return the jobs of a game in which they are due over so many seconds."""
    since = max(WARM_UP * min(1.0, duration / REAL_DURATION), SHORTEST_WARM_UP)
    until = since + duration
    steady = _periodic(since, until, STEADY_PERIOD)
    bursts = [at for at in _periodic(since, until, BURST_PERIOD) for _ in range(BURST)]
    scattered = _random(since, until, Random(f"scattered {seed}"))
    live = _random(0.0, until - PREPARE, Random(f"live {seed}"))
    planned = tuple(sorted([*steady, *bursts, *scattered]))
    last = max([*planned[-1:], *(at + LIVE_AHEAD for at in live[-1:])])
    # In the real game the last burst, 611 s after `since`, comes after all else.
    return Workload(since=since, until=until, end=round(last + REST, 3), planned=planned, live=tuple(live))


def _periodic(since: float, until: float, period: float) -> list[float]:
    """Return times from one period after `since` on, up to the first that is not before `until`: as published."""
    times = [since + period]
    while times[-1] < until:
        times.append(since + period * (len(times) + 1))
    return times


def _random(since: float, until: float, random: Random) -> list[float]:
    """Return times with random gaps from `since` on, up to the first that is not before `until`."""
    gaps: list[float] = []
    at = since
    while at < until:
        gaps.append(random.choice(GAPS) / 1000)
        at += gaps[-1]
    return [round(at, 3) for at in accumulate(gaps, initial=since)][1:]
