"""`ctx.resume`: a loop that goes on, in a later attempt, after the last item that was done.

    read the cursor ─► leave out what is done ─► item ─► done: note it, save it in time ─► item … ─► the end
                                                           └─► the attempt is to end: here, with the cursor saved

An item is done when the loop asks for the next one. One in which the loop was left, by an exception or `break`, is
not done.
"""

import asyncio
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable, Iterator, Mapping
from typing import Any, Generic, TypeVar

import msgspec

from standfast.awaiting import must_not_block
from standfast.durable.loops import Loops
from standfast.durable.positions import By, OnVersion, Position, encode, from_bytes, other_version
from standfast.durable.progressing import Progressing
from standfast.durable.recall import Recall
from standfast.errors import ArgumentsError, CursorError

T = TypeVar("T")

LEFT_OUT_AT_ONCE = 1_000
"""Items that were done before and are left out, after which others on the event loop have their turn."""

_NOTHING: Any = object()
"""No item: there are no more."""


class Plan(msgspec.Struct, frozen=True):
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


class Resume(Generic[T]):
    """The items that are still to be done: `for` it, or `async for`, once."""

    def __init__(self, items: Iterable[T] | AsyncIterable[T], plan: Plan, recall: Recall, loops: Loops) -> None:
        self._items = items
        self._plan = plan
        self._waiting = recall.waiting
        self._recall = recall
        self._loops = loops
        self._begun = False

    def __iter__(self) -> Iterator[T]:
        if not isinstance(self._items, Iterable):
            raise ArgumentsError("the items of ctx.resume are async: write `async for` in an async handler")
        must_not_block("`for … in ctx.resume(…)`", "async for … in ctx.resume(…)", CursorError)
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
        place = self._place(self._recall.get())
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
        place = self._place(await self._recall.aget())
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

    def _key_of(self, item: T, at: Progressing) -> bytes:
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
        saved = from_bytes(f"ctx.resume {plan.name!r}", body)
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

    def _progressing(self, start: Position) -> Progressing:
        plan = self._plan
        return Progressing(plan.memo, self._waiting.notebook, start, every=plan.every, seconds=plan.seconds)


class _Place:
    """The place among the items from which to go on: after so many, or after the one with the key."""

    def __init__(self, start: Position, plan: Plan) -> None:
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
