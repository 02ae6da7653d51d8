"""Keeps what a process holds: one thread renews all its places in locks, and says when one is lost.

    acquired ─► kept: renewed at each third of its `ttl` ─► released
                  └─► lost: not renewed in time, or taken by a person

It starts with the first place, and ends when nothing is held any more. Where another process keeps the places for
this one, as a supervisor does for its worker, the thread renews only what that one leaves too late.
"""

import os
from collections.abc import Callable
from typing import Protocol

from standfast.attendant import Attendant
from standfast.clock import Clock
from standfast.locks.holding import Holding, Kept
from standfast.store.backend import Backend


class Deputy(Protocol):
    """Keeps places for this process, however busy it is. Used from any thread."""

    @property
    def pid(self) -> int:
        """The process that it keeps places for: not for a fork of it."""
        ...

    def whose(self) -> str:
        """Say for whom the present code works."""
        ...

    def keep(self, holding: Holding) -> Kept | None:
        """Begin to keep a place; return what tells until when it is kept, None where it cannot be."""
        ...

    def let_go(self, holding: Holding) -> None:
        """Keep a place no longer."""
        ...


FindDeputy = Callable[[], Deputy | None]
"""Asked each time: an app may hold locks before its worker has a deputy for it."""


class Keeper:
    """The places that one process has in the locks of one store."""

    def __init__(self, backend: Backend, clock: Clock, find_deputy: FindDeputy) -> None:
        self.backend = backend
        self.clock = clock
        self.closed = False
        self._find_deputy = find_deputy
        self._attendant = Attendant("standfast-locks", self._live, self._failed)
        self._lock = self._attendant.lock
        self.attend = self._attendant.attend
        """Lets the thread be woken like this from now on."""
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
        from standfast.locks.thread import go_rounds  # noqa: PLC0415 - only who holds loads what the thread needs

        go_rounds(self)

    def _failed(self, _: Exception) -> None:
        """Give up all places: who holds one that nobody keeps has to know."""
        with self._lock:
            self._attendant.leave()
            self._leaving.clear()
        for holding in self.held():
            self.lost(holding)


class Keepers:
    """The keeper of each process that has an open store: nothing of it passes through a fork."""

    def __init__(self, backend: Backend, clock: Clock, find_deputy: FindDeputy) -> None:
        self._backend = backend
        self._clock = clock
        self._find_deputy = find_deputy
        self._keepers: dict[int, Keeper] = {}

    def __call__(self) -> Keeper:
        """Return this process's own."""
        # No lock, it might have been held during a fork: of two threads the first `setdefault` wins.
        pid = os.getpid()
        own = self._keepers.get(pid)
        return own or self._keepers.setdefault(pid, Keeper(self._backend, self._clock, self._find_deputy))

    def close(self) -> None:
        """Let this process keep nothing any more."""
        if (keeper := self._keepers.get(os.getpid())) is not None:
            keeper.close()
