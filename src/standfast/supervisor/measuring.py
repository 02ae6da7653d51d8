"""What a supervisor measures itself for alerts: how fast its store answers, and what it finds on the premises."""

import math
from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import replace
from statistics import median
from typing import Any

from standfast.alerts.pace import AFTER_FAILURE
from standfast.alerts.scout import Here
from standfast.clock import Clock
from standfast.core.alert import AlertRule, Check
from standfast.store.verb import Verb
from standfast.supervisor.premises import Survey

CALLS = 20
"""Of how many of the last calls the median is taken."""

LEAST_CALLS = 5

EXAMINED_EVERY = 60.0
"""Seconds between two looks at the premises."""

Run = Callable[[Verb[Any]], Awaitable[Any]]


class Measures:
    """The measurements of one supervisor. `survey` looks at the premises; None: nobody does."""

    def __init__(self, clock: Clock, survey: Survey | None = None) -> None:
        self._clock = clock
        self._survey = survey
        self._took: deque[float] = deque(maxlen=CALLS)
        self._was_full: bool | None = None
        self.due_at = math.inf if survey is None else -math.inf
        """When, by the boot clock, the premises are to be looked at again."""

    @property
    def store_seconds(self) -> float | None:
        """How long the store takes to answer, as the median of the last calls; None before there were some."""
        return median(self._took) if len(self._took) >= LEAST_CALLS else None

    def timed(self, run: Run) -> Run:
        """Return a way to run verbs that notes how long each takes."""

        async def once(verb: Verb[Any]) -> Any:
            began_at = self._clock.boot()
            try:
                return await run(verb)
            finally:
                self._took.append(self._clock.boot() - began_at)

        return once

    async def examine(self, here: Here) -> Here:
        """Return what is known here, with what is found on the premises, if anything is."""
        found = None if self._survey is None else await self._survey()
        return here if found is None else replace(here, findings=found.findings, disks=found.disks)

    def is_news(self, here: Here, rules: Iterable[AlertRule]) -> bool:
        """Tell whether the fleet may not know how full the disks of this machine are: they are, or were, too full.

        How they were before the first look, this process does not know.
        """
        is_full = _is_full(here, rules)
        return is_full is not None and (is_full or self._was_full is not False)

    def told(self, here: Here, rules: Iterable[AlertRule]) -> None:
        """Look again later: the fleet knows of this."""
        is_full = _is_full(here, rules)
        self._was_full = self._was_full if is_full is None else is_full
        self.due_at = self._clock.boot() + EXAMINED_EVERY

    def not_told(self) -> None:
        """Look again soon: the fleet could not be told."""
        self.due_at = self._clock.boot() + AFTER_FAILURE


def _is_full(here: Here, rules: Iterable[AlertRule]) -> bool | None:
    """Tell whether a disk is fuller than a rule allows; None where nobody knows, or asks."""
    limits = [rule.above or 0.0 for rule in rules if rule.check is Check.DISK_FULL and rule.enabled]
    if here.disks is None or not limits:
        return None
    return any(share > min(limits) for share in here.disks.values())
