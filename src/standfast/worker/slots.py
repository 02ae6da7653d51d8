"""The slots of a worker: the attempts that run in them, and how many more may start."""

import asyncio

from standfast.worker.control import Control


class Slots:
    """Every attempt in progress has one of them."""

    def __init__(self, concurrency: int) -> None:
        self.free = self.limit = concurrency
        """How many more attempts may start now, and how many may run at a time."""
        self._running: dict[Control, None] = {}
        self._quiet = asyncio.Event()
        self._quiet.set()

    @property
    def taken(self) -> int:
        """How many attempts run."""
        return len(self._running)

    def running(self) -> list[Control]:
        """Return the attempts that run now."""
        return list(self._running)

    def ages(self, boot: float) -> list[float]:
        """Return for how many seconds each of them has run."""
        return [boot - (control.started_boot or boot) for control in self._running]

    def take(self, control: Control) -> None:
        """Give an attempt its slot."""
        if not self._running:
            self._quiet.clear()
        self._running[control] = None
        self.free -= 1

    def leave(self, control: Control) -> None:
        """Have the slot back."""
        del self._running[control]
        self.free += 1
        if not self._running:
            self._quiet.set()

    def resize(self, limit: int) -> None:
        """Let so many run at a time. What runs goes on, and `free` is below 0 while that is more."""
        self.free += limit - self.limit
        self.limit = limit

    async def quiet(self) -> None:
        """Wait until nothing runs."""
        await self._quiet.wait()
