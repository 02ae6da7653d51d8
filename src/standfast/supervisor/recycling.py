"""Which child is to be replaced next, and why. Pure.

One at a time: of all that are due the most urgent comes first, and of those the oldest. Children of one supervisor
are as a rule equally old and have done equally much, so each gets its own share of `SPREAD` on top of these limits.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import IntEnum

from standfast.schedule.recycle import NO_RULES, RecycleRules
from standfast.settings import Settings
from standfast.words import in_bytes

ORDER = "recycle"
"""What an order to replace a worker says."""

SPREAD = 0.1
"""By how much of the limit children of one age, or with as many jobs behind them, may differ when they go."""

TOO_MUCH = 1.5
"""So many times its limit of memory, and a child is replaced whatever other machines do."""

ROOM = 1.5
"""One that takes more than its limit from the start is replaced when it takes so many times what it began with."""


class Urgency(IntEnum):
    """Why a child is to be replaced, the most urgent first."""

    FILE_CHANGED = 0
    MEMORY = 1
    COMMAND = 2
    RELOAD = 3
    TIME = 4
    JOBS = 5
    AGE = 6


@dataclass(frozen=True, slots=True)
class Wear:
    """How worn a working child is. `memory`, and what it `began_with`, are bytes, None where nobody looks.

    `spread` is its own, from 0 to 1.
    """

    worker: str
    age: float
    started_at: datetime
    ended: int = 0
    memory: int | None = None
    began_with: int | None = None
    spread: float = 0.0


@dataclass(frozen=True, slots=True)
class Wish:
    """Somebody wants a child replaced; `force`: also inside a window that forbids it."""

    urgency: Urgency
    words: str
    force: bool = False


@dataclass(frozen=True, slots=True)
class Due:
    """A child that is to be replaced; `alone`: only if no other machine is about it."""

    worker: str
    urgency: Urgency
    words: str
    alone: bool = True


@dataclass(frozen=True, slots=True)
class Limits:
    """When a child has lived long enough."""

    settings: Settings
    rules: RecycleRules = NO_RULES

    def due(self, children: Sequence[Wear], wishes: Mapping[str, Wish], now: datetime) -> list[Due]:
        """Return who is to be replaced, the most urgent first; in a forbidden window only who has to by force."""
        found: list[tuple[Urgency, float, Due]] = []
        forbidden = self.rules.forbidden_until(now) is not None
        for child in children:
            wish = wishes.get(child.worker)
            if forbidden and (wish is None or not wish.force):
                continue
            reasons = list(self._reasons(child, now))
            if wish is not None:
                alone = wish.urgency is not Urgency.FILE_CHANGED
                reasons.append(Due(child.worker, wish.urgency, wish.words, alone=alone))
            if reasons:
                first = min(reasons, key=lambda due: due.urgency)
                found.append((first.urgency, -child.age, first))
        return [due for *_, due in sorted(found, key=lambda each: each[:2])]

    def _reasons(self, child: Wear, now: datetime) -> Iterator[Due]:
        settings, more = self.settings, 1 + SPREAD * child.spread
        memory = self.memory_for(child)
        if memory is not None and child.memory is not None and child.memory > memory:
            words = f"{in_bytes(child.memory)} of memory exceed recycle_memory, which is {in_bytes(memory)}"
            yield Due(child.worker, Urgency.MEMORY, words, alone=child.memory <= TOO_MUCH * memory)
        if self.rules.due(child.started_at, now):
            yield Due(child.worker, Urgency.TIME, "the time for it has come")
        if settings.recycle_jobs is not None and child.ended >= settings.recycle_jobs * more:
            words = f"it has ended {child.ended:,} attempts, and recycle_jobs is {settings.recycle_jobs:,}"
            yield Due(child.worker, Urgency.JOBS, words)
        if settings.recycle_age is not None and child.age >= settings.recycle_age * more:
            words = f"it is {child.age:.0f} s old, and recycle_age is {settings.recycle_age:g} s"
            yield Due(child.worker, Urgency.AGE, words)

    def memory_for(self, child: Wear) -> int | None:
        """Return how much memory a child may take, if there is a limit."""
        limit = self.settings.recycle_memory
        if limit is None or child.began_with is None or child.began_with <= limit:
            return limit
        return int(ROOM * child.began_with)
