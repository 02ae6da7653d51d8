"""Renews the locks of a process.

A place in a lock as the process that has it knows it.

It goes by the boot clock, from before it asked, and ends a margin before the store ends it: so who holds knows of
its loss before anybody else can have the place. Lost is lost: nothing makes it valid again.
"""

import asyncio
import logging
import math
import os
import threading
import weakref
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import timedelta
from random import Random
from typing import Any, Protocol

from standfast.durable.lockstate import give_back, renew
from standfast.model.clock import Clock
from standfast.model.concurrency import OnDemandThread, Wakeup
from standfast.model.records import Kind
from standfast.stores.backend import Backend
from standfast.stores.contract import Store
from standfast.stores.verb import Verb, arun_procedure

log = logging.getLogger(__name__)

MARGIN = 1.0
"""Seconds before the end of a `ttl` at which its holder gives up, or a tenth of it where that is less."""

DRIFT = 0.001
"""Which part of a long `ttl` that is at least: by so much two clocks may differ in what they take for a second."""

Kept = Callable[[], float]
"""Until which boot time somebody else has kept a place for us; less than 0 once it is lost."""


class Holding:
    """One place in a lock, held from `asked_at` by the boot clock on. Read from any thread."""

    renews = True
    """Whether it ends unless it is renewed."""

    def __init__(self, name: str, holder: str, token: int, *, ttl: float, asked_at: float, clock: Clock) -> None:
        self.name = name
        self.id = holder
        self.token = token
        self.ttl = ttl
        self.kept: Kept = lambda: 0.0
        self._when_lost: deque[Callable[[], object]] = deque()
        self._margin = min(max(MARGIN, ttl * DRIFT), ttl / 10) if math.isfinite(ttl) else 0.0
        self._clock = clock
        self._pid = os.getpid()
        self._ends_at = asked_at + ttl - self._margin
        self._lost = False
        self._owner: Callable[[], object] = lambda: self

    def belongs_to(self, owner: object) -> None:
        """Be held for a `with` block of this lock object: if the object is gone, nothing can end the block."""
        self._owner = weakref.ref(owner)

    @property
    def forsaken(self) -> bool:
        """Whether the lock object is gone whose `with` block it is held for."""
        return self._owner() is None

    @property
    def is_ours(self) -> bool:
        """Whether this process took it: a fork of it has no part in that."""
        return os.getpid() == self._pid

    @property
    def ends_at(self) -> float:
        """Until which boot time it is held unless it is renewed."""
        kept = self.kept()
        return -math.inf if kept < 0 else max(self._ends_at, kept)

    @property
    def granted_at(self) -> float:
        """The boot time from which it was last granted."""
        return self.ends_at + self._margin - self.ttl

    @property
    def lost(self) -> bool:
        """Whether another may have the place by now."""
        if not self._lost and self._clock.boot() >= self.ends_at:
            self._lost = True
        return self._lost

    def renewed(self, asked_at: float) -> None:
        """Hold it for its `ttl` from when that was asked for."""
        self._ends_at = max(self._ends_at, asked_at + self.ttl - self._margin)

    def settle(self) -> None:
        """Go by what is known here from now on: nobody else keeps it any more."""
        self._lost, self._ends_at, self.kept = self.lost, self.ends_at, lambda: 0.0

    def lose(self) -> None:
        """Hold it no more."""
        self._lost = True

    def tell_lost(self) -> None:
        """Let everybody know who wants to; what fails at that harms nobody else."""
        while True:
            try:
                act = self._when_lost.pop()
            except IndexError:  # another thread may tell as well, and each is told once
                return
            try:
                act()
            except Exception:
                log.exception("what was to hear that lock %r is lost has failed", self.name)

    def when_lost(self, act: Callable[[], object]) -> None:
        """Have something called when it is lost; at once, if it is by now."""
        self._when_lost.append(act)
        if self._lost:
            self.tell_lost()


# The rounds of who keeps places in locks: renew what is due, say what is lost, give back what was left behind.
#
# A keeper goes them in its thread, for its own process; a supervisor among its other loops, for its children.

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

    def held(self) -> Sequence[Holding]:
        """Return what is held."""

    def leaving(self) -> Sequence[Holding]:
        """Return what is still to be given back."""

    def left(self, holding: Holding) -> None:
        """Note that a place was given back, or has ended by itself."""

    def lost(self, holding: Holding) -> None:
        """Give up a place, and tell who holds it."""

    def leave(self) -> bool:
        """Tell whether the rounds are over, as there is nothing to keep."""


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
            # What would be due soon goes along: one procedure is for all.
            soon = [each for each in held if self._due_at(each) <= now + each.ttl / 10]
            self._renewing = asyncio.create_task(self._renew(soon))
            self._renewing.add_done_callback(lambda _: self._wakeup.call())

    async def _renew(self, holdings: Sequence[Holding]) -> None:
        asked_at = self._clock.boot()
        shortest = min(each.ttl for each in holdings)
        held: dict[str, dict[str, timedelta]] = {}
        for each in holdings:
            held.setdefault(each.name, {})[each.id] = timedelta(seconds=each.ttl)
        stays: Mapping[str, bool] = {}
        try:
            async with asyncio.timeout(shortest / 4):
                stays = await arun_procedure(self._run, renew(self._verbs, Kind.LOCK, held))
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
                    await arun_procedure(self._run, give_back(self._verbs, Kind.LOCK, each.name, each.id))
            except Exception:  # noqa: BLE001 - likewise
                failed = True
            else:
                self._book.left(each)
        if failed:
            await asyncio.sleep(self._random.uniform(0.1, 0.5))


# Keeps what a process holds: one thread renews all its places in locks, and says when one is lost.
#
#     acquired ─► kept: renewed at each third of its `ttl` ─► released
#                   └─► lost: not renewed in time, or taken by a person
#
# It starts with the first place, and ends when nothing is held any more. Where another process keeps the places for
# this one, as a supervisor does for its worker, the thread renews only what that one leaves too late.


class Deputy(Protocol):
    """Keeps places for this process, however busy it is. Used from any thread."""

    @property
    def pid(self) -> int:
        """The process that it keeps places for: not for a fork of it."""

    def whose(self) -> str:
        """Say for whom the present code works."""

    def keep(self, holding: Holding) -> Kept | None:
        """Begin to keep a place; return what tells until when it is kept, None where it cannot be."""

    def let_go(self, holding: Holding) -> None:
        """Keep a place no longer."""


FindDeputy = Callable[[], Deputy | None]
"""Asked each time: an app may hold locks before its worker has a deputy for it."""


class LockKeeper:
    """The places that one process has in the locks of one store."""

    def __init__(self, backend: Backend, clock: Clock, find_deputy: FindDeputy) -> None:
        self._backend = backend
        self._clock = clock
        self.closed = False
        self._find_deputy = find_deputy
        self._attendant = OnDemandThread("standfast-locks", self._live, self._failed)
        self._lock = self._attendant.lock
        self._holdings = dict[str, Holding]()
        self._leaving = dict[str, Holding]()

    @property
    def deputy(self) -> Deputy | None:
        """Who keeps places for this process, if anybody does by now."""
        deputy = self._find_deputy()
        return deputy if deputy is not None and deputy.pid == os.getpid() else None

    def keep(self, holding: Holding) -> None:
        """Begin to renew a place."""
        deputy = self.deputy
        kept = deputy.keep(holding) if deputy is not None and holding.renews else None
        if kept is not None:
            holding.kept = kept
        with self._lock:
            self._holdings[holding.id] = holding
            self._attendant.call()

    def let_go(self, holding: Holding) -> None:
        """Renew a place no longer."""
        with self._lock:
            self._holdings.pop(holding.id, None)
        if (deputy := self.deputy) is not None:
            deputy.let_go(holding)

    def abandon(self, holding: Holding) -> None:
        """Renew a place no longer and give it back later: the call that took it, or may have, was interrupted."""
        self.let_go(holding)
        self.give_back_later(holding)

    def give_back_later(self, holding: Holding) -> None:
        """Give back a place that could not be given back now, or in which line one may still stand."""
        if not holding.renews:
            holding.lose()
            return
        with self._lock:
            if not self.closed:
                self._leaving[holding.id] = holding
                self._attendant.call()

    def close(self) -> None:
        """Keep nothing any more: what is held is lost."""
        with self._lock:
            self.closed = True
            self._leaving.clear()
        for holding in self.held():
            self.lost(holding)
        self._attendant.join()

    # -- in the thread -----------------------------------------------------------------------------------------

    def held(self) -> list[Holding]:
        """Return what is held. Places whose lock object is gone are given back."""
        with self._lock:
            holdings = list(self._holdings.values())
        for holding in holdings:
            if holding.forsaken:
                self.abandon(holding)
        return [each for each in holdings if not each.forsaken]

    def leaving(self) -> list[Holding]:
        """Return what is still to be given back."""
        with self._lock:
            return list(self._leaving.values())

    def left(self, holding: Holding) -> None:
        """Note that a place was given back, or has ended by itself."""
        with self._lock:
            self._leaving.pop(holding.id, None)

    def lost(self, holding: Holding) -> None:
        """Give up a place, and tell who holds it."""
        holding.lose()
        self.let_go(holding)
        holding.tell_lost()

    def leave(self) -> bool:
        """Let the thread go if nothing is left to do, and return whether it may."""
        with self._lock:
            may = self.closed or (not self._holdings and not self._leaving)
            if may:
                self._attendant.leave()
            return may

    def _live(self) -> None:
        """Keep what is held, in this thread, until there has been nothing for a moment."""
        asyncio.run(self._go_rounds())

    async def _go_rounds(self) -> None:
        loop, backend = asyncio.get_running_loop(), self._backend
        part = RENEW_AFTER if self.deputy is None else RENEW_LATE

        async def run(verb: Verb[Any]) -> Any:
            # When the main thread is over, others may hold locks for long, but nobody gets threads for async calls.
            return await backend.arun(verb) if threading.main_thread().is_alive() else backend.run(verb)

        rounds = Rounds(self, run, backend.verbs, self._clock, part)
        self._attendant.attend(lambda: loop.call_soon_threadsafe(rounds.wake))
        await rounds.go()

    def _failed(self, _: Exception) -> None:
        """Give up all places: who holds one that nobody keeps has to know."""
        with self._lock:
            self._attendant.leave()
            self._leaving.clear()
        for holding in self.held():
            self.lost(holding)


class LockKeepers:
    """The keeper of each process that has an open store: nothing of it passes through a fork."""

    def __init__(self, backend: Backend, clock: Clock, find_deputy: FindDeputy) -> None:
        self._backend = backend
        self._clock = clock
        self._find_deputy = find_deputy
        self._keepers: dict[int, LockKeeper] = {}

    def __call__(self) -> LockKeeper:
        """Return this process's own."""
        # No lock, it might have been held during a fork: of two threads the first `setdefault` wins.
        pid = os.getpid()
        own = self._keepers.get(pid)
        return own or self._keepers.setdefault(pid, LockKeeper(self._backend, self._clock, self._find_deputy))

    def close(self) -> None:
        """Let this process keep nothing any more."""
        if (keeper := self._keepers.get(os.getpid())) is not None:
            keeper.close()
