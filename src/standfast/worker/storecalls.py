"""Calls of the store by a worker or supervisor: bounded in time and repeated where that is right; and the store's time.

An outage is reported once when it begins and once when it ends. It may concern one kind of call: a long write of
somebody else holds up jobs and not beats. A failed call that nobody repeats for a while is forgotten.
"""

import asyncio
import math
import os
import threading
from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import UTC, datetime
from random import Random
from typing import TypeVar

from standfast.errors import StoreError, StoreUnavailableError, ValueNotStoredError
from standfast.events import Events, StoreAway, StoreBack
from standfast.model.backoff import LONGEST_PAUSE, TRANSIENT_ERRORS, RetryDelays
from standfast.model.clock import Clock
from standfast.stores.backend import Backend
from standfast.stores.contract import Store, ask_time
from standfast.stores.values import LeaseClock
from standfast.stores.verb import Access, Verb

T = TypeVar("T")
UNTRIED = 30.0  # seconds after which a failed call that nobody repeats says nothing more about the store
CATCH_UP = 0.1
"""Seconds that a loop which was blocked has to take in what came meanwhile, before it is said to have come late."""


class StoreCalls:
    """The way of one process to its store."""

    def __init__(self, backend: Backend, clock: Clock, events: Events, random: Random, timeout: float) -> None:
        self._backend = backend
        self._clock = clock
        self._events = events
        self._random = random
        self._timeout = timeout
        self._away_since: dict[Access, float] = {}
        self._failed_at: dict[Access, float] = {}
        self._back_at = -math.inf
        self.trouble = ""  # what was wrong with the last call that failed, in words
        self._asked_at: dict[object, float] = {}

    @property
    def verbs(self) -> Store:
        """The store's verbs."""
        return self._backend.verbs

    @property
    def unanswered_for(self) -> float:
        """For how many seconds no call has been answered though some were made; 0 while all is well."""
        since = list((self._away_since or self._asked_at).values())
        return self._clock.boot() - min(since) if since else 0.0

    async def once(self, verb: Verb[T], passing: tuple[type[StoreError], ...] = (StoreError,)) -> T:
        """Call, and give up after the timeout with StoreUnavailableError. A given-up call may still commit.

        `passing` are the errors after which the caller tries on: only these mean that the store is away.
        """
        loop = asyncio.get_running_loop()
        due_at = loop.time() + self._timeout

        def expire() -> None:
            now = loop.time()
            limit.reschedule(now if now - due_at < CATCH_UP else now + CATCH_UP)

        mark, asked_at = object(), self._clock.boot()
        self._asked_at[mark] = asked_at
        try:
            async with asyncio.timeout(None) as limit:
                timer = loop.call_at(due_at, expire)
                try:
                    answer = await self._backend.arun(verb)
                finally:
                    timer.cancel()
        except TimeoutError as error:
            away = StoreUnavailableError(f"the store did not answer {verb.name} within {self._timeout:g} s")
            self._went_away(verb.access, away, asked_at)
            raise away from error
        except passing as error:
            self._went_away(verb.access, error, asked_at)
            raise
        finally:
            del self._asked_at[mark]
        self._came_back(verb.access)
        return answer

    async def until_answered(
        self, make: Callable[[], Verb[T]], passing: tuple[type[StoreError], ...] = TRANSIENT_ERRORS
    ) -> T:
        """Call, again and again with growing pauses, until the store answers or fails for good."""
        pauses = self.pauses()
        while True:
            try:
                return await self.once(make(), passing)
            except ValueNotStoredError:
                raise
            except passing:
                await asyncio.sleep(pauses.next())

    def pauses(self, longest: float = LONGEST_PAUSE) -> RetryDelays:
        """Return the pauses of a caller that tries again by itself."""
        return RetryDelays(self._random, longest)

    def _went_away(self, access: Access, error: Exception, since: float) -> None:
        if isinstance(error, ValueNotStoredError) or since < self._back_at:
            return  # of no word about the store, or only about an outage that is over
        self.trouble = str(error)
        if not self._away_since:
            self._events.emit(StoreAway(self.trouble))
        self._away_since.setdefault(access, since)
        self._failed_at[access] = self._clock.boot()

    def _came_back(self, access: Access) -> None:
        if not self._away_since:
            return
        now, first = self._clock.boot(), min(self._away_since.values())
        for kind in tuple(self._away_since):
            if kind is access or kind is Access.READ or now - self._failed_at[kind] > UNTRIED:
                del self._away_since[kind]
        if not self._away_since:
            self._back_at = now
            self._events.emit(StoreBack(now - first))


async def happens_within(seconds: float, waiting: Awaitable[object]) -> bool:
    """Wait for something, but no longer than this; return whether it happened."""
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await waiting
            return True
    return False


# Each answer of the store bounds how far its clock is ahead of the boot clock, from below and from above, and
# several answers narrow that down. The least offset counts: no job starts early by the store's clock. Claims and
# beats tell the time. A store on this machine has the machine's own clock: there is nothing to learn.

DRIFT = 0.00005  # seconds in a second by which two clocks may grow apart


class StoreClock:
    """A clock that learns the store's time. Until it has heard of it, or if it is the same, it is the machine's."""

    def __init__(self, machine: Clock, *, same: bool = False) -> None:
        self._machine = machine
        self._same = same
        self.boot = machine.boot
        """Return seconds since this machine booted. The very method of the machine's: it is asked all the time."""
        self._learned_at: float | None = None
        self._least = self._most = 0.0

    def now(self) -> datetime:
        """Return the store's time."""
        if self._learned_at is None:
            return self._machine.now()
        return datetime.fromtimestamp(self.boot() + self._least, UTC)

    @classmethod
    def of(cls, backend: Backend, machine: Clock) -> "StoreClock":
        """Return the clock of a store: one that goes by the boot clock is on this machine, and tells its time."""
        return cls(machine, same=backend.verbs.lease_clock is LeaseClock.BOOT)

    @property
    def vagueness(self) -> float:
        """By how many seconds it may be behind the store's."""
        return 0.0 if self._learned_at is None else self._most - self._least

    def learn(self, sent_at: float, store_now: datetime, answered_at: float) -> None:
        """Hear that it was `store_now` at the store, some time between two readings of the boot clock."""
        if self._same:
            return
        told = store_now.timestamp()
        least, most = told - answered_at, told - sent_at
        if self._learned_at is not None:
            drift = abs(answered_at - self._learned_at) * DRIFT
            known = (max(least, self._least - drift), min(most, self._most + drift))
            if known[0] <= known[1]:
                least, most = known
            elif answered_at < self._learned_at:
                return  # a clock was set, and what is known already is newer
        self._least, self._most, self._learned_at = least, most, max(answered_at, self._learned_at or answered_at)


# Claims and beats tell the time too, but they wait for the server's disk. A small read is answered at once; it is
# made only while jobs are held, and seldom.

LOOK_EVERY = 0.5  # seconds between two looks whether jobs are held
ASK_EVERY = 10.0  # seconds between two questions where answers do not come quicker; the first ones are asked sooner
VAGUE = 0.001  # seconds by which jobs may be late because the time is not known better


class Timekeeper:
    """Sees to it that a worker knows the store's time."""

    def __init__(
        self,
        calls: StoreCalls,
        clock: StoreClock,
        held: Callable[[], int],
        learned: Callable[[], None] = lambda: None,
    ) -> None:
        self._calls = calls
        self._clock = clock
        self._held = held
        self._learned = learned

    async def run(self) -> None:
        """Ask whenever it is worth it."""
        pause = LOOK_EVERY
        while True:
            is_vague = self._clock.vagueness > VAGUE
            if is_vague and self._held():
                await self._ask()
                pause = min(2 * pause, ASK_EVERY)
                await asyncio.sleep(pause)
            else:
                pause = pause if is_vague else LOOK_EVERY
                await asyncio.sleep(LOOK_EVERY)

    async def _ask(self) -> None:
        sent_at = self._clock.boot()
        try:
            answer = await self._calls.once(ask_time(self._calls.verbs))
        except StoreError:
            return  # the claims say what is wrong with it
        self._clock.learn(sent_at, answer.now, self._clock.boot())
        self._learned()


CLOSED_WITHIN = 1.0  # seconds for a store to end what it is about


class StoreCloser:
    """Closes the store of a process that is about to end."""

    def __init__(self) -> None:
        self._closing: threading.Thread | None = None

    def close(self, backend: Backend) -> None:
        """Let go of a store, and wait until that is done, but no longer than this."""
        self._closing = threading.Thread(target=backend.close, name="standfast-closing", daemon=True)
        self._closing.start()
        self._closing.join(CLOSED_WITHIN)

    def leave(self) -> None:
        """End the process here and now if a call of the store would keep it: Python waits for such threads."""
        if self._closing is not None and self._closing.is_alive():
            os._exit(0)
