"""Keeps the locks of children, gives them back when a child dies, and takes the permit of the fleet to recycle."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from standfast.durable.lockkeeper import Holding, Rounds
from standfast.durable.lockstate import LockRequest, Look, give_back, take
from standfast.errors import StoreError
from standfast.model.clock import Clock
from standfast.model.records import Kind
from standfast.stores.contract import Store
from standfast.stores.verb import Procedure, Verbs, arun_procedure, procedure
from standfast.worker.locks import LOST, LockExpiryFile
from standfast.worker.messages import Holds, LetsGo
from standfast.worker.storecalls import StoreCalls


class HeldLock(Holding):
    """A place that a child has in a lock; what becomes of it is written where the child reads it."""

    def __init__(self, worker: str, holds: Holds, clock: Clock) -> None:
        super().__init__(holds.name, holds.holder, 0, ttl=holds.ttl, asked_at=holds.asked_at, clock=clock)
        self.worker = worker
        self._file = LockExpiryFile(Path(holds.file), create=False)
        self._slot = holds.slot

    def renewed(self, asked_at: float) -> None:
        """Let the child know until when it is held."""
        super().renewed(asked_at)
        self._file.write(self._slot, self.ends_at)

    def lose(self) -> None:
        """Let the child know that it is lost."""
        super().lose()
        self._file.write(self._slot, LOST)

    def close(self) -> None:
        """Write no more of it."""
        self._file.close()


class HeldLocks:
    """What the children of one supervisor hold."""

    closed = False

    def __init__(self, calls: StoreCalls, clock: Clock) -> None:
        self._clock = clock
        self._held = dict[str, HeldLock]()
        self._orphans = dict[str, HeldLock]()
        self._changed = asyncio.Event()
        self._rounds = Rounds(self, calls.once, calls.verbs, clock)
        self.run = self._rounds.go  # keeps them, for as long as the supervisor lives

    def heed(self, worker: str, word: Holds | LetsGo) -> None:
        """Begin to keep a place for a child, or keep it no longer."""
        if isinstance(word, Holds):
            self.take(worker, word)
        else:
            self.let_go(word.holder)

    def take(self, worker: str, holds: Holds) -> None:
        """Begin to keep a place for a child."""
        try:
            self._held[holds.holder] = HeldLock(worker, holds, self._clock)
        except OSError:
            return  # then the child keeps it itself
        self._rounds.wake()

    def let_go(self, holder: str) -> None:
        """Keep a place no longer: the child gives it back itself."""
        if (lock := self._held.pop(holder, None)) is not None:
            lock.close()

    def child_died(self, worker: str) -> None:
        """Give back what a child had: its code can no longer run."""
        for lock in [each for each in self._held.values() if each.worker == worker]:
            self._orphans[lock.id] = self._held.pop(lock.id)
        self._rounds.wake()

    async def all_given_back(self, worker: str) -> None:
        """Wait until nothing of a dead child is held any more."""
        while any(each.worker == worker for each in self._orphans.values()):
            await self._changed.wait()

    # -- the book of the rounds --------------------------------------------------------------------------------

    def held(self) -> Sequence[Holding]:
        """Return what is held."""
        return list(self._held.values())

    def leaving(self) -> Sequence[Holding]:
        """Return what is still to be given back."""
        return list(self._orphans.values())

    def left(self, holding: Holding) -> None:
        """Note that a place was given back, or has ended by itself."""
        lock = self._orphans.pop(holding.id, None)
        if lock is not None:
            lock.close()
        self._changed.set()
        self._changed = asyncio.Event()

    def lost(self, holding: Holding) -> None:
        """Give up a place, and let its child know."""
        holding.lose()
        self.let_go(holding.id)

    def leave(self) -> bool:
        """Stay: other children may come to hold something."""
        return False


# A permit is taken, renewed and given back by comparing versions, and ends by the store's time. Its holder counts
# by its own boot clock from before it asked, so two supervisors never both believe to have it.

RECYCLE = "recycle"  # the permit to replace children
GIVEN_BACK_WITHIN = 1.0
"""Seconds for the store to take one back; then it ends by itself, and nobody's stop waits for it."""


@procedure
def take_permit(verbs: Store, name: str, holder: str, span: timedelta) -> Verbs[bool]:
    """Take a permit for this long from now, or have it for so long again; tell whether that was granted."""
    look: Look = yield from take(verbs, Kind.PERMIT, name, LockRequest(holder, span)).steps
    return look.token is not None


def give_back_permit(verbs: Store, name: str, holder: str) -> Procedure[bool]:
    """Let others have a permit at once, if it is still ours."""
    return give_back(verbs, Kind.PERMIT, name, holder, forgets=True)


@dataclass(eq=False)
class Permit:
    """A permit of the fleet, as one supervisor asks for it; granted for `span` seconds, again and again."""

    calls: StoreCalls
    clock: Clock
    holder: str
    span: float
    name: str = RECYCLE

    def __post_init__(self) -> None:
        self._ends_at = 0.0

    @property
    def ours(self) -> bool:
        """Whether it is ours now."""
        return self.clock.boot() < self._ends_at

    @asynccontextmanager
    async def held(self) -> AsyncIterator[bool]:
        """Have it, if it is to be had, for as long as the block takes; tell whether it is."""
        if not await self._take():
            yield False
            return
        renewing = asyncio.ensure_future(self._renew())
        try:
            yield True
        finally:
            renewing.cancel()
            self._ends_at = 0.0
            with suppress(StoreError, TimeoutError):  # else it ends by itself
                async with asyncio.timeout(GIVEN_BACK_WITHIN):
                    procedure = give_back_permit(self.calls.verbs, self.name, self.holder)
                    await arun_procedure(self.calls.once, procedure)

    async def _take(self) -> bool:
        asked_at = self.clock.boot()
        span = timedelta(seconds=self.span)
        try:
            procedure = take_permit(self.calls.verbs, self.name, self.holder, span)
            taken = await arun_procedure(self.calls.once, procedure)
        except StoreError:
            return False
        if taken:
            self._ends_at = asked_at + self.span
        return taken

    async def _renew(self) -> None:
        while True:
            await asyncio.sleep(self.span / 3)
            await self._take()
