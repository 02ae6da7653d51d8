"""The locks that children hold, kept by their supervisor, and given back at once when a child dies.

held by a child ─► renewed at each third of its `ttl` ─► let go by the child
                     ├─► lost: the child reads it in the file that both have
                     └─► the child is dead ─► given back
"""

import asyncio
from collections.abc import Sequence
from pathlib import Path

from standfast.clock import Clock
from standfast.locks.holding import Holding
from standfast.locks.renewing import Rounds
from standfast.worker.keptfile import LOST, KeptFile
from standfast.worker.messages import Holds
from standfast.worker.storecalls import StoreCalls


class Ward(Holding):
    """A place that a child has in a lock; what becomes of it is written where the child reads it."""

    def __init__(self, worker: str, holds: Holds, clock: Clock) -> None:
        super().__init__(holds.name, holds.holder, 0, ttl=holds.ttl, asked_at=holds.asked_at, clock=clock)
        self.worker = worker
        self._file = KeptFile(Path(holds.file), create=False)
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


class Wards:
    """What the children of one supervisor hold."""

    closed = False

    def __init__(self, calls: StoreCalls, clock: Clock) -> None:
        self._clock = clock
        self._held = dict[str, Ward]()
        self._orphans = dict[str, Ward]()
        self._changed = asyncio.Event()
        self._rounds = Rounds(self, calls.once, calls.verbs, clock)
        self.run = self._rounds.go
        """Keeps them, for as long as the supervisor lives."""

    def take(self, worker: str, holds: Holds) -> None:
        """Begin to keep a place for a child."""
        try:
            self._held[holds.holder] = Ward(worker, holds, self._clock)
        except OSError:
            return  # then the child keeps it itself
        self._rounds.wake()

    def let_go(self, holder: str) -> None:
        """Keep a place no longer: the child gives it back itself."""
        if (ward := self._held.pop(holder, None)) is not None:
            ward.close()

    def child_died(self, worker: str) -> None:
        """Give back what a child had: its code can no longer run."""
        for ward in [each for each in self._held.values() if each.worker == worker]:
            self._orphans[ward.id] = self._held.pop(ward.id)
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
        ward = self._orphans.pop(holding.id, None)
        if ward is not None:
            ward.close()
        self._changed.set()
        self._changed = asyncio.Event()

    def lost(self, holding: Holding) -> None:
        """Give up a place, and let its child know."""
        holding.lose()
        self.let_go(holding.id)

    def leave(self) -> bool:
        """Stay: other children may come to hold something."""
        return False
