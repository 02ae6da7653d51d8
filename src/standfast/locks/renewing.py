"""The rounds of who keeps places in locks: renew what is due, say what is lost, give back what was left behind.

A keeper goes them in its thread, for its own process; a supervisor among its other loops, for its children.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from random import Random
from typing import Any, Protocol

from standfast.clock import Clock
from standfast.core.record import Kind
from standfast.locks.errands import give_back, renew
from standfast.locks.holding import Holding
from standfast.store.errand import arun_errand
from standfast.store.protocol import Store
from standfast.store.verb import Verb
from standfast.wakeup import Wakeup

log = logging.getLogger(__name__)

RENEW_AFTER = 1 / 3
"""Which part of a `ttl` passes before it is renewed."""

RENEW_LATE = 1 / 2
"""Which part of it passes before it is renewed here though somebody else should have done so."""

LONGEST_REST = 1.0
"""Seconds after which the clock is looked at: the timers of an event loop do not count suspended time."""

LINGER = 1.0
"""Seconds that the thread stays when nothing is held any more."""

AGAIN_AFTER = 0.05
"""Which part of a `ttl` passes before a renewal that failed is tried again."""


class Book(Protocol):
    """What is kept, and what becomes of it."""

    @property
    def closed(self) -> bool:
        """Whether nothing more will be kept."""
        ...

    def held(self) -> Sequence[Holding]:
        """Return what is held."""
        ...

    def leaving(self) -> Sequence[Holding]:
        """Return what is still to be given back."""
        ...

    def left(self, holding: Holding) -> None:
        """Note that a place was given back, or has ended by itself."""
        ...

    def lost(self, holding: Holding) -> None:
        """Give up a place, and tell who holds it."""
        ...

    def leave(self) -> bool:
        """Tell whether the rounds are over, as there is nothing to keep."""
        ...


def by_name(holdings: Sequence[Holding]) -> dict[str, list[Holding]]:
    """Return holdings by the name of their lock."""
    named: dict[str, list[Holding]] = {}
    for each in holdings:
        named.setdefault(each.name, []).append(each)
    return named


class Rounds:
    """Keeps what is in a book, over `run`; what is due is renewed after this `part` of its `ttl`."""

    def __init__(
        self,
        book: Book,
        run: Callable[[Verb[Any]], Awaitable[Any]],
        verbs: Store,
        clock: Clock,
        part: float = RENEW_AFTER,
    ) -> None:
        self._book = book
        self._run = run
        self._verbs = verbs
        self._clock = clock
        self._part = part
        self._wakeup = Wakeup()
        self.wake = self._wakeup.call
        """Has the book looked at again; to be called in the event loop of the rounds."""
        self._random = Random()  # noqa: S311 - jitter
        self._not_before = dict[str, float]()
        self._renewing: asyncio.Task[None] | None = None
        self._giving_back: asyncio.Task[None] | None = None

    async def go(self) -> None:
        """Go on until the book is closed."""
        try:
            while await self._has_work():
                for holding in self._book.held():
                    if self._book.closed:
                        self._book.lost(holding)
                    elif holding.lost:
                        log.warning("lock %r is lost: it could not be renewed in time", holding.name)
                        self._book.lost(holding)
                self._begin_to_renew()
                self._begin_to_give_back()
                await self._wakeup.rest(self._pause())
        finally:
            for task in (self._renewing, self._giving_back):
                if task is not None:
                    task.cancel()

    async def _has_work(self) -> bool:
        """Stay a while without anything to do; return whether there is something again."""
        leave_at = self._clock.boot() + LINGER
        while not self._book.held() and not self._book.leaving():
            left = leave_at - self._clock.boot()
            if (left <= 0 or self._book.closed) and self._book.leave():
                return False
            await self._wakeup.rest(left if left > 0 else None)
        return True

    def _pause(self) -> float:
        held, now = self._book.held(), self._clock.boot()
        times = [min(self._due_at(each), each.ends_at) for each in held if not self._is_renewing]
        times += [each.ends_at for each in held]
        return max(min([now + LONGEST_REST, *times]) - now, 0.001)

    @property
    def _is_renewing(self) -> bool:
        return self._renewing is not None and not self._renewing.done()

    def _due_at(self, holding: Holding) -> float:
        due_at = holding.granted_at + holding.ttl * self._part
        return max(due_at, self._not_before.get(holding.id, 0.0))

    # -- renewing ----------------------------------------------------------------------------------------------

    def _begin_to_renew(self) -> None:
        if self._is_renewing:
            return
        held, now = [each for each in self._book.held() if each.renews], self._clock.boot()
        self._not_before = {each.id: self._not_before.get(each.id, 0.0) for each in held}
        due = [each for each in held if self._due_at(each) <= now]
        if due:
            # What would be due soon goes along: one errand is for all.
            soon = [each for each in held if self._due_at(each) <= now + each.ttl / 10]
            self._renewing = asyncio.create_task(self._renew(soon))
            self._renewing.add_done_callback(lambda _: self._wakeup.call())

    async def _renew(self, holdings: Sequence[Holding]) -> None:
        asked_at = self._clock.boot()
        shortest = min(each.ttl for each in holdings)
        held = {name: {each.id: each.span for each in own} for name, own in by_name(holdings).items()}
        stays: Mapping[str, bool] = {}
        try:
            async with asyncio.timeout(shortest / 4):
                stays = await arun_errand(self._run, renew(self._verbs, Kind.LOCK, held))
        except Exception as error:  # noqa: BLE001 - whatever it was, there is time to try again, and not at once
            log.debug("locks could not be renewed, trying again: %r", error)
        still_held = {each.id for each in self._book.held()}
        for each in holdings:
            if each.id not in still_held:
                continue  # it was given back meanwhile
            if stays.get(each.id) is None:
                pause = each.ttl * AGAIN_AFTER * self._random.uniform(0.5, 1)
                self._not_before[each.id] = self._clock.boot() + pause
            elif stays[each.id]:
                each.renewed(asked_at)
            else:
                log.warning("lock %r is lost: somebody released it, or its time was over in the store", each.name)
                self._book.lost(each)

    # -- giving back -------------------------------------------------------------------------------------------

    def _begin_to_give_back(self) -> None:
        leaving = self._book.leaving()
        if leaving and (self._giving_back is None or self._giving_back.done()):
            self._giving_back = asyncio.create_task(self._give_back(leaving))
            self._giving_back.add_done_callback(lambda _: self._wakeup.call())

    async def _give_back(self, leaving: Sequence[Holding]) -> None:
        failed = False
        for each in leaving:
            if each.lost:  # it has ended by itself
                self._book.left(each)
                continue
            try:
                async with asyncio.timeout(each.ttl):
                    await arun_errand(self._run, give_back(self._verbs, Kind.LOCK, each.name, each.id))
            except Exception:  # noqa: BLE001 - likewise
                failed = True
            else:
                self._book.left(each)
        if failed:
            await asyncio.sleep(self._random.uniform(0.1, 0.5))
