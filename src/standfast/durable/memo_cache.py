"""The memos of the job as one attempt knows them: read at their first use, and kept up with what it writes."""

import threading
from collections.abc import Mapping
from concurrent.futures import Future
from datetime import datetime
from enum import StrEnum
from typing import Any, TypeVar

import msgspec

from standfast.durable.runtime import AsyncRunner, BlockingRunner, Port, StepRunner, Waiting
from standfast.errors import PayloadError, ResultEncodingError, StepError
from standfast.model.codec import encode_result
from standfast.model.concurrency import run_without_loop
from standfast.model.memos import MEMO_LIMIT, MEMOS_LIMIT, Memo, is_signal

T = TypeVar("T")


class MemoCache:
    """What is known of the memos. Every member may be used from any thread."""

    def __init__(self, port: Port) -> None:
        self._port = port
        self._lock = threading.Lock()
        self._reading: Future[Mapping[str, bytes]] | None = None
        self._own: dict[str, bytes] = {}

    @property
    def is_read(self) -> bool:
        """Whether they can be had without waiting; after a read that failed they are asked for again."""
        reading = self._reading
        return reading is not None and reading.done() and reading.exception() is None

    async def known(self, way: StepRunner) -> Mapping[str, bytes]:
        """Return the memos as they were at the first use, with what was written since."""
        with self._lock:
            reading = self._reading = self._reading or self._port.notebook.read()
        try:
            memos = await way.answer(reading)
        except Exception:
            with self._lock:
                if self._reading is reading:
                    self._reading = None
            raise
        return {**memos, **self._own}

    def get(self, waiting: Waiting) -> Mapping[str, bytes]:
        """Return what is `known`; blocks this thread."""
        return run_without_loop(self.known(BlockingRunner(waiting)))

    async def aget(self, waiting: Waiting) -> Mapping[str, bytes]:
        """Return what is `known`."""
        return await self.known(AsyncRunner(waiting))

    async def fresh(self, way: StepRunner) -> Mapping[str, bytes]:
        """Return the memos as they are now."""
        with self._lock:
            self._reading = self._port.notebook.read()
        return await self.known(way)

    async def write(self, way: StepRunner, *memos: Memo) -> None:
        """Write memos; when this returns, the store has them."""
        try:
            self.note(*memos)  # first: a write that has begun reaches the store, even if its caller no longer waits
            answer = self._port.notebook.write(*memos)
        except BaseException:  # it is not known how far this came, and writing twice does no harm
            self.note(*memos)
            self._port.notebook.write(*memos)
            raise
        await way.answer(answer)

    def note(self, *memos: Memo) -> None:
        """Take note of what the store has, or will have."""
        self._own.update((memo.name, memo.body) for memo in memos)


def check_room(memos: Mapping[str, bytes], name: str) -> None:
    """Refuse a memo more than a job may write."""
    if name not in memos and sum(not is_signal(each) for each in memos) >= MEMOS_LIMIT:
        raise StepError(
            f"the job has {MEMOS_LIMIT:,} steps, waits and other memos, and may have no more: put more into each,"
            " as with ctx.resume, or enqueue a job for each part"
        )


class Done(msgspec.Struct, frozen=True, omit_defaults=True):
    """A step that is done: by which version of it, with which result, and whether in a loop of `ctx.resume`."""

    version: int
    result: msgspec.Raw
    in_loop: bool = False


class How(StrEnum):
    """How a wait ended."""

    SIGNAL = "signal"
    TIMEOUT = "timeout"


class Wait(msgspec.Struct, frozen=True, omit_defaults=True):
    """A wait that has begun: until when at the latest and, once it is over, how it ended."""

    until: datetime | None = None
    how: How | None = None
    data: msgspec.Raw = msgspec.Raw(b"null")


_done = msgspec.json.Decoder(Done)
_wait = msgspec.json.Decoder(Wait)


def encode_step(name: str, version: int, value: Any, *, in_loop: bool = False) -> bytes:
    """Return the memo of a step. Raises StepError if its result cannot be stored."""
    try:
        result = encode_result(value)
    except ResultEncodingError as error:
        raise StepError(f"step {name!r} ran, and its result cannot be kept: {error}") from error
    body = msgspec.json.encode(Done(version, msgspec.Raw(result), in_loop))
    if len(body) > MEMO_LIMIT:
        raise StepError(
            f"step {name!r} ran, and its result cannot be kept: it takes {len(body):,} bytes and at most"
            f" {MEMO_LIMIT:,} are stored; keep it elsewhere, and return a reference to it"
        )
    return body


def read_memo(decoder: "msgspec.json.Decoder[T]", what: str, body: bytes) -> T:
    """Return what a memo says. Raises PayloadError if it cannot be read."""
    try:
        return decoder.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise PayloadError(f"what is stored of {what} cannot be read: {error}") from error


def read_step(name: str, body: bytes) -> Done:
    """Return what is stored of a step that is done."""
    return read_memo(_done, f"step {name!r}", body)


def read_wait(name: str, body: bytes) -> Wait:
    """Return a wait that has begun."""
    return read_memo(_wait, f"the wait for {name!r}", body)
