"""Looks for trouble, for the whole fleet, and has people told of it.

Whoever has the first turn makes a full round now and then; should it be gone, a beat gives the turn to another.
What cannot wait for that is looked at when there is a reason, by whoever hears of it first (alerts/reasons.py); and
of its own machine, of which nobody else knows, each sees by itself whether a disk is full.

All of them write to one board, by comparison of versions: so whatever two of them see at once is told once.
"""

import asyncio
import logging
import math
from collections.abc import Callable, Sequence
from datetime import timedelta

from msgspec.structs import replace

from standfast.alerts.board import effective_rules, withdraw
from standfast.alerts.delivery import QUEUE, delivery_jobs
from standfast.alerts.keeper import Keeper, Made
from standfast.alerts.missing import note_missed
from standfast.alerts.notices import forget_old_notices
from standfast.alerts.pace import AFTER_FAILURE, SELDOM
from standfast.alerts.reasons import Reasons
from standfast.alerts.scout import Here
from standfast.alerts.silent_workers import next_silence
from standfast.alerts.watching import NOT_WATCHING, Watching
from standfast.clock import Clock
from standfast.core.alert import Alert, Check
from standfast.errors import StoreError
from standfast.events import (
    AlertFired,
    AlertResolved,
    Event,
    Events,
    ScheduleMissed,
    WorkerCrashed,
    WorkerFound,
    WorkerHung,
    WorkerLost,
)
from standfast.settings import Settings
from standfast.store.errand import arun_errand
from standfast.store.protocol import BeatAnswer, Worker
from standfast.supervisor.child import Child
from standfast.supervisor.delivering import Courier
from standfast.supervisor.measuring import Measures
from standfast.supervisor.pinging import Pinger
from standfast.supervisor.premises import Survey
from standfast.wakeup import Wakeup
from standfast.worker.storecalls import StoreCalls

log = logging.getLogger(__name__)

FORGET_EVERY = 6 * 3600.0
"""Seconds between two looks for notices to forget, where nothing is told."""

WAITS = timedelta(seconds=1)
"""How long a delivery may wait for a worker before the supervisor sends it itself."""

HEARD: dict[type[Event], tuple[Check, tuple[float, ...]]] = {
    ScheduleMissed: (Check.SCHEDULE_MISSED, (0.5,)),
    WorkerCrashed: (Check.INCIDENT, (2.0, 8.0)),
    WorkerHung: (Check.INCIDENT, (2.0, 8.0)),
    WorkerFound: (Check.INCIDENT, (2.0, 8.0)),
    WorkerLost: (Check.INCIDENT, (2.0, 8.0)),
}
"""What is looked at after an event, and after how many seconds: an incident takes a while to be written."""


class Alerting:
    """The alerts, as one supervisor sees to them. `beat_now` lets the store know how its children are."""

    def __init__(
        self,
        calls: StoreCalls,
        clock: Clock,
        events: Events,
        settings: Settings,
        *,
        courier: Callable[..., Courier],
        children: Callable[[], Sequence[Child]],
        beat_now: Callable[[], None],
        survey: Survey | None = None,
    ) -> None:
        self._calls = calls
        self._clock = clock
        self._events = events
        self._settings = settings
        self._children = children
        self._beat_now = beat_now
        self._watching = NOT_WATCHING
        self._courier = courier(watching=lambda: self._watching)
        self._keeper: Keeper | None = None
        self._pinger = Pinger(calls)
        self._measures = Measures(clock, survey)
        self._forget_at = -math.inf
        self._reasons = Reasons(settings)
        self._pace = self._reasons.pace
        self._withdraw_at = math.inf
        self._is_failing = False
        self._problem = ""
        self._unnoted: dict[str, tuple[float, Worker]] = {}
        self._errands: set[asyncio.Task[int]] = set()
        self._wakeup = Wakeup()
        events.subscribe(self.hear, lambda kind: kind in HEARD)

    def learn(self, watching: Watching) -> None:
        """Hear what an app declares: the last child that said so counts."""
        if watching == self._watching:
            return
        self._watching = watching
        labels = {"app": watching.app, "namespace": self._settings.namespace or ""}
        self._keeper = Keeper(
            watching,
            app=watching.app,
            labels={label: value for label, value in labels.items() if value},
            deliveries=lambda notice, channels: delivery_jobs(
                notice, [each.name for each in channels], watching.app
            ),
        )
        self._reasons.go_by(watching.rules, self._clock.boot())
        self._withdraw_at = math.inf if watching.enabled else self._clock.boot()
        self._pinger.learn(watching.dead_man)
        self._wakeup.call()

    def heed(self, answer: BeatAnswer) -> None:
        """Learn from a beat whose turn it is, who may be silent, and that the store is there."""
        if not self._watching.enabled:
            return
        boot = self._clock.boot()
        self._reasons.heed(boot, answer)
        if self._pace.is_first and not self._is_failing:
            self._pinger.heed(boot)
        self._wakeup.call()

    async def lost(self, worker: Worker) -> None:
        """Note that a worker is about to be given up: else nobody would know whom to miss.

        Who is not noted at once, because the store is busy or away, is noted by the next round.
        """
        if self._watching.enabled and not worker.info.is_courier:
            boot = self._clock.boot()
            self._unnoted[worker.info.id] = boot, worker
            self._reasons.hint(Check.WORKER_SILENT, boot)
            try:
                await self._note_lost()
            finally:
                self._wakeup.call()

    async def _note_lost(self) -> None:
        boot = self._clock.boot()
        for since, worker in tuple(self._unnoted.values()):
            lost = replace(worker, beat_age=worker.beat_age + timedelta(seconds=boot - since))
            note = note_missed(self._calls.verbs, lost, self._pace.watched_since(boot))
            await arun_errand(self._calls.once, note)
            self._unnoted.pop(worker.info.id, None)

    def hear(self, event: Event) -> None:
        """Hear of what may break a rule."""
        if self._watching.enabled:
            check, delays = HEARD[type(event)]
            self._reasons.hint(check, *(self._clock.boot() + delay for delay in delays))
            self._wakeup.call()

    async def run(self) -> None:
        """Look whenever there is a reason, and send what is to be delivered."""
        try:
            while True:
                wait = self._due_at() - self._clock.boot()
                if wait > 0:
                    await self._wakeup.rest(None if math.isinf(wait) else wait)
                elif self._watching.enabled:
                    await self._go_round()
                else:
                    await self._withdraw()
        finally:
            for task in self._errands:
                task.cancel()

    def _due_at(self) -> float:
        if self._keeper is None or not self._watching.enabled:
            return self._withdraw_at
        pulses = (child.pulse_at for child in self._children() if child.beaten_for)
        if self._reasons.calls_for_beat(self._clock.boot(), pulses):
            self._beat_now()
        own = math.inf if self._pace.rank in {None, 0} else self._measures.due_at
        return min(self._reasons.due_at, self._pinger.due_at, own)

    async def close(self, seconds: float, hurry: asyncio.Event) -> None:
        """Tell no more, and wait for what is being delivered, no longer than that."""
        await self._courier.close(seconds, hurry)

    async def _withdraw(self) -> None:
        """Take from the board what the app said before its alerts were switched off; who looks says it again."""
        self._withdraw_at = math.inf
        try:
            await arun_errand(self._calls.once, withdraw(self._calls.verbs, self._watching.app))
        except StoreError as error:
            log.debug("what the app has declared of alerts could not be withdrawn, which is tried again: %s", error)
            self._withdraw_at = self._clock.boot() + AFTER_FAILURE

    # -- a round ---------------------------------------------------------------------------------------------

    async def _go_round(self) -> None:
        boot = self._clock.boot()
        wanted = self._reasons.take(boot)
        if boot >= self._pinger.due_at:
            await self._pinger.ping(boot)
        here = Here(self._pace.watched_since(boot), self._pace.away_since, self._measures.store_seconds)
        # Who has the first turn looks at the premises with a round that does; all others when it is time.
        examines = boot >= self._measures.due_at and (wanted >= SELDOM or not self._pace.is_first)
        if examines:
            here = await self._measures.examine(here)
            if self._measures.is_news(here, self._pace.rules):
                wanted |= {Check.DISK_FULL}
        went = not wanted or await self._look(wanted, here)
        if examines and went:
            self._measures.told(here, self._pace.rules)
        elif examines:
            self._measures.not_told()

    async def _look(self, wanted: frozenset[Check], here: Here) -> bool:
        """Look at what is wanted; return whether that could be done."""
        assert self._keeper is not None
        try:
            await self._note_lost()
            made = await arun_errand(
                self._measures.timed(self._calls.once), self._keeper.round(self._calls.verbs, wanted, here)
            )
            self._went(made, wanted)
            if made.notices or self._clock.boot() >= self._forget_at:
                self._forget_at = self._clock.boot() + FORGET_EVERY
                await arun_errand(self._calls.once, forget_old_notices(self._calls.verbs))
        except StoreError as error:
            log.debug("alerts could not be looked at, which is tried again: %s", error)
        except Exception as error:
            if repr(error) != self._problem:
                self._problem = repr(error)
                log.exception("alerts could not be looked at; this is tried again")
        else:
            return True
        self._is_failing = True
        self._reasons.failed(self._clock.boot(), wanted)
        return False

    def _went(self, made: Made, wanted: frozenset[Check]) -> None:
        """Tell what came of a round, and plan when to look again."""
        assert self._keeper is not None
        self._is_failing, self._problem = False, ""
        self._tell(made)
        boot = self._clock.boot()
        self._reasons.go_by(effective_rules(self._watching.rules, made.board), boot)
        silence = next_silence(made.board, self._pace.rules, made.now)
        self._reasons.went(boot, wanted, made.board, silence, lively=self._keeper.scout.jobs_end)

    def _tell(self, made: Made) -> None:
        for alert in made.fired:
            self._events.emit(AlertFired(*_words(alert)))
        for alert in made.resolved:
            self._events.emit(AlertResolved(*_words(alert)))
        if made.notices or _deliveries_wait(made):
            task = asyncio.ensure_future(self._courier.deliver_due())
            self._errands.add(task)
            task.add_done_callback(self._errands.discard)


def _deliveries_wait(made: Made) -> bool:
    waiting = () if made.ages is None else made.ages.queues
    mine = (each for each in waiting if each.name == QUEUE and each.paused_at is None)
    return any(made.now - each.oldest_due_at > WAITS for each in mine)


def _words(alert: Alert) -> tuple[str, str, str, str]:
    return alert.rule, alert.subject, alert.severity.value, alert.says
