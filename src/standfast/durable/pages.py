"""The memos of the job as one attempt knows them: read at their first use, and kept up with what it writes."""

import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future

from standfast.core.memo import MEMO_LIMIT, MEMOS_LIMIT, Memo, is_signal
from standfast.durable.notebook import Notebook
from standfast.durable.ways import Way
from standfast.errors import StepError


class Pages:
    """What is known of the memos. Every member may be used from any thread."""

    def __init__(self, find_notebook: Callable[[], Notebook]) -> None:
        self._find_notebook = find_notebook
        self._lock = threading.Lock()
        self._reading: Future[Mapping[str, bytes]] | None = None
        self._own: dict[str, bytes] = {}

    @property
    def is_read(self) -> bool:
        """Whether they can be had without waiting."""
        reading = self._reading
        return reading is not None and reading.done() and reading.exception() is None

    async def known(self, way: Way) -> Mapping[str, bytes]:
        """Return the memos as they were at the first use, with what was written since."""
        with self._lock:
            reading = self._reading = self._reading or self._find_notebook().read()
        try:
            memos = await way.answer(reading)
        except Exception:
            self._forget(reading)
            raise
        return {**memos, **self._own}

    async def fresh(self, way: Way) -> Mapping[str, bytes]:
        """Return the memos as they are now."""
        with self._lock:
            self._reading = self._find_notebook().read()
        return await self.known(way)

    async def write(self, way: Way, *memos: Memo) -> None:
        """Write memos; when this returns, the store has them."""
        try:
            self.note(*memos)  # first: a write that has begun reaches the store, even if its caller no longer waits
            answer = self._find_notebook().write(*memos)
        except BaseException:  # it is not known how far this came, and writing twice does no harm
            self.note(*memos)
            self._find_notebook().write(*memos)
            raise
        await way.answer(answer)

    def note(self, *memos: Memo) -> None:
        """Take note of what the store has, or will have."""
        self._own.update((memo.name, memo.body) for memo in memos)

    def _forget(self, reading: "Future[Mapping[str, bytes]]") -> None:
        with self._lock:
            if self._reading is reading:
                self._reading = None


def check_room(memos: Mapping[str, bytes], name: str) -> None:
    """Refuse a memo more than a job may write."""
    if name not in memos and sum(not is_signal(each) for each in memos) >= MEMOS_LIMIT:
        raise StepError(
            f"the job has {MEMOS_LIMIT:,} steps, waits and other memos, and may have no more: put more into each,"
            " as with ctx.resume, or enqueue a job for each part"
        )


def check_size(what: str, body: bytes) -> None:
    """Refuse what is too large for a memo."""
    if len(body) > MEMO_LIMIT:
        raise StepError(
            f"{what} takes {len(body):,} bytes and at most {MEMO_LIMIT:,} are stored; keep it elsewhere, and return"
            " a reference to it"
        )
