"""How far one `ctx.resume` is, and when that is saved.

    done ──── posted: on its way to the store ──── confirmed: in the store

Of the items that are done, at most `every` are not confirmed. Half of that is posted without waiting, so that the
answer is there before anyone would have to wait for it.
"""

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, Generic, TypeVar

import msgspec

from standfast.durable.cursor import (
    By,
    OnVersion,
    OnVersionWord,
    Position,
    check_on_version,
    check_version,
    encode,
    memo_of,
    other_version,
    read_position,
    to_bytes,
)
from standfast.durable.memo_cache import MemoCache
from standfast.durable.runtime import Notebook, Waiting
from standfast.errors import ArgumentsError, CursorError
from standfast.model.concurrency import refuse_in_event_loop
from standfast.model.memos import MEMOS_LIMIT, Memo
from standfast.model.validation import as_seconds, is_int, is_number


class ResumeProgress:
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


class LoopStack:
    """The loops that a handler is in, the outer ones first, and the names of all that it has begun.

    A wait in a loop belongs to the item in hand, in every run.
    """

    def __init__(self) -> None:
        self._open: dict[str, ResumeProgress] = {}
        self._names: set[str] = set()

    def add(self, name: str) -> None:
        """Begin another loop of the handler. Refuses a name that it has used, and more than a job has room for."""
        if name in self._names:
            raise CursorError(
                f"this handler resumes two loops as {name!r}, and one would go on where the other was: give each a"
                ' name, as in ctx.resume(items, name="orders")'
            )
        if len(self._names) >= MEMOS_LIMIT:
            raise CursorError(
                f"this handler resumes more than {MEMOS_LIMIT:,} loops, and each has a cursor of its own in the"
                " store: make one loop of them, or enqueue a job for each part"
            )
        self._names.add(name)

    @property
    def place(self) -> str:
        """The item that is in hand in each loop, as later runs will find it; empty outside of loops."""
        return ",".join(f"{name}@{at.done}" for name, at in self._open.items())

    @contextmanager
    def inside(self, name: str, at: ResumeProgress) -> Iterator[None]:
        """Be in a loop."""
        self._open[name] = at
        try:
            yield
        finally:
            del self._open[name]


#     read the cursor ─► leave out what is done ─► item ─► done: note it, save it in time ─► item … ─► the end
#                                                            └─► the attempt is to end: here, with the cursor saved
#
# An item is done when the loop asks for the next one. One in which the loop was left, by an exception or `break`, is
# not done.

T = TypeVar("T")

LEFT_OUT_AT_ONCE = 1_000
"""Items that were done before and are left out, after which others on the event loop have their turn."""

_NOTHING: Any = object()
"""No item: there are no more."""


class ResumeOptions(msgspec.Struct, frozen=True):
    """What was asked for of one `ctx.resume`."""

    name: str
    memo: str
    key: Callable[[Any], Any] | None
    every: int
    seconds: float
    version: int
    on_version: OnVersion

    @property
    def by(self) -> By:
        """How the place is found again."""
        return By.INDEX if self.key is None else By.KEY


def plan_resume(
    items: Any,
    key: Any,
    *,
    every: int,
    seconds: timedelta | float,
    version: int,
    name: str,
    on_version: OnVersionWord,
) -> ResumeOptions:
    """Return what was asked for of one `ctx.resume`, checked."""
    if not isinstance(items, Iterable | AsyncIterable):
        raise ArgumentsError(f"ctx.resume needs items to loop over, not {type(items).__name__}")
    if key is not None and not callable(key):
        raise ArgumentsError(f"key must be a function that gives the key of an item, not {key!r}")
    if not is_int(every) or every < 1:
        raise ArgumentsError(f"every must be a whole number of items, 1 or more, not {every!r}")
    check_version(version)
    memo, span = memo_of(name), as_seconds(seconds)
    if not is_number(span) or not span > 0:
        raise ArgumentsError(f"seconds must be a span greater than 0, not {seconds!r}")
    return ResumeOptions(name, memo, key, every, float(span), version, check_on_version(on_version))


class Resume(Generic[T]):
    """The items that are still to be done: `for` it, or `async for`, once."""

    def __init__(
        self,
        items: Iterable[T] | AsyncIterable[T],
        plan: ResumeOptions,
        waiting: Waiting,
        memos: MemoCache,
        loops: LoopStack,
    ) -> None:
        self._items = items
        self._plan = plan
        self._waiting = waiting
        self._memos = memos
        self._loops = loops
        self._begun = False

    def __iter__(self) -> Iterator[T]:
        if not isinstance(self._items, Iterable):
            raise ArgumentsError("the items of ctx.resume are async: write `async for` in an async handler")
        refuse_in_event_loop("`for … in ctx.resume(…)`", "async for … in ctx.resume(…)", CursorError)
        self._begin()
        return self._iterate(iter(self._items))

    def __aiter__(self) -> AsyncIterator[T]:
        self._begin()
        items = self._items
        return self._aiterate(aiter(items) if isinstance(items, AsyncIterable) else _awaited(items))

    def _begin(self) -> None:
        if self._begun:
            raise CursorError(f"ctx.resume {self._plan.name!r} is looped over twice: call ctx.resume for each loop")
        self._begun = True

    def _iterate(self, items: Iterator[T]) -> Iterator[T]:
        place = self._place(self._memos.get(self._waiting))
        host = self._waiting.host
        host.raise_if_cancelled()
        while not place.found:
            place.look_at(next(items, _NOTHING))
            host.raise_if_cancelled()
        at = self._progressing(place.start)
        with self._loops.inside(self._plan.name, at):
            for item in items:
                value = self._key_of(item, at)
                yield item
                waits = at.step(value)
                host.raise_if_cancelled()
                while waits is not None:
                    self._waiting.answer(waits)
                    waits = at.must_wait()
        at.post()

    async def _aiterate(self, items: AsyncIterator[T]) -> AsyncIterator[T]:
        place = self._place(await self._memos.aget(self._waiting))
        host = self._waiting.host
        host.raise_if_cancelled()
        while not place.found:
            place.look_at(await anext(items, _NOTHING))
            host.raise_if_cancelled()
            if place.seen % LEFT_OUT_AT_ONCE == 0:
                await asyncio.sleep(0)
        at = self._progressing(place.start)
        with self._loops.inside(self._plan.name, at):
            async for item in items:
                value = self._key_of(item, at)
                yield item
                waits = at.step(value)
                host.raise_if_cancelled()
                while waits is not None:
                    await self._waiting.await_answer(waits)
                    waits = at.must_wait()
        at.post()

    def _key_of(self, item: T, at: ResumeProgress) -> bytes:
        """Return by what an item is found again. Refuses a key that would lead to the item before it."""
        if self._plan.key is None:
            return b"null"
        key = encode("key", self._plan.key(item))
        if key == at.key and at.done:
            raise CursorError(
                f"ctx.resume {self._plan.name!r}: two items in a row have the same key, items {at.done:,} and"
                f" {at.done + 1:,}, and the place between them could not be found again: give each item a key of"
                " its own"
            )
        return key

    def _place(self, memos: Mapping[str, bytes]) -> "_Place":
        """Return the place to go on from, and say so in the log of the job."""
        plan, body, log = self._plan, memos.get(self._plan.memo), self._waiting.host.log
        begin = Position(plan.version, by=plan.by)
        if body is None:
            return _Place(begin, plan)
        saved = read_position(f"ctx.resume {plan.name!r}", body)
        if saved.version != plan.version:
            problem = other_version(f"ctx.resume {plan.name!r}", saved.version, plan.version)
        elif saved.by != plan.by:
            problem = CursorError(
                f"ctx.resume {plan.name!r} was saved by {saved.by}, and the code now goes by {plan.by}: give it"
                " another version"
            )
        else:
            log.info("resumes %s: goes on after item %s", plan.name, f"{saved.done:,}")  # its key may be secret
            return _Place(saved, plan)
        if plan.on_version is OnVersion.RAISE:
            raise problem
        log.warning("resumes %s: begins anew, for %s", plan.name, problem)
        return _Place(begin, plan)

    def _progressing(self, start: Position) -> ResumeProgress:
        plan = self._plan
        return ResumeProgress(plan.memo, self._waiting.port.notebook, start, every=plan.every, seconds=plan.seconds)


class _Place:
    """The place among the items from which to go on: after so many, or after the one with the key."""

    def __init__(self, start: Position, plan: ResumeOptions) -> None:
        self.start = start
        self._plan = plan
        self.seen = 0
        self.found = start.done == 0

    def look_at(self, item: Any) -> None:
        """Leave out an item that is done."""
        if item is _NOTHING:
            raise CursorError(
                f"ctx.resume {self._plan.name!r} cannot go on after item {self.start.done:,}: that one is not"
                f" among the {self.seen:,} items. Give items that come and go a key, and the loop another version"
            )
        self.seen += 1
        key = self._plan.key
        if key is None:
            self.found = self.seen == self.start.done
        else:
            self.found = encode("key", key(item)) == bytes(self.start.value)


async def _awaited(items: Iterable[T]) -> AsyncIterator[T]:
    for item in items:
        yield item
