"""Folds figures when they are due, for the whole fleet, and counts what supervisors see: jobs that die, deliveries.

A beat tells when a record is due. Whoever has the first turn looks on the moment; the others only when that was
missed for some time, one after the other. Should two look at the same time, one of them folds.
"""

import asyncio
import logging
import math
from collections.abc import Callable

from standfast.errors import StandfastError, StoreError
from standfast.events import Event, JobDied
from standfast.model.clock import Clock
from standfast.model.concurrency import Wakeup
from standfast.model.job import Verdict
from standfast.model.states import Move
from standfast.observe.figures.counts import Ended, Tally
from standfast.observe.figures.publisher import Publisher
from standfast.observe.figures.rollup import fold_due
from standfast.stores.values import BeatAnswer
from standfast.stores.verb import arun_procedure
from standfast.worker.storecalls import StoreCalls, StoreClock

log = logging.getLogger(__name__)

MISSED_AFTER = 10.0
"""Seconds after which the second of the fleet looks in the place of the first; the third after twice as many."""

REST = 15.0  # seconds between two looks at least: less than a minute, so that none is missed
LONG_REST = 60.0  # seconds after a look that found nothing: what is due is some other record


class FigureKeeper:
    """The figures, as one supervisor sees to them."""

    def __init__(
        self, calls: StoreCalls, clock: Clock, source: str, tally: Callable[[Clock], Tally] = Tally
    ) -> None:
        self._calls = calls
        self._clock = clock
        self._store_clock = StoreClock(clock)
        self._tally = tally(self._store_clock)
        self.publisher = Publisher(self._tally, source, calls.verbs, calls.once)
        """Writes down what was counted here."""
        self._look_at = math.inf
        self._rest_until = -math.inf
        self._wakeup = Wakeup()

    def heed(self, answer: BeatAnswer) -> None:
        """Learn from a beat when to look."""
        boot = self._clock.boot()
        self._store_clock.learn(boot, answer.now, boot)
        self._look_at = math.inf
        if not answer.turns or answer.record_due_at is None:
            return
        due_in = (answer.record_due_at - answer.now).total_seconds()
        rank = min(turn.rank for turn in answer.turns.values())
        self._look_at = max(boot + due_in + MISSED_AFTER * rank, self._rest_until)
        self._wakeup.call()

    def hear(self, event: Event) -> None:
        """Count a job of which a supervisor tells that it died."""
        if isinstance(event, JobDied):
            self._tally.count_dead(event.queue, event.task)

    def count(self, ended: Ended, verdict: Verdict) -> None:
        """Count how an attempt of the supervisor itself has ended; that its job died is heard, as of any other."""
        if ended.ending.move is not Move.DIE or verdict is Verdict.STALE:
            self._tally.count([ended], [verdict])

    async def run(self) -> None:
        """Fold whenever it is due."""
        while True:
            while (wait := self._look_at - self._clock.boot()) > 0:
                await self._wakeup.rest(None if math.isinf(wait) else wait)
            self._look_at = math.inf
            found = await self._fold_all()
            self._rest_until = self._clock.boot() + (REST if found else LONG_REST)

    async def _fold_all(self) -> bool:
        """Fold all that is due; tell whether there was anything."""
        found = False
        try:
            while True:
                folded = await arun_procedure(self._calls.once, fold_due(self._calls.verbs))
                found = found or bool(folded.parts or folded.windows)
                if not folded.more:
                    return found
                await asyncio.sleep(0)
        except StoreError as error:
            log.debug("figures could not be folded, which is tried again: %s", error)
        except StandfastError:
            log.exception("figures could not be folded; this is tried again")
        return True
