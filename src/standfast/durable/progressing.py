"""How far one `ctx.resume` is, and when that is saved.

    done ──── posted: on its way to the store ──── confirmed: in the store

Of the items that are done, at most `every` are not confirmed. Half of that is posted without waiting, so that the
answer is there before anyone would have to wait for it.
"""

import time
from collections import deque
from concurrent.futures import Future

import msgspec

from standfast.core.memo import Memo
from standfast.durable.notebook import Notebook
from standfast.durable.positions import Position, to_bytes


class Progressing:
    """One thread at a time steps on; the last words may be asked for by another."""

    def __init__(self, memo: str, notebook: Notebook, start: Position, *, every: int, seconds: float) -> None:
        self._memo = memo
        self._notebook = notebook
        self._every = every
        self._half = max(1, every // 2)
        self._seconds = seconds
        self._version = start.version
        self._by = start.by
        self._reached = start.done, bytes(start.value)
        self._posted = start.done
        self._confirmed = start.done
        self._posted_at = time.monotonic()
        self._answers: deque[tuple[int, Future[None]]] = deque()
        notebook.at_end(self.last_words)

    @property
    def done(self) -> int:
        """How many items are done, those of earlier attempts included."""
        return self._reached[0]

    @property
    def key(self) -> bytes:
        """The key of the last item that is done."""
        return self._reached[1]

    def step(self, key: bytes) -> "Future[None] | None":
        """Take note that one more item is done; return what has to be waited for before the next, if anything."""
        done = self._reached[0] + 1
        self._reached = done, key
        behind = done - self._posted
        if behind >= self._half or time.monotonic() - self._posted_at >= self._seconds:
            self.post()
        return self.must_wait() if self._answers else None

    def must_wait(self) -> "Future[None] | None":
        """Return the oldest answer without which nothing more may be done. Raises what an answer says is wrong."""
        while self._answers and self._answers[0][1].done():
            self._confirmed, answer = self._answers.popleft()
            answer.result()
        return self._answers[0][1] if self._answers and self.done - self._confirmed >= self._every else None

    def post(self) -> None:
        """Send off how far it is, without waiting."""
        done = self._reached[0]
        if done > self._posted:
            self._answers.append((done, self._notebook.write(self._now())))
            self._posted, self._posted_at = done, time.monotonic()

    def last_words(self) -> list[Memo]:
        """Return what is left to save when the attempt ends."""
        return [self._now()] if self._reached[0] > self._posted else []

    def _now(self) -> Memo:
        done, key = self._reached
        return Memo(self._memo, to_bytes(Position(self._version, msgspec.Raw(key), self._by, done)))
