"""The memos of the job as one attempt found them, for its checkpoints and files."""

import threading
from collections.abc import Mapping
from concurrent.futures import Future

from holdfast.durable.waiting import Waiting


class Recall:
    """Reads the memos when the attempt first asks for them, and then knows them."""

    def __init__(self, waiting: Waiting) -> None:
        self.waiting = waiting
        self._opening = threading.Lock()
        self._reading: Future[Mapping[str, bytes]] | None = None

    @property
    def is_done(self) -> bool:
        """Whether the memos can be had without waiting; after a read that failed they are asked for again."""
        reading = self._reading
        return reading is not None and reading.done() and reading.exception() is None

    def get(self) -> Mapping[str, bytes]:
        """Return the memos; blocks this thread."""
        return self.waiting.answer(self._begin())

    async def aget(self) -> Mapping[str, bytes]:
        """Return the memos."""
        return await self.waiting.await_answer(self._begin())

    def _begin(self) -> "Future[Mapping[str, bytes]]":
        with self._opening:
            if self._reading is None or (self._reading.done() and not self.is_done):
                self._reading = self.waiting.notebook.read()
            return self._reading
