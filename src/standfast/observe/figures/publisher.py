"""Writes down what one process has counted: every fifteen seconds, and nothing where nothing has happened.

At first it does so sooner, after half a second and whenever its life is twice as long: who is killed over and over
would else tell nothing of what went well, while its supervisor tells of every job that died with it.

What is on its way does not change until the store has answered, and is sent again as it was: so a lost answer
counts nothing twice. Should the process be killed, what it has counted since the last time is lost with it.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from standfast.errors import StandfastError
from standfast.model.records import Change, Kind, writing
from standfast.observe.figures.counts import Tally
from standfast.observe.figures.rollup import EMPTY, Part
from standfast.stores.contract import Store
from standfast.stores.verb import Verb

log = logging.getLogger(__name__)

EVERY = 15.0
"""Seconds between two parts of one process."""

FIRST = 0.5
"""Seconds before its first."""

Run = Callable[[Verb[Any]], Awaitable[Any]]


class Publisher:
    """Publishes a tally, under the name of its process (`source`). It fails nobody, and waits for nobody."""

    def __init__(self, tally: Tally, source: str, verbs: Store, run: Run) -> None:
        self._tally = tally
        self._source = source
        self._verbs = verbs
        self._run = run
        self._number = 0
        self._under_way: Sequence[Change] = ()

    async def run(self) -> None:
        """Publish now and then, for as long as the process lives."""
        pause, lived = FIRST, 0.0
        while True:
            await asyncio.sleep(pause)
            await self.publish()
            lived += pause
            pause = min(lived, EVERY)

    async def publish(self) -> None:
        """Write down what there is to say, in one call, or in two where the last one was not answered."""
        while self._under_way or self._gather():
            try:
                await self._run(self._verbs.change_records(self._under_way))
            except StandfastError as error:
                log.debug("figures could not be written, which is tried again: %s", error)
                return
            self._under_way = ()

    async def publish_within(self, seconds: float) -> None:
        """Do so, but no longer than this: the process is about to end."""
        try:
            async with asyncio.timeout(seconds):
                await self.publish()
        except TimeoutError:
            log.debug("the last figures could not be written in time")

    def _gather(self) -> bool:
        """Take what was counted since the last time, if anything."""
        changes = []
        for minute, counts in self._tally.take().items():
            self._number += 1
            part = Part(minute, self._source, self._number)
            page = EMPTY.telling(counts, self._tally.named)
            changes.append(writing(Kind.TALLY, part.name, page, part.due_at))
        self._under_way = changes
        return bool(changes)
