"""When fewer jobs run at a time so that requests are served in time, and when more again. Pure.

        strained: half of it, at once                    calm for a while: one step more
    most ──────────────────────────► … ──► lowest ──► … ──────────────────────────────► most

Between strained and calm lies a span in which nothing changes. Each time that it was too much after all, it has to
be calm for twice as long before the next step: requests are not slowed down again and again for a trial.
"""

from collections.abc import Sequence
from enum import IntEnum

SHARE = 0.05
"""The part of what was measured that may be over the limit."""

FEW = 2
"""So many must be, or it was an outlier."""

CALM = 0.5
"""The part of the limit below which all is calm."""

SETTLING = 1.0
"""Seconds that a lower number is given to show in what is measured."""

PATIENCE = 2.0
LONGEST_PATIENCE = 60.0
"""Seconds of calm before a step up: at first, and at most."""

STEPS = 8
"""In how many steps, at most, it goes from nothing to all."""


class Strain(IntEnum):
    """How the host does, from what was measured of it lately."""

    CALM = 0
    FAIR = 1
    STRAINED = 2


def strain_of(measured: Sequence[float], limit: float) -> Strain:
    """Return how the host does by one kind of measurement; of nothing, it is calm."""
    if _many_above(limit, measured):
        return Strain.STRAINED
    return Strain.FAIR if _many_above(limit * CALM, measured) else Strain.CALM


def _many_above(limit: float, measured: Sequence[float]) -> bool:
    above = sum(each > limit for each in measured)
    return above >= FEW and above > SHARE * len(measured)


class Adapting:
    """The number of attempts that may run at a time, from `lowest` to `most`. Times are seconds of any clock."""

    def __init__(self, most: int, lowest: int, now: float) -> None:
        self._most = most
        self._lowest = min(lowest, most)
        self._step = max(1, most // STEPS)
        self._patience = PATIENCE
        self._calm_since: float | None = now
        self.limit = most
        self.changed_at = now
        """When it last changed: what was measured before says nothing of how it is now."""

    def judge(self, strain: Strain, running: int, now: float) -> bool:
        """Set the number by how the host does while so many run; tell whether it changed."""
        before = self.limit
        if strain is not Strain.CALM:
            self._calm_since = None
        elif self._calm_since is None:
            self._calm_since = now
        if strain is Strain.STRAINED and now - self.changed_at >= SETTLING:
            self._lower(running)
        elif self._calm_since is not None and now - max(self._calm_since, self.changed_at) >= self._patience:
            if self.limit == self._most:  # only now: that it has come so far does not show that it is not too much
                self._patience = PATIENCE
            self.limit = min(self._most, self.limit + self._step)
        if self.limit == before:
            return False
        self.changed_at = now
        return True

    def _lower(self, running: int) -> None:
        """Halve what may run, or what does where that is less: to allow fewer than nobody uses changes nothing."""
        lower = max(self._lowest, min(self.limit, running) // 2)
        if lower < self.limit:
            self.limit = lower
            self._patience = min(2 * self._patience, LONGEST_PATIENCE)
