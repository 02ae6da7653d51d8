"""Removes the files of jobs that were forgotten, some few folders at a time."""

import asyncio
import logging
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from standfast.clock import Clock
from standfast.durable.shelf import Shelf
from standfast.errors import StandfastError
from standfast.store.identity import KnownStore
from standfast.words import counted
from standfast.worker.storecalls import StoreCalls

log = logging.getLogger(__name__)

BITE = 500
"""Jobs that the store is asked about in one call."""

BITE_EVERY = 60.0
"""Seconds between two bites, unless all jobs of a bite were forgotten ones."""

ROUND_EVERY = 600.0
"""Seconds between the end of a round through all folders and the next."""

YOUNG = 60.0
"""Seconds for which a folder is left alone after something came into it, whatever the store says."""


class FileSweep:
    """Every supervisor looks through the folder that it sees: machines may share one, or each have their own.

    It looks at the files of its own store alone, known by the id in it: one that was emptied knows no job.

    It looks through it beside all else, in threads: a folder of another machine may keep whoever does so waiting.
    Without a shelf there is nothing to look through.
    """

    def __init__(self, calls: StoreCalls, clock: Clock, shelf: Shelf | None) -> None:
        self._calls = calls
        self._clock = clock
        self._shelf = shelf
        self._next_at = clock.boot()
        self._store = KnownStore(calls.once, calls.verbs)
        self._others = set[Path]()
        self._round: Iterator[str] | None = None
        self._at_work: asyncio.Task[None] | None = None

    @property
    def is_due(self) -> bool:
        """Whether it is time to look through a folder, if there is one."""
        return self._shelf is not None and self._clock.boot() >= self._next_at

    def go_on(self) -> None:
        """Take the next bite if it is due, and the last one is over."""
        if (self._at_work is None or self._at_work.done()) and self.is_due:
            self._at_work = asyncio.ensure_future(self._try())

    def stop(self) -> None:
        """Leave the rest to others."""
        if self._at_work is not None:
            self._at_work.cancel()

    async def _try(self) -> None:
        try:
            await self.bite()
        except StandfastError as error:
            log.warning("the files of jobs cannot be looked through yet: %s", error)

    async def bite(self) -> None:
        """Look at the next jobs that have files; of those that the store does not know, remove them."""
        if self._shelf is None:
            return
        if self._round is None and not await self._begin(self._shelf):
            self._rest()
            return
        assert self._round is not None  # it has begun
        try:
            jobs = await asyncio.to_thread(list, islice(self._round, BITE))
        except OSError as error:  # the next round begins anew
            log.warning("the files of jobs cannot be looked through: %s", error)
            jobs = []
        known = await self._calls.once(self._calls.verbs.glance(jobs)) if jobs else {}
        forgotten = [job for job in jobs if job not in known]
        if forgotten and await self._store.is_another():  # so it does not know whose files these are
            log.warning("no files of jobs are removed: the store is another one than before, or was emptied")
            self._rest()
            return
        await asyncio.to_thread(_forget, self._shelf, forgotten)
        if forgotten:
            gone = counted(len(forgotten), "job")
            log.info("removed the saved files of %s that the store does not know any more", gone)
        if len(jobs) < BITE:
            self._rest()
        elif known:
            self._next_at = self._clock.boot() + BITE_EVERY

    async def _begin(self, shelf: Shelf) -> bool:
        """Begin a round through the files of this very store; tell whether there may be any."""
        if not await asyncio.to_thread(shelf.is_there):
            return False
        shelf.bind(await self._store.meet())
        others = await asyncio.to_thread(shelf.parts_of_others)
        if set(others) - self._others:
            names = ", ".join(map(str, others))
            log.info("leaves alone what another store of this name has saved: %s", names)
        self._others.update(others)
        self._round = shelf.jobs(older_than=YOUNG)
        return True

    def _rest(self) -> None:
        self._round = None
        self._next_at = self._clock.boot() + ROUND_EVERY


def _forget(shelf: Shelf, jobs: list[str]) -> None:
    for job in jobs:
        shelf.forget(job)
