"""The memos of the job as one attempt found them, for its checkpoints and files."""

from collections.abc import Mapping

from standfast.awaiting import run_at_once
from standfast.durable.pages import Pages
from standfast.durable.waiting import Waiting
from standfast.durable.ways import Awaiting, Blocking


class Recall:
    """Reads the memos when the attempt first asks for them, and then knows them."""

    def __init__(self, waiting: Waiting) -> None:
        self.waiting = waiting
        self._pages = Pages(lambda: waiting.notebook)

    @property
    def is_done(self) -> bool:
        """Whether the memos can be had without waiting; after a read that failed they are asked for again."""
        return self._pages.is_read

    def get(self) -> Mapping[str, bytes]:
        """Return the memos; blocks this thread."""
        return run_at_once(self._pages.known(Blocking(self.waiting)))

    async def aget(self) -> Mapping[str, bytes]:
        """Return the memos."""
        return await self._pages.known(Awaiting(self.waiting))
