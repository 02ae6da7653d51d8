"""Which queues a worker serves, how it shares itself among them, and the options of `standfast worker`."""

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from standfast.errors import ConfigurationError
from standfast.model.job import Claim
from standfast.model.validation import queue_problems
from standfast.observe.logs.levels import LogOptions

Named = tuple[tuple[str, int | None], ...]  # queues as they were named, each with its weight if it has one


@dataclass(frozen=True, slots=True)
class ServedQueues:
    """These queues and no others: by their weights, one for each; or, without weights, strictly in this order."""

    names: tuple[str, ...]
    weights: tuple[int, ...] | None = None

    @classmethod
    def by_weight(cls, named: Named) -> "ServedQueues":
        """Return these queues by their weights, 1 where none is given."""
        return cls(tuple(name for name, _ in named), tuple(weight or 1 for _, weight in named))


def read_queues(value: str, example: str) -> Named:
    """Return the queues that a text names, as in `critical=6,mail=3`. Raises ConfigurationError with an example."""
    named: dict[str, int | None] = {}
    for part in value.split(","):
        name, equals, weight = (word.strip() for word in part.partition("="))
        if not name:
            raise ConfigurationError(f"'{value}' has an empty name in it; write e.g. {example}")
        for problem in queue_problems(name):
            raise ConfigurationError(f"{problem}; no job can be there")
        if equals and not re.fullmatch(r"0*[1-9][0-9]{0,5}", weight):
            raise ConfigurationError(
                f"the weight of '{name}' must be a whole number from 1 to 999999, not '{weight}'; write e.g."
                f" {example}"
            )
        if name in named:
            raise ConfigurationError(f"'{value}' names '{name}' twice; name each queue once")
        named[name] = int(weight) if equals else None
    return tuple(named.items())


# A queue's credit is how many jobs it is owed: its part, by weight, of what the queues with jobs gave together,
# less what it gave. So the proportion is kept in the long run, also by a worker that asks for one job at a time. A
# queue that gave less than its share is idle: it has no credit and is asked for one job, which costs nothing, as
# unused shares go to others.


class Division(NamedTuple):
    """One claim call divided: the queues in the order in which what is left over goes to them, and their shares."""

    queues: tuple[str, ...]
    shares: tuple[int, ...]


class FairShares:
    """Divides claim calls among queues, and learns from what each brought."""

    def __init__(self, weights: Mapping[str, int]) -> None:
        self._weights = weights
        self._credit = dict.fromkeys(weights, 0.0)
        self._idle: list[str] = []
        self._asked: dict[str, int] = {}

    def divide(self, limit: int) -> Division:
        """Return how to ask for so many jobs."""
        asked_first = self._idle[:limit]
        self._idle = [*self._idle[limit:], *asked_first]  # in turn, where there are more of them than jobs wanted
        rest = limit - len(asked_first)
        shares = _in_whole_jobs(self._owed(rest), rest)
        self._asked = {**shares, **{queue: int(queue in asked_first) for queue in self._idle}}
        order = (*sorted(shares, key=lambda queue: self._ahead(queue, limit)), *self._idle)
        return Division(order, tuple(self._asked[queue] for queue in order))

    def learn(self, given: Mapping[str, int]) -> None:
        """Take note of how many due jobs each queue gave to the call that was divided last."""
        exhausted = [queue for queue, share in self._asked.items() if given.get(queue, 0) < share]
        woken = [queue for queue in self._idle if given.get(queue, 0) > 0]
        going_on = {queue: credit for queue, credit in self._credit.items() if queue not in exhausted}
        had = sum(given.get(queue, 0) - credit for queue, credit in going_on.items())
        weight = sum(self._weights[queue] for queue in going_on)
        self._credit = {
            queue: credit + had * self._weights[queue] / weight - given.get(queue, 0)
            for queue, credit in going_on.items()
        }
        self._credit.update(dict.fromkeys(woken, 0.0))
        if not self._credit:  # of none is it known that it has jobs: all are equal again
            self._credit = dict.fromkeys(self._weights, 0.0)
        still_idle = [queue for queue in self._idle if queue not in self._credit]
        self._idle = [*still_idle, *(queue for queue in exhausted if queue not in {*still_idle, *self._credit})]

    def _ahead(self, queue: str, limit: int) -> tuple[float, int]:
        """Return how far a queue is ahead with its share; what is left over goes to who is least ahead."""
        weight = self._weights[queue]
        part = limit * weight / sum(self._weights[each] for each in self._credit)
        return self._asked[queue] - self._credit[queue] - part, -weight

    def _owed(self, limit: int) -> dict[str, float]:
        """Return what each queue that has jobs should give: its part by weight and its credit, never below 0."""
        owed = dict.fromkeys(self._credit, 0.0)
        takers = list(self._credit)
        while takers:
            spare = limit - sum(self._credit[queue] for queue in takers)
            weight = sum(self._weights[queue] for queue in takers)
            part = {queue: self._credit[queue] + spare * self._weights[queue] / weight for queue in takers}
            positive = [queue for queue in takers if part[queue] > 0]
            if len(positive) == len(takers):
                return owed | part
            takers = positive
        return owed


def interleaved(claims: Sequence[Claim]) -> list[Claim]:
    """Return what a call brought with each queue's jobs spread evenly over it, and in their own order."""
    given = Counter(claim.queue for claim in claims)
    seen: Counter[str] = Counter()
    places: list[tuple[float, Claim]] = []
    for claim in claims:
        seen[claim.queue] += 1
        places.append(((seen[claim.queue] - 0.5) / given[claim.queue], claim))
    return [claim for _, claim in sorted(places, key=lambda place: place[0])]


def _in_whole_jobs(owed: Mapping[str, float], limit: int) -> dict[str, int]:
    """Round so that the sum is the limit: the largest remainders are rounded up."""
    shares = {queue: math.floor(part) for queue, part in owed.items()}
    missing = limit - sum(shares.values())
    by_remainder = sorted(owed, key=lambda queue: shares[queue] - owed[queue])
    for queue in by_remainder[:missing]:
        shares[queue] += 1
    return shares


@dataclass(frozen=True, slots=True)
class MetricsOptions:
    """Where metrics are served, and who may ask for them: the networks, and anybody with the token."""

    host: str
    port: int
    token: str | None = field(default=None, repr=False)
    networks: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class WorkerOptions:
    """The command line, parsed; None leaves the matter to the app's settings. Spans are seconds.

    target: the app as MODULE:APP; app_dir: where MODULE is looked for first; queues: only these, by weight
    or in the order given; concurrency: jobs at a time in each of `processes` children; drain: stop when nothing is
    left to do; logs: what is told on stderr; reload: replace the children when the code of the app changes;
    alive_file: touched every few seconds while a child is ready; metrics: where they are served;
    metrics_dir: the folder in which children count for metrics that are served elsewhere.
    """

    target: str
    drain: bool
    processes: int
    concurrency: int | None
    queues: ServedQueues | None
    grace: float | None
    lease: float | None
    app_dir: str
    url: str | None
    logs: LogOptions
    reload: bool = False
    alive_file: Path | None = None
    metrics: MetricsOptions | None = None
    metrics_dir: str | None = None
