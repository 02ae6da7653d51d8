"""The supervisor as a sender: sends what waits to be delivered, also when its children hang or serve others.

    something is due ─► registered ─► claim ─► sent in threads, beating ─► finished ─► buried as stopped
                                        └──── whenever there is a place free ◄──┘

It is a worker for as long as that takes. When the supervisor stops, what is being sent has some seconds to end;
programs that are not done by then are killed, and others try again. Should the supervisor be killed, its lease runs
out like any other, and somebody else sends what it had in hand, with the same ids.
"""

import asyncio
import logging
import math
import os
import socket
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from functools import partial
from random import Random

from msgspec.structs import replace

from standfast.errors import PayloadError, StandfastError, StoreError
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
from standfast.model.alerts import Check
from standfast.model.clock import Clock
from standfast.model.concurrency import Wakeup
from standfast.model.configuration import Settings
from standfast.model.crash import Death, DeathKind
from standfast.model.ids import new_worker_id
from standfast.model.job import Claim, ClaimRef, Ending, KnownTask, Verdict
from standfast.observe.alerts.alert_rules import ALERTS_OFF, AlertSettings
from standfast.observe.alerts.board_changes import effective_rules, forget_old_notices, note_missed, withdraw
from standfast.observe.alerts.checks import next_silence
from standfast.observe.alerts.delivery import ARGUMENTS, DELIVER, POLICY, QUEUE, deliver_by, delivery_jobs
from standfast.observe.alerts.monitor import LocalView, Monitor, RoundResult
from standfast.observe.alerts.senders import Programs
from standfast.stores.values import BeatAnswer, ClaimRequest, Worker, WorkerBeat, WorkerInfo
from standfast.stores.verb import arun_procedure
from standfast.supervisor.alert_pace import AFTER_FAILURE, SELDOM, RoundTriggers
from standfast.supervisor.child import Child
from standfast.supervisor.dead_man import Pinger
from standfast.supervisor.probes import Measures, Survey
from standfast.worker.completer import Announcer, Ended, Judge, describe
from standfast.worker.execution import ThreadExecutor
from standfast.worker.storecalls import StoreCalls, StoreClock

log = logging.getLogger(__name__)

AT_ONCE = 8  # how many are sent at a time
LAST_WORDS = 1.0  # seconds for what was cut off to be written down


class NotificationSender:
    """Sends for one supervisor. `watching` tells which channels there are; `count` hears how each attempt ended."""

    def __init__(
        self,
        calls: StoreCalls,
        clock: Clock,
        events: Events,
        random: Random,
        *,
        supervisor: str,
        lease: timedelta,
        watching: Callable[[], AlertSettings],
        count: Callable[[Ended, Verdict], None] = lambda _ended, _verdict: None,
    ) -> None:
        self._calls = calls
        self._clock = StoreClock(clock)
        self._announcer = Announcer(events)
        self._random = random
        self._supervisor = supervisor
        self._lease = lease
        self._watching = watching
        self._count = count
        self._programs = Programs()
        self._deliver = deliver_by(watching, self._clock.now, self._programs)
        self._closing = False
        self._home, self._more = asyncio.Event(), asyncio.Event()
        self._home.set()

    async def deliver_due(self) -> int:
        """Send all that is due, and return how many were tried; where that goes on already, have it look again."""
        self._more.set()
        if self._closing or not self._home.is_set() or not self._watching().channels:
            return 0
        self._home.clear()
        try:
            return await self._go()
        except StoreError as error:
            log.debug("deliveries could not be made, which is tried again: %s", error)
        except StandfastError:
            log.exception("deliveries could not be made; this is tried again")
        finally:
            self._home.set()
        return 0

    async def close(self, seconds: float, hurry: asyncio.Event) -> None:
        """Take no more, and wait for what is being sent; no longer than that, nor once there is need to hurry."""
        self._closing = True
        home, hurried = asyncio.ensure_future(self._home.wait()), asyncio.ensure_future(hurry.wait())
        await asyncio.wait((home, hurried), timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        self._programs.kill()
        await asyncio.wait((home,), timeout=LAST_WORDS)
        home.cancel()
        hurried.cancel()

    async def _go(self) -> int:
        trip = _Trip(new_worker_id(self._random))
        info = WorkerInfo(
            trip.worker, self._supervisor, socket.gethostname(), os.getpid(), self._lease, (QUEUE,), AT_ONCE
        )
        beating, threads = asyncio.create_task(self._beat(trip)), ThreadExecutor(AT_ONCE)
        try:
            await self._calls.once(self._calls.verbs.register(info))
            return await self._send_all(trip, threads)
        finally:
            threads.abandon()
            try:
                await self._leave(trip)
            finally:
                beating.cancel()

    async def _send_all(self, trip: "_Trip", threads: ThreadExecutor) -> int:
        """Send what is due, and what comes meanwhile: one receiver that takes long keeps none of the others."""
        sending, tried = set[asyncio.Task[None]](), 0
        try:
            while True:
                self._more.clear()
                room = 0 if self._closing else AT_ONCE - len(sending)
                claims = await self._claim(trip, room, idle=not sending) if room else ()
                sending |= {asyncio.create_task(self._send(trip, threads, claim)) for claim in claims}
                tried += len(claims)
                if not sending:
                    return tried
                if not claims:
                    await self._one_of(sending)
                for task in [task for task in sending if task.done()]:
                    sending.remove(task)
                    task.result()
        except asyncio.CancelledError:
            for task in sending:
                task.cancel()
            raise
        finally:
            await asyncio.gather(*sending, return_exceptions=True)  # before it is gone

    async def _one_of(self, sending: set[asyncio.Task[None]]) -> None:
        """Wait until one is sent, or there is more to send."""
        more = asyncio.ensure_future(self._more.wait())
        await asyncio.wait((*sending, more), return_when=asyncio.FIRST_COMPLETED)
        more.cancel()

    async def _leave(self, trip: "_Trip") -> None:
        """Be gone, as soon as the store can be told so: one that only falls silent is taken for a lost machine."""
        bury = partial(self._calls.verbs.bury, trip.worker, Death(DeathKind.STOPPED))
        await self._calls.until_answered(bury, passing=(StoreError,))

    async def _beat(self, trip: "_Trip") -> None:
        """Keep the lease while something is sent."""
        while True:
            await asyncio.sleep(self._lease.total_seconds() / 3)
            try:
                await self._calls.once(self._calls.verbs.beat([trip.beat()]))
            except StoreError:
                continue  # the next one may be answered in time

    async def _claim(self, trip: "_Trip", room: int, *, idle: bool) -> tuple[Claim, ...]:
        """Return some that are due; those that were in hand when somebody died last, one by one and last."""
        claims = await self._ask(trip, room)
        if claims or not idle:
            return claims
        answer = await self._calls.once(self._calls.verbs.beat([trip.beat()]))
        for group in sorted(each.group for each in answer.suspects if each.queue == QUEUE):
            if claims := await self._ask(trip, 1, group):
                return claims
        return ()

    async def _ask(self, trip: "_Trip", limit: int, group: int = 0) -> tuple[Claim, ...]:
        known = (KnownTask(DELIVER, POLICY.version),)
        request = ClaimRequest(trip.worker, trip.call + 1, limit, queues=(QUEUE,), adopt=known, group=group)
        asked_at = self._clock.boot()
        answer = await self._calls.once(self._calls.verbs.claim(request))
        self._clock.learn(asked_at, answer.now, self._clock.boot())
        trip.call, trip.claimed_at = request.call, answer.now
        trip.held |= {claim.ref for claim in answer.jobs}
        return answer.jobs

    async def _send(self, trip: "_Trip", threads: ThreadExecutor, claim: Claim) -> None:
        verbs, began_at = self._calls.verbs, self._clock.boot()
        [verdict] = await self._calls.once(verbs.start(trip.worker, [(claim.ref, trip.claimed_at)]))
        if verdict is Verdict.ACCEPTED:
            judge = Judge(claim, POLICY, trip.claimed_at, self._random)
            ended = Ended(claim, await self._judged(judge, threads), self._clock.boot() - began_at)
            finish = partial(verbs.finish, trip.worker, [ended.ending])
            [verdict] = await self._calls.until_answered(finish, passing=(StoreError,))
            self._count(ended, verdict)
            self._announcer.settled(ended, verdict)
        trip.held.discard(claim.ref)

    async def _judged(self, judge: Judge, threads: ThreadExecutor) -> Ending:
        try:
            arguments = ARGUMENTS.decode(judge.claim.payload)
        except PayloadError as error:
            return judge.dead(describe(error))
        call = threads.submit(partial(self._deliver, **arguments))
        try:
            async with asyncio.timeout(POLICY.timeout):
                returned = await call.done
        except TimeoutError:
            return judge.timed_out()
        return judge.returned(None) if returned.error is None else judge.raised(returned.error)


class _Trip:
    """One life as a worker: its claim calls so far, and what it has in hand."""

    def __init__(self, worker: str) -> None:
        self.worker = worker
        self.call = 0
        self.held: set[ClaimRef] = set()
        self.claimed_at: datetime

    def beat(self) -> WorkerBeat:
        """Return the word that it lives."""
        return WorkerBeat(self.worker, self.call, frozenset(self.held))


FORGET_EVERY = 6 * 3600.0  # seconds between two looks for notices to forget, where nothing is told
WAITS = timedelta(seconds=1)  # how long a delivery may wait for a worker before the supervisor sends it itself
HEARD: dict[type[Event], tuple[Check, tuple[float, ...]]] = {
    ScheduleMissed: (Check.SCHEDULE_MISSED, (0.5,)),
    WorkerCrashed: (Check.INCIDENT, (2.0, 8.0)),
    WorkerHung: (Check.INCIDENT, (2.0, 8.0)),
    WorkerFound: (Check.INCIDENT, (2.0, 8.0)),
    WorkerLost: (Check.INCIDENT, (2.0, 8.0)),
}
"""What is looked at after an event, and after how many seconds: an incident takes a while to be written."""


class Alerting:
    """Looks for trouble, for the whole fleet, and has people told of it. `beat_now` writes how its children are.

    Whoever has the first turn makes a full round now and then; should it be gone, a beat gives the turn to another.
    What cannot wait for that is looked at when there is a reason, by whoever hears of it first (`RoundTriggers`); and
    of its own machine, of which nobody else knows, each sees by itself whether a disk is full. All of them write to
    one board, by comparison of versions: so whatever two of them see at once is told once.
    """

    def __init__(
        self,
        calls: StoreCalls,
        clock: Clock,
        events: Events,
        settings: Settings,
        *,
        sender: Callable[..., NotificationSender],
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
        self._watching = ALERTS_OFF
        self._sender = sender(watching=lambda: self._watching)
        self._keeper: Monitor | None = None
        self._pinger = Pinger(calls)
        self._measures = Measures(clock, survey)
        self._forget_at = -math.inf
        self._reasons = RoundTriggers(settings)
        self._pace = self._reasons.pace
        self._withdraw_at = math.inf
        self._is_failing = False
        self._problem = ""
        self._unnoted: dict[str, tuple[float, Worker]] = {}
        self._errands: set[asyncio.Task[int]] = set()
        self._wakeup = Wakeup()
        events.subscribe(self.hear, lambda kind: kind in HEARD)

    def learn(self, watching: AlertSettings) -> None:
        """Hear what an app declares: the last child that said so counts."""
        if watching == self._watching:
            return
        self._watching = watching
        labels = {"app": watching.app, "namespace": self._settings.namespace or ""}
        self._keeper = Monitor(
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
        """Note that a worker is about to be given up; what the store does not take now, the next round notes."""
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
            await arun_procedure(self._calls.once, note)
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
        await self._sender.close(seconds, hurry)

    async def _withdraw(self) -> None:
        """Take from the board what the app said before its alerts were switched off; who looks says it again."""
        self._withdraw_at = math.inf
        try:
            await arun_procedure(self._calls.once, withdraw(self._calls.verbs, self._watching.app))
        except StoreError as error:
            log.debug("what the app has declared of alerts could not be withdrawn, which is tried again: %s", error)
            self._withdraw_at = self._clock.boot() + AFTER_FAILURE

    async def _go_round(self) -> None:
        boot = self._clock.boot()
        wanted = self._reasons.take(boot)
        if boot >= self._pinger.due_at:
            await self._pinger.ping(boot)
        here = LocalView(self._pace.watched_since(boot), self._pace.away_since, self._measures.store_seconds)
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

    async def _look(self, wanted: frozenset[Check], here: LocalView) -> bool:
        """Look at what is wanted; return whether that could be done."""
        assert self._keeper is not None
        try:
            await self._note_lost()
            made = await arun_procedure(
                self._measures.timed(self._calls.once), self._keeper.round(self._calls.verbs, wanted, here)
            )
            self._went(made, wanted)
            if made.notices or self._clock.boot() >= self._forget_at:
                self._forget_at = self._clock.boot() + FORGET_EVERY
                await arun_procedure(self._calls.once, forget_old_notices(self._calls.verbs))
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

    def _went(self, made: RoundResult, wanted: frozenset[Check]) -> None:
        """Tell what came of a round, and plan when to look again."""
        assert self._keeper is not None
        self._is_failing, self._problem = False, ""
        self._tell(made)
        boot = self._clock.boot()
        self._reasons.go_by(effective_rules(self._watching.rules, made.board), boot)
        silence = next_silence(made.board, self._pace.rules, made.now)
        self._reasons.went(boot, wanted, made.board, silence, lively=self._keeper.scout.jobs_end)

    def _tell(self, made: RoundResult) -> None:
        for kind, alerts in ((AlertFired, made.fired), (AlertResolved, made.resolved)):
            for alert in alerts:
                self._events.emit(kind(alert.rule, alert.subject, alert.severity.value, alert.says))
        if made.notices or _deliveries_wait(made):
            task = asyncio.ensure_future(self._sender.deliver_due())
            self._errands.add(task)
            task.add_done_callback(self._errands.discard)


def _deliveries_wait(made: RoundResult) -> bool:
    waiting = () if made.ages is None else made.ages.queues
    mine = (each for each in waiting if each.name == QUEUE and each.paused_at is None)
    return any(made.now - each.oldest_due_at > WAITS for each in mine)
