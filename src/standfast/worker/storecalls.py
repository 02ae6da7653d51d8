"""Calls of the store by a worker or supervisor: bounded in time, repeated where that is right, watched.

The store being away is said once when it goes and once when it is back, not at every try. It may be away for one
kind of call and not for another: a long write of someone else holds up jobs and not beats. Any answer shows that
reads are answered too. A failed call that nobody repeats for a while is forgotten: else the store would seem away
until somebody has a reason to make such a call.
"""

import asyncio
import math
from collections.abc import Awaitable, Callable
from random import Random
from typing import TypeVar

from standfast.clock import Clock
from standfast.errors import StoreError, StoreUnavailableError, ValueNotStoredError
from standfast.events import Events, StoreAway, StoreBack
from standfast.patience import LONGEST_PAUSE, PASSING, Pauses
from standfast.store.backend import Backend
from standfast.store.protocol import Store
from standfast.store.verb import Access, Verb

T = TypeVar("T")

UNTRIED = 30.0
"""Seconds after which a failed call that nobody repeats says nothing more about the store."""

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
        self.trouble = ""
        """What was wrong with the last call that failed, in words."""
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
        mark, asked_at = object(), self._clock.boot()
        self._asked_at[mark] = asked_at
        try:
            answer = await _within(self._timeout, self._backend.arun(verb))
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
        self, make: Callable[[], Verb[T]], passing: tuple[type[StoreError], ...] = PASSING
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

    def pauses(self, longest: float = LONGEST_PAUSE) -> Pauses:
        """Return the pauses of a caller that tries again by itself."""
        return Pauses(self._random, longest)

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


async def _within(seconds: float, answer: Awaitable[T]) -> T:
    """Wait for an answer, but no longer than this. Raises TimeoutError; not where only this loop was late."""
    loop = asyncio.get_running_loop()
    due_at = loop.time() + seconds

    def expire() -> None:
        now = loop.time()
        limit.reschedule(now if now - due_at < CATCH_UP else now + CATCH_UP)

    async with asyncio.timeout(None) as limit:
        timer = loop.call_at(due_at, expire)
        try:
            return await answer
        finally:
            timer.cancel()
