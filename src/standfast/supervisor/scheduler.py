"""Fires schedules when they are due. Every supervisor may; of several who come at the same time one does.

A beat tells when the next schedule is due. That is `look_ahead` before its time, as a rule: so whoever beats first
after that fires it, and a beat later is early enough. Only where the time itself must be met, because a run before
it is not over, one of the fleet has to be there on the moment: the one that has the first turn. Should it die, the
next beat of any other finds the schedule overdue.
"""

import asyncio
import logging
from collections.abc import Iterator
from datetime import datetime, timedelta

from standfast.errors import StoreError
from standfast.events import Events, ScheduleEvent, ScheduleFired, ScheduleMissed, SchedulePaused, ScheduleSkipped
from standfast.model.clock import Clock
from standfast.model.concurrency import Wakeup
from standfast.model.records import Decision, Fire
from standfast.schedules.fires import Fired, fire_due
from standfast.stores.values import BeatAnswer
from standfast.stores.verb import arun_procedure
from standfast.worker.storecalls import StoreCalls

log = logging.getLogger(__name__)


class Firing:
    """The schedules, as one supervisor sees to them."""

    def __init__(self, calls: StoreCalls, clock: Clock, events: Events, ahead: timedelta) -> None:
        self._calls = calls
        self._clock = clock
        self._events = events
        self._ahead = ahead
        self._first = False
        self._look_at: float | None = None
        self._wakeup = Wakeup()
        self._told = set[str]()

    def heed(self, answer: BeatAnswer) -> None:
        """Learn from a beat when to look, and whether to be there on the moment."""
        self._first = any(turn.rank == 0 for turn in answer.turns.values())
        self._look_at = None
        if answer.turns and answer.record_due_at is not None:
            self._plan_look(answer.record_due_at, answer.now)

    async def run(self) -> None:
        """Look at the schedules whenever they are due."""
        pauses = self._calls.pauses()
        while True:
            await self._until_due()
            self._look_at = None
            try:
                fired = await arun_procedure(self._calls.once, fire_due(self._calls.verbs, self._ahead))
            except Exception as error:
                if not isinstance(error, StoreError):
                    log.exception("schedules could not be fired; this is tried again")
                await asyncio.sleep(pauses.next())  # the next beat tells whether something is still due
                continue
            pauses.reset()
            self._tell(fired)
            if fired.next_due_at is not None:
                self._plan_look(fired.next_due_at, fired.now)

    def _tell(self, fired: Fired) -> None:
        for event in events_of(fired):
            self._events.emit(event)
        for trouble in fired.troubles:
            if trouble not in self._told:
                self._told.add(trouble)
                log.warning("%s", trouble)

    def _plan_look(self, due_at: datetime, now: datetime) -> None:
        due_in = (due_at - now).total_seconds()
        if due_in <= 0 or self._first:
            look_at = self._clock.boot() + max(due_in, 0.0)
            self._look_at = look_at if self._look_at is None else min(look_at, self._look_at)
            self._wakeup.call()

    async def _until_due(self) -> None:
        while self._look_at is None or self._clock.boot() < self._look_at:
            await self._wakeup.rest(None if self._look_at is None else self._look_at - self._clock.boot())


def events_of(fired: Fired) -> Iterator[ScheduleEvent]:
    """Yield what is told of a look at the schedules."""
    for schedule in fired.paused:
        yield SchedulePaused(schedule.name, schedule.plan.paused_why or "")
    for fire in fired.fires:
        yield _event_of(fire)


def _event_of(fire: Fire) -> ScheduleEvent:
    match fire.decision:
        case Decision.FIRED:
            return ScheduleFired(fire.schedule, fire.planned, fire.job_id or "")
        case Decision.CAUGHT_UP | Decision.MISSED:
            return ScheduleMissed(fire.schedule, fire.planned, fire.count, fire.job_id, fire.note or "")
        case _:
            return ScheduleSkipped(fire.schedule, fire.planned, fire.count, fire.decision, fire.note or "")
