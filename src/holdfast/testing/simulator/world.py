"""The world: its clock, its way to the store, and what goes wrong on that way.

A request travels, is committed, and its answer travels back; each leg takes time and may be lost, and neither leg
cares whether the caller is still alive or still waiting. That is how a commit comes late, or an answer never.
"""

import asyncio
import math
from contextvars import Context
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any, TypeVar

from holdfast.core.crash import Death, DeathKind
from holdfast.core.job import ClaimRef
from holdfast.core.states import State
from holdfast.errors import HoldfastError, StoreUnavailableError
from holdfast.schedule.closing import ClosedHours
from holdfast.store.backend import Listener
from holdfast.store.verb import Tone, Verb
from holdfast.testing.simulator.ledger import Ledger
from holdfast.testing.simulator.loop import here
from holdfast.testing.simulator.process import Process
from holdfast.testing.simulator.watched import Seen, WatchedStore
from holdfast.wakeup import Wakeup

T = TypeVar("T")

LEASE = 6.0
BEAT = 2.0
SAFE_OUTAGE = 2 * LEASE
"""Seconds of outage during which the beat of every supervisor must have failed."""

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)


class VirtualClock:
    """The machine's clocks: `boot` is the loop's time, `now` can be set."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self.offset = timedelta()

    def now(self) -> datetime:
        """Return the wall-clock time."""
        return EPOCH + timedelta(seconds=self._loop.time()) + self.offset

    def boot(self) -> float:
        """Return seconds since the world began."""
        return self._loop.time()


@dataclass(slots=True)
class Weather:
    """What may go wrong with a call at present: chances between 0 and 1, spans in seconds."""

    latency: float = 0.004
    lose_request: float = 0.0
    lose_answer: float = 0.0
    delay: float = 0.0
    longest_delay: float = 8.0
    lose_ring: float = 0.0
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

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.clock = VirtualClock()
        self.trace = Trace()
        self.weather = Weather()
        self._long_outage_ended_at = -math.inf
        self.bell = WorldBell(self)
        self.store = WatchedStore(self.clock, self)
        self.ledger = Ledger()
        self.windows: tuple[ClosedHours, ...] = ()
        self.worker_process: dict[str, Process] = {}
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
        return await answer

    def _leg(self) -> float:
        weather = self.weather
        delayed = self.random.random() < weather.delay
        return self.random.uniform(0, weather.longest_delay if delayed else weather.latency)

    def _arrive(self, verb: Verb[T], answer: "asyncio.Future[T]") -> None:
        loop = asyncio.get_running_loop()
        outcome: T | HoldfastError
        if self.weather.outage:
            outcome = StoreUnavailableError("outage")
        else:
            try:
                outcome = self.store.apply(verb)
            except HoldfastError as error:
                outcome = error
            for tone in verb.tones:
                self.bell.ring(tone)
        if self.random.random() >= self.weather.lose_answer:
            loop.call_later(self._leg(), _deliver, answer, outcome, context=Context())
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
        if asked_for > 3 * BEAT:
            self.violate(f"{ref.job_id} started {asked_for:.3f} s after its cancellation was asked for")
        if any(
            hours.closed_at(self.clock.now()) for hours in self.windows if hours.name in (seen.queue, seen.task)
        ):
            self.violate(f"{ref.job_id} started inside a window")
        if seen.max_attempts == 1 and self.ledger.starts.get(ref.job_id):
            self.violate(f"{ref.job_id} has max_attempts=1 and started twice")

    def check_burial(self, worker: str, death: Death) -> None:
        """See that nobody is given up while its code can run, nor because only the store was away."""
        process, now = self.worker_process[worker], self.clock.boot()
        since_outage = now - self._long_outage_ended_at
        if not process.alive:
            return
        if death.kind is not DeathKind.VANISHED:
            self.violate(f"claims of {process.name} were given back while it ran")
        elif since_outage < LEASE and since_outage < process.calm_for(now):
            self.violate(f"{process.name} was buried though only the store had been away")

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
    if isinstance(outcome, HoldfastError):
        answer.set_exception(outcome)
    else:
        answer.set_result(outcome)


class WorldBell:
    """The bell, rung by the store's commits and sometimes not heard."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._listeners: list[WorldListener] = []

    def ring(self, tone: Tone = Tone.WORK) -> None:
        """Wake the listeners, but for those that the weather deafens."""
        for listener in self._listeners:
            if listener.tone is tone and self._world.random.random() >= self._world.weather.lose_ring:
                listener.wakeup.call()

    def listen(self, tone: Tone = Tone.WORK) -> "Listener":
        """Start listening."""
        listener = WorldListener(self._listeners, tone)
        self._listeners.append(listener)
        return listener


class WorldListener:
    """One ear."""

    def __init__(self, listeners: "list[WorldListener]", tone: Tone) -> None:
        self.tone = tone
        self._listeners = listeners
        self.wakeup = Wakeup()

    async def wait(self, timeout: float) -> bool:
        """Return True as soon as the bell rings, False after `timeout` seconds."""
        return await self.wakeup.rest(timeout)

    def close(self) -> None:
        """Stop listening."""
        self._listeners.remove(self)
