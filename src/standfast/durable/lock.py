"""Locks and semaphores: `with app.lock("nightly"):`, or `async with`. Sync callers run the same async code."""

import asyncio
import math
import os
import socket
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import timedelta
from random import Random
from types import TracebackType
from typing import Any, Protocol, Self, TypeVar
from uuid import uuid4

from standfast.durable.lockkeeper import Deputy, Holding, LockKeepers
from standfast.durable.lockstate import LockRequest, Look, give_back, read_timeout, take
from standfast.errors import LockLostError, LockStateError, LockTimeoutError
from standfast.model.backoff import TRANSIENT_ERRORS, RetryDeadline
from standfast.model.clock import Clock
from standfast.model.concurrency import await_to_end, refuse_in_event_loop, run_without_loop
from standfast.model.configuration import Settings
from standfast.model.records import Kind
from standfast.model.validation import Seconds
from standfast.stores.backend import Backend
from standfast.stores.verb import Procedure, arun_procedure, run_procedure

T = TypeVar("T")


class House(Protocol):
    """What a lock needs of its app."""

    settings: Settings
    clock: Clock

    @property
    def backend(self) -> Backend:
        """The open store."""

    @property
    def keepers(self) -> LockKeepers:
        """Who keeps what is held."""

    @property
    def retry_for(self) -> float:
        """For how many seconds to go on trying while the store is away."""


class Blocking:
    """Blocks the thread."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend

    async def run(self, procedure: Procedure[T]) -> T:
        """Run a procedure."""
        return run_procedure(self._backend.run, procedure)

    async def either(self, blocking: Callable[[], T], awaiting: Callable[[], Awaitable[T]]) -> T:  # noqa: ARG002
        """Do what blocks."""
        return blocking()

    async def pause(self, seconds: float) -> None:
        """Do nothing for a while."""
        time.sleep(seconds)  # noqa: ASYNC251 - there is no event loop


class Awaiting:
    """Leaves the event loop to others meanwhile."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend

    async def run(self, procedure: Procedure[T]) -> T:
        """Run a procedure, to its end: a call that was cancelled may give us a place after we have looked for it."""
        return await await_to_end(arun_procedure(self._backend.arun, procedure))

    async def either(self, blocking: Callable[[], T], awaiting: Callable[[], Awaitable[T]]) -> T:  # noqa: ARG002
        """Do what is to be awaited."""
        return await awaiting()

    async def pause(self, seconds: float) -> None:
        """Do nothing for a while."""
        await asyncio.sleep(seconds)


Ways = Blocking | Awaiting
"""How the store is asked and how one pauses."""

# Who is first in line looks up to twenty times a second at first, and ever less often the longer it has waited, down
# to some three times a second; it also looks when the holder's time is over. Who has others before it looks less
# often the more there are: hundreds who wait cost the store little more than a few.

SHORTEST_PAUSE = 0.05
LONGEST_PAUSE = 0.4
"""Seconds between two looks of the first in line; a free place is left to it for a little longer."""

PART_WAITED = 1 / 20
"""Which part of the time that it has waited the first in line pauses."""

PAUSE_PER_RANK = 0.1
"""Seconds that each one before it in line adds to the pause of one who waits."""

LONGEST_BEHIND = 5.0
"""Seconds between two looks of one who has many before it."""

AFTER_END = 0.005
"""Seconds after the end of a holder's time at which to look."""


def pause_after(look: Look, waited: float, random: Random) -> float:
    """Return for how many seconds to pause after a look that brought no place."""
    first = min(max(waited * PART_WAITED, SHORTEST_PAUSE), LONGEST_PAUSE)
    if look.rank:
        return min(first + look.rank * PAUSE_PER_RANK, LONGEST_BEHIND) * random.uniform(0.5, 1)
    if look.freed_in is not None:
        first = min(first, max(look.freed_in.total_seconds(), 0) + AFTER_END)
    return first * random.uniform(0.8, 1)


class Leased:
    """One of so many places in a lock: a lease in the store for its `ttl` at a time, which its holder renews."""

    def __init__(self, house: House, name: str, places: int, ttl: float) -> None:
        self._house = house
        self._name = name
        self._places = places
        self._ttl = ttl

    async def wait(self, ways: Ways, timeout: float | None) -> Holding | None:
        """Wait for a place and return it; None where none was to be had in time."""
        keeper, verbs = self._house.keepers(), self._house.backend.verbs
        bid = LockRequest(str(uuid4()), timedelta(seconds=self._ttl), self._places, _owner(keeper.deputy))
        try:
            holding = await self._acquire(ways, bid, timeout)
            if holding is not None:
                keeper.keep(holding)
            elif timeout:
                await ways.run(give_back(verbs, Kind.LOCK, self._name, bid.id))
        except BaseException:  # it may stand in line, or hold a place
            keeper.abandon(self._holding(bid, 0, self._house.clock.boot()))
            raise
        return holding

    async def _acquire(self, ways: Ways, bid: LockRequest, timeout: float | None) -> Holding | None:
        """Look for a place until there is one. While the store is away it is tried again for `retry_for` seconds."""
        house, random = self._house, Random()  # noqa: S311 - jitter
        # By a clock that goes on in any case: that of the app may stand still, in a test.
        began, patience = time.monotonic(), RetryDeadline(house.retry_for)
        while True:
            asked_at, waited = house.clock.boot(), time.monotonic() - began
            left = math.inf if timeout is None else timeout - waited
            try:
                look = await ways.run(take(house.backend.verbs, Kind.LOCK, self._name, bid, waits=left > 0))
            except TRANSIENT_ERRORS as error:
                if left <= 0:
                    raise  # nobody knows whether it is free, or even ours
                pause = patience.pause_after(error)
            else:
                patience.reset()
                if look.token is not None:
                    holding = self._holding(bid, look.token, asked_at)
                    if not holding.lost:  # else the answer was too long under way to count
                        return holding
                pause = pause_after(look, waited, random)
            if left <= 0:
                return None
            await ways.pause(min(pause, left))

    def _holding(self, bid: LockRequest, token: int, asked_at: float) -> Holding:
        return Holding(self._name, bid.id, token, ttl=self._ttl, asked_at=asked_at, clock=self._house.clock)

    async def give_back(self, ways: Ways, holding: Holding) -> bool:
        """Let others have it; tell whether it was held until now. What cannot be given back now is so later."""
        held = not holding.lost
        try:
            found = await ways.run(give_back(self._house.backend.verbs, Kind.LOCK, self._name, holding.id))
        except BaseException as error:
            self._house.keepers().give_back_later(holding)
            if isinstance(error, TRANSIENT_ERRORS):
                return held
            raise
        return held and found


def _owner(deputy: Deputy | None) -> str:
    """Return in words who asks, for people who wonder."""
    whose = "" if deputy is None else deputy.whose()
    return f"{socket.gethostname()} pid {os.getpid()}{whose and ' '}{whose}"


#     free ─► acquiring ─► held ─► released
#                           └────► lost ─► told at the end of the block, or when asked
#
# One object is one wish for a place, at one time: two who want the same lock make two objects.


class Flavour(Protocol):
    """By which means a lock is held."""

    async def wait(self, ways: Ways, timeout: float | None) -> Holding | None:
        """Wait for a place and have it kept; None where none was to be had in time."""

    async def give_back(self, ways: Ways, holding: Holding) -> bool:
        """Let others have it; tell whether it was held until now."""


class Lock:
    """A lock, or one place of a semaphore, that can be held by `with` or `async with`, again and again.

    `token` is greater than any that the lock gave before: hand it to what is protected, and let that refuse a
    lesser one than it has seen. The lock is renewed for as long as this process can; `lost` is True once it could
    not be, before anybody else can have it.
    """

    def __init__(self, house: House, name: str, flavour: Flavour, timeout: float | None) -> None:
        self._house = house
        self._name = name
        self._flavour = flavour
        self._timeout = timeout
        self._holding: Holding | None = None
        self._busy = dict[str, object]()
        """The call that acquires or holds it: one entry at most, which is added and removed in one step."""
        self._when_lost: list[Callable[[], object]] = []
        self._block: _Block | None = None

    def __repr__(self) -> str:
        how = "held" if self.held else "lost" if self.lost else "not held"
        return f"<{type(self).__name__} {self._name!r}, {how}>"

    @property
    def name(self) -> str:
        """Its name."""
        return self._name

    @property
    def held(self) -> bool:
        """True while it is held, and not lost. A process that was forked from the holder does not hold it."""
        holding = self._holding
        return holding is not None and holding.is_ours and not holding.lost

    @property
    def lost(self) -> bool:
        """True once it was held and may be another's by now, until it is released."""
        holding = self._holding
        return holding is not None and holding.is_ours and holding.lost

    @property
    def token(self) -> int:
        """The fencing token of this time that it is held. Raises LockStateError while it is not."""
        return self._own().token

    def raise_if_lost(self) -> None:
        """Raise LockLostError if it is lost: ask before what only the holder may do."""
        if self.lost:
            raise self._lost()

    def when_lost(self, act: Callable[[], object]) -> None:
        """Have something called, in a thread of ours, whenever it is lost while it is held; it must be quick."""
        self._when_lost.append(act)
        if self._holding is not None:
            self._holding.when_lost(act)

    # -- having it -----------------------------------------------------------------------------------------------

    def acquire(self, timeout: Seconds | None = None) -> bool:
        """Wait until it is held; tell whether it is. With a timeout, so many seconds at most; 0 tries once.

        Raises StoreError where the store is away, and LockStateError where this object holds it already, or where
        it would keep an event loop waiting.
        """
        call = object()
        try:
            return self._acquire_here(timeout, call)
        except BaseException:
            self._withdraw(call)
            raise

    async def aacquire(self, timeout: Seconds | None = None) -> bool:
        """Do as `acquire` does, without blocking the event loop. Cancelled, it ends when the store has answered."""
        call = object()
        try:
            return await self._acquire(Awaiting(self._house.backend), read_timeout(timeout), call)
        except BaseException:
            self._withdraw(call)
            raise

    def release(self) -> None:
        """Let others have it at once. Raises LockLostError where it was lost, LockStateError where it is not held.

        Where the store is away, that is made good for as long as it is held there; nobody has to wait longer.
        """
        run_without_loop(self._release(Blocking(self._house.backend)))

    async def arelease(self) -> None:
        """Do as `release` does, without blocking the event loop."""
        await self._release(Awaiting(self._house.backend))

    def _acquire_here(self, timeout: Seconds | None, call: object) -> bool:
        if timeout != 0:
            refuse_in_event_loop(
                f"waiting for lock {self._name!r}", "async with, or await lock.aacquire()", LockStateError
            )
        return run_without_loop(self._acquire(Blocking(self._house.backend), read_timeout(timeout), call))

    async def _acquire(self, ways: Ways, timeout: float | None, call: object) -> bool:
        """Acquire it for a call. If this is interrupted, its caller has to `_withdraw` the call."""
        if self._busy.setdefault("call", call) is not call:
            raise LockStateError(
                f"this object is acquiring lock {self._name!r} already, or holds it: one object holds a lock once;"
                " make another for another thread or task"
            )
        self._holding = holding = await self._flavour.wait(ways, timeout)
        if holding is None:
            self._busy.clear()
            return False
        for act in self._when_lost:
            holding.when_lost(act)
        return True

    async def _release(self, ways: Ways) -> None:
        holding = self._own()
        try:
            self._holding = None
            self._busy.clear()
            self._house.keepers().let_go(holding)
            was_held = await self._flavour.give_back(ways, holding)
        except BaseException:
            self._house.keepers().abandon(holding)
            raise
        if not was_held:
            raise self._lost()

    def _withdraw(self, call: object) -> None:
        """Give up what an interrupted call has taken: its caller does not know of it."""
        if self._busy.get("call") is call:
            holding, self._holding = self._holding, None
            self._busy.clear()
            if holding is not None and holding.is_ours:
                self._house.keepers().abandon(holding)

    def _own(self) -> Holding:
        holding = self._holding
        if holding is None:
            raise LockStateError(f"lock {self._name!r} is not held by this object: acquire it first, once")
        if not holding.is_ours:
            raise LockStateError(
                f"lock {self._name!r} is held by the process that this one was forked from, and can be used only"
                " there: acquire it here, by an object of its own"
            )
        return holding

    def _lost(self) -> LockLostError:
        return LockLostError(
            f"lock {self._name!r} was lost: it could not be renewed in time, or somebody released it;"
            " another may hold it. What was written under it is safe only where its token was checked"
        )

    # -- blocks --------------------------------------------------------------------------------------------------

    def __enter__(self) -> Self:
        call = object()
        try:
            acquired = self._acquire_here(self._timeout, call)
            if acquired:
                self._own().belongs_to(self)
        except BaseException:
            self._withdraw(call)
            raise
        if not acquired:
            raise self._not_in_time()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        holding = self._holding
        try:
            if not self._forked():
                self.release()
        except LockLostError as lost:
            if error is None:
                raise
            error.add_note(str(lost))
        except BaseException:
            self._leave(holding)
            raise

    async def __aenter__(self) -> Self:
        call = object()
        try:
            acquired = await self._acquire(Awaiting(self._house.backend), read_timeout(self._timeout), call)
            if acquired:
                self._block = _Block()
                self._own().belongs_to(self)
                self._own().when_lost(self._block.lost)
        except BaseException:
            self._withdraw(call)
            raise
        if not acquired:
            raise self._not_in_time()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        holding, was_cancelled = self._holding, False
        try:
            if self._forked():
                return
            block, self._block = self._block, None
            was_cancelled = block is not None and block.left(error)
            await self.arelease()
        except LockLostError as lost:
            if error is None or was_cancelled:
                raise lost from None
            error.add_note(str(lost))
        except BaseException:
            self._leave(holding)
            raise

    def _leave(self, holding: Holding | None) -> None:
        """Give back the lock of a block whose end was interrupted before that."""
        if holding is not None and self._holding is holding:
            self._withdraw(self._busy.get("call"))

    def _forked(self) -> bool:
        """Tell whether this is not the process that holds it: to leave the block there gives nothing back."""
        return self._holding is not None and not self._holding.is_ours

    def _not_in_time(self) -> LockTimeoutError:
        return LockTimeoutError(
            f"lock {self._name!r} was not free within {self._timeout or 0:g} s; `standfast locks list` shows"
            " who holds it"
        )


class _Block:
    """The block of an `async with`: it is cancelled when its lock is lost."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._task: asyncio.Task[Any] | None = asyncio.current_task()
        self._cancelled = False

    def lost(self) -> None:
        """Cancel the block, from any thread."""
        with suppress(RuntimeError):  # its loop is closed
            self._loop.call_soon_threadsafe(self._cancel)

    def _cancel(self) -> None:
        if self._task is not None:
            self._cancelled = True
            self._task.cancel()

    def left(self, error: BaseException | None) -> bool:
        """Tell whether the block ended because it was cancelled by us, and by nobody else."""
        task, self._task = self._task, None
        if task is None or not self._cancelled:
            return False
        others = task.uncancel()
        return isinstance(error, asyncio.CancelledError) and not others
