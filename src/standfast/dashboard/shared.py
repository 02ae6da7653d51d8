"""Answers that are shared: ten people who look at the same page at the same moment cost the store one look."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Hashable
from dataclasses import dataclass
from typing import Any, TypeVar

T = TypeVar("T")

FRESH = 1.0
"""Seconds for which an answer counts as fresh."""

MOST = 256
"""So many answers are kept, at most."""


@dataclass(frozen=True, slots=True)
class _Look:
    fresh_until: float
    answer: asyncio.Task[Any]


class Shared:
    """Remembers answers for a moment. Those of one event loop are of no use in another."""

    def __init__(self, fresh: float = FRESH, clock: Callable[[], float] = time.monotonic) -> None:
        self._fresh = fresh
        self._clock = clock
        self._looks: dict[Hashable, _Look] = {}
        self._loop: asyncio.AbstractEventLoop | None = None

    async def see(self, what: Hashable, look: Callable[[], Awaitable[T]], times: float = 1) -> T:
        """Return what somebody else has just seen, or is about to see, or else look.

        What is looked at here counts as fresh for so many `times` as long as usual.
        """
        now = self._clock()
        if self._loop is not asyncio.get_running_loop():
            self._loop, self._looks = asyncio.get_running_loop(), {}
        found = self._looks.get(what)
        if found is None or now > found.fresh_until or _failed(found.answer):
            self._make_room(now)
            found = self._looks[what] = _Look(now + times * self._fresh, asyncio.ensure_future(_awaited(look)))
        answer: T = await asyncio.shield(found.answer)
        return answer

    def forget(self) -> None:
        """Forget everything: something was changed."""
        self._looks.clear()

    def _make_room(self, now: float) -> None:
        stale = [what for what, look in self._looks.items() if now > look.fresh_until]
        for what in stale:
            del self._looks[what]
        while len(self._looks) >= MOST:
            del self._looks[next(iter(self._looks))]


def _failed(answer: asyncio.Task[Any]) -> bool:
    return answer.done() and (answer.cancelled() or answer.exception() is not None)


async def _awaited(look: Callable[[], Awaitable[T]]) -> T:
    return await look()
