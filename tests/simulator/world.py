"""The world: its clock, its way to the store, and what goes wrong on that way.

A request travels, is committed, and its answer travels back; each leg takes time and may be lost, and neither leg
cares whether the caller is still alive or still waiting. That is how a commit comes late, or an answer never.
"""

import asyncio
import math
from collections.abc import Iterable
from contextvars import Context
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any, TypeVar

from simulator.bell import WorldBell
from simulator.land import PLAIN, Land
from simulator.ledger import Ledger
from simulator.loop import here
from simulator.process import Process
from simulator.trail import Trail
from simulator.watched import WatchedStore
from simulator.watching import Seen
from simulator.wires import WireEnd
from standfast.errors import StandfastError, StoreError, StoreUnavailableError
from standfast.model.crash import Death, DeathKind, group_limit, is_of_host
from standfast.model.job import ClaimRef
from standfast.model.states import State
from standfast.observe.alerts.alert_rules import ALERTS_OFF
from standfast.schedules.closed_hours import ClosedHours
from standfast.schedules.limits import Limits
from standfast.stores.values import LeaseClock
from standfast.stores.verb import Access, Verb

T = TypeVar("T")

LEASE = 6.0
BEAT = 2.0
HEARD_WITHIN = 3 * BEAT
"""Seconds within which whoever may still start a job has heard what beats tell."""

AT_ONCE = 0.05
"""Seconds within which a worker does as it has heard."""

EXACT = 0.001
"""Seconds: timers are exact in virtual time."""

SAFE_OUTAGE = 2 * LEASE
"""Seconds of outage during which the beat of every supervisor must have failed."""

LOOP_VERBS = frozenset({"claim", "finish", "progress", "save", "due_records"})
"""What the loops of a worker ask of the store, and nothing else does: an attempt that breaks is charged."""

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)


class VirtualClock:
    """The clocks of a machine: `boot` is the loop's time, `now` can be set, and gains `drift` in a second."""

    def __init__(self, offset: timedelta = timedelta(), drift: float = 0.0) -> None:
        self._loop = asyncio.get_running_loop()
        self._rate = 1.0 + drift
        self._set_at = -math.inf
        self._latest = EPOCH
        self.offset = offset

    def now(self) -> datetime:
        """Return the wall-clock time."""
        return EPOCH + timedelta(seconds=self._loop.time() * self._rate) + self.offset

    def boot(self) -> float:
        """Return seconds since the world began."""
        return self._loop.time()

    def set(self, offset: timedelta) -> None:
        """Set it, so far ahead of a clock that nobody has set."""
        self._latest = self.latest
        self.offset, self._set_at = offset, self._loop.time()

    @property
    def latest(self) -> datetime:
        """The latest time that it has ever shown."""
        return max(self._latest, self.now())

    @property
    def unset_for(self) -> float:
        """For how many seconds nobody has set it."""
        return self._loop.time() - self._set_at

    def boot_at(self, now: datetime) -> float:
        """Return when it shows this time, by the boot clock, if nobody sets it."""
        return (now - EPOCH - self.offset).total_seconds() / self._rate


@dataclass(slots=True)
class Weather:
    """What may go wrong with a call at present: chances between 0 and 1, spans in seconds.

    `refused` is the verb that the store may refuse for no good reason, as where rights are taken away for a while.
    `bug` is that a call by a loop of a worker's own raises what nobody expects, before or after it was made.
    """

    latency: float = 0.004
    lose_request: float = 0.0
    lose_answer: float = 0.0
    delay: float = 0.0
    longest_delay: float = 8.0
    lose_ring: float = 0.0
    refuse: float = 0.0
    refused: str = ""
    bug: float = 0.0
    outage: bool = False


@dataclass(slots=True)
class Trace:
    """What happened, in order: for people, and to compare two runs of one seed."""

    lines: list[str] = field(default_factory=list)
    violations: list[str] = field(default_factory=list)

    def say(self, at: float, text: str) -> None:
        """Add a line."""
        self.lines.append(f"{at:10.4f}  {text}")

    def violate(self, at: float, text: str) -> None:
        """Add a broken promise."""
        self.violations.append(text)
        self.say(at, f"VIOLATION {text}")


class World:
    """One seeded world."""

    def __init__(self, seed: int, land: Land = PLAIN) -> None:
        self.random = Random(seed)
        self.bugs = Random(~seed)
        self.land = land
        self.clock = VirtualClock()
        """The clock of the machines on which the fleet runs."""
        self.store_clock = VirtualClock(land.ahead, land.drift) if land.elsewhere else self.clock
        self.trace = Trace()
        self.weather = Weather()
        self._long_outage_ended_at = -math.inf
        self.bell = WorldBell(self)
        self.store = WatchedStore(self.store_clock, self)
        if land.elsewhere:
            self.store.lease_clock = LeaseClock.SERVER
        self.ledger = Ledger()
        self.trail = Trail(self.violate)
        self.windows: tuple[ClosedHours, ...] = ()
        self.limits = Limits()
        self.watching = ALERTS_OFF
        self.worker_process: dict[str, Process] = {}
        self.worker_channel: dict[str, WireEnd] = {}
        self.known_at: dict[ClaimRef, float] = {}
        """When the worker of each claim heard of it."""
        self.cancelled: set[str] = set()
        self.snoozed: set[str] = set()
        self.claims_lost = 0
        self._pids = 0
        self.processes: list[Process] = []

    def say(self, text: str) -> None:
        """Note what happens."""
        process = here.get()
        self.trace.say(self.clock.boot(), f"{process.name if process else 'world':<14} {text}")

    def violate(self, text: str) -> None:
        """Note a broken promise."""
        self.trace.violate(self.clock.boot(), text)

    def new_process(self, name: str) -> Process:
        """Return a fresh process."""
        self._pids += 1
        process = Process(self._pids, f"{name}#{self._pids}")
        self.processes.append(process)
        return process

    async def call(self, verb: Verb[T]) -> T:
        """Carry a verb to the store and its answer back, as the weather allows."""
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[T] = loop.create_future()
        if self.random.random() >= self.weather.lose_request:
            # In an empty context: a request under way belongs to no process and outlives its sender.
            loop.call_later(self._leg(), self._arrive, verb, answer, context=Context())
        else:
            self.say(f"{verb.name}: request lost")
        told = await answer
        self.store.check_told(verb, told)
        return told

    def stumble(self, verb: Verb[Any]) -> None:
        """Raise what nobody expects in a worker, now and then, as the weather is."""
        if verb.name in LOOP_VERBS and self.bugs.random() < self.weather.bug:
            self.say(f"{verb.name}: a bug")
            raise RuntimeError("a bug")

    def _leg(self) -> float:
        weather = self.weather
        delayed = self.random.random() < weather.delay
        return self.random.uniform(0, weather.longest_delay if delayed else weather.latency)

    def _arrive(self, verb: Verb[T], answer: "asyncio.Future[T]") -> None:
        loop = asyncio.get_running_loop()
        outcome: T | StandfastError
        if self.weather.outage:
            outcome = StoreUnavailableError("outage")
        elif verb.name == self.weather.refused and self.random.random() < self.weather.refuse:
            outcome = StoreError("refused")
        else:
            try:
                outcome = self.store.apply(verb)
            except StandfastError as error:
                outcome = error
            for tone in verb.tones:
                self.bell.ring(tone)
        if self.random.random() >= self.weather.lose_answer:
            written = 0.0 if verb.access is Access.READ else self.land.disk
            loop.call_later(written + self._leg(), _deliver, answer, outcome, context=Context())
        else:
            self.say(f"{verb.name}: answer lost")

    # -- promises that need more than the store to judge ------------------------------------------------------

    def outage_over(self, seconds: float) -> None:
        """Remember the end of an outage during which every beat must have failed."""
        if seconds > SAFE_OUTAGE:
            self._long_outage_ended_at = self.clock.boot()

    def check_start(self, worker: str, ref: ClaimRef) -> None:
        """See that a handler starts under the valid claim of its job, and not before its time."""
        seen = self.store.look(ref.job_id)
        self.say(f"{ref.job_id}:{ref.fence} starts")
        if not seen.is_claim(worker, ref):
            self.violate(f"{ref.job_id}:{ref.fence} started though the store says {seen}")
        asked_for = self.clock.boot() - self.store.cancel_asked_at.get(ref.job_id, math.inf)
        if asked_for > HEARD_WITHIN:
            self.violate(f"{ref.job_id} started {asked_for:.3f} s after its cancellation was asked for")
        self._check_group(worker, ref.job_id, seen)
        self._check_pause(worker, ref, seen.queue)
        self._check_time(ref.job_id, seen)
        if seen.max_attempts == 1 and self.ledger.starts.get(ref.job_id):
            self.violate(f"{ref.job_id} has max_attempts=1 and started twice")

    def _check_pause(self, worker: str, ref: ClaimRef, queue: str) -> None:
        """See that no job of a paused queue starts once its worker has heard, nor where it should have."""
        now, paused_at = self.clock.boot(), self.store.paused_at.get(queue, math.inf)
        if now - paused_at > HEARD_WITHIN:
            self.violate(f"{ref.job_id} started {now - paused_at:.3f} s after its queue was paused")
        known_for = now - self.worker_channel[worker].heard_of_pause(queue, paused_at, self.known_at[ref])
        if known_for > AT_ONCE:
            self.violate(f"{ref.job_id} started {known_for:.3f} s after its worker heard that its queue was paused")

    def _check_time(self, job_id: str, seen: Seen) -> None:
        """See that it is a job's time by the store's clock, as well as that can be known elsewhere."""
        unsure = HEARD_WITHIN if self.land.elsewhere else 0.0
        if self.store_clock.unset_for < unsure:
            return
        early = (seen.run_at - self.store_clock.latest).total_seconds()
        if early > EXACT:
            self.violate(f"{job_id} started {early:.3f} s before its time")
        now = self.store_clock.now()
        times = (now, now - timedelta(seconds=unsure))
        windows = [hours for hours in self.windows if hours.name in (seen.queue, seen.task)]
        if any(all(hours.closed_at(time) for time in times) for hours in windows):
            self.violate(f"{job_id} started inside a window")

    def check_hosts(self, children: Iterable[Process]) -> None:
        """See that one supervisor runs one group at a time of those that lost their hosts."""
        there = [process.name for process in children if process.alive and is_of_host(process.group)]
        if len(there) > 1:
            self.violate(f"{' and '.join(there)} of one supervisor run jobs that lost their hosts")

    def _check_group(self, worker: str, job_id: str, seen: Seen) -> None:
        """See that a suspect runs with no more others than it may, all of its group."""
        process, beside = self.worker_process[worker], sum(who == worker for who, _ in self.ledger.running)
        if process.group != seen.group:
            self.violate(f"{job_id} of group {seen.group} started in {process.name}, of group {process.group}")
        elif seen.group and beside >= group_limit(seen.group):
            self.violate(f"{job_id} of group {seen.group} started beside {beside} others")

    def check_lost(self, worker: str) -> None:
        """See that nobody says of a worker that others have buried it when its own supervisor has."""
        if self.store.buried_as.get(worker, DeathKind.VANISHED) is not DeathKind.VANISHED:
            self.violate(f"{worker[:4]} was said to be lost though its own supervisor has buried it")

    def check_burial(self, worker: str, death: Death) -> None:
        """See that nobody is given up while its code can run, nor because only the store was away."""
        process, now = self.worker_process[worker], self.clock.boot()
        since_outage = now - self._long_outage_ended_at
        if process.exit.done():  # alive it may be once more, after the play
            return
        if death.kind is not DeathKind.VANISHED:
            self.violate(f"claims of {process.name} were given back while it ran")
        elif since_outage < LEASE and since_outage < process.calm_for(now):
            self.violate(f"{process.name} was buried though only the store had been away")

    def check_halves(self, worker: str, together: int, ref: ClaimRef, before: Seen, after: Seen) -> None:
        """See that none of several that ran in a dead process is charged, and that fewer run together next."""
        if before.state is State.RUNNING and before.max_attempts == 1:
            return
        if after.attempt > before.attempt:
            self.violate(f"{ref.job_id} paid for the end of {worker[:4]}, where {together} ran")
        if not 0 < group_limit(after.group) < together:
            self.violate(f"{ref.job_id}, one of {together}, is in a group of {group_limit(after.group)}")

    def check_fate(self, worker: str, death: Death, ref: ClaimRef, before: Seen, after: Seen) -> None:
        """See that only what had started pays for a crash, and nothing for a stop."""
        if (after.attempt, after.crashes) == (before.attempt, before.crashes) or death.kind is DeathKind.VANISHED:
            return
        last_chance = before.state is State.RUNNING and before.max_attempts == 1
        guilty = death.kind is DeathKind.CRASHED and (worker, ref) in self.ledger.running
        if not guilty and not last_chance:
            self.violate(f"{ref.job_id} paid for the end of {worker[:4]} ({death.kind}) without having run")


def _deliver(answer: "asyncio.Future[Any]", outcome: Any) -> None:
    if answer.done():
        return
    if isinstance(outcome, StandfastError):
        answer.set_exception(outcome)
    else:
        answer.set_result(outcome)
