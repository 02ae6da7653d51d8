"""Sends endings to the store: fenced, batched, repeated until they are answered.

While one batch is on its way the next one gathers, so batches grow with the load and a lone ending never waits.
An answer that does not come is asked for again: `finish` is idempotent, so a lost reply harms nothing. For the same
reason the loop may be begun again after a failure: what was under way is sent once more.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence

import msgspec

from standfast.core.job import Claim, Ending, Verdict
from standfast.core.states import RETURNS
from standfast.errors import StoreError, ValueNotStoredError
from standfast.figures.counting import Tally
from standfast.worker.notes import Notes
from standfast.worker.storecalls import StoreCalls

log = logging.getLogger(__name__)

BATCH = 500
BACKLOG_LIMIT = 2_000


class Ended(msgspec.Struct, frozen=True, gc=False):
    """A claim that has ended here, and for how many seconds its handler ran."""

    claim: Claim
    ending: Ending
    seconds: float = 0.0


class Completer:
    """The only place where claims are ended by a worker, but for a handler's own `ctx.transaction`.

    `tally` counts the answers, `settled` hears of each, and `relieved` after a batch that may have been one of a
    crowd, so that there is room again, or that gave back jobs which may be due.
    """

    def __init__(
        self,
        calls: StoreCalls,
        worker: str,
        notes: Notes,
        settled: Callable[[Ended, Verdict], None],
        relieved: Callable[[], None],
        *,
        tally: Tally,
    ) -> None:
        self._calls = calls
        self._worker = worker
        self._notes = notes
        self._settled = settled
        self._relieved = relieved
        self._tally = tally
        self._waiting: list[Ended] = []
        self._under_way: Sequence[Ended] = ()
        self._news = asyncio.Event()
        self._empty = asyncio.Event()
        self._empty.set()

    @property
    def crowded(self) -> bool:
        """Whether so much waits to be sent that no more jobs should be taken."""
        return len(self._waiting) >= BACKLOG_LIMIT

    def add(self, ended: Ended) -> None:
        """Send this ending as soon as possible."""
        self._waiting.append(ended)
        self._empty.clear()
        self._news.set()

    async def flushed(self) -> None:
        """Wait until every ending was answered."""
        await self._empty.wait()

    async def run(self) -> None:
        """Send for as long as the worker lives, first what was under way when this failed before."""
        if self._under_way:
            self._news.set()
            await self._send(self._under_way)  # not with others: a later claim of the same job may be among those
        while True:
            await self._news.wait()
            self._news.clear()
            while self._waiting:
                batch, self._waiting = self._waiting[:BATCH], self._waiting[BATCH:]
                self._under_way = batch
                await self._send(batch)
            self._empty.set()

    async def _send(self, batch: Sequence[Ended]) -> None:
        endings = [ended.ending for ended in batch]
        try:
            verdicts = await self._calls.until_answered(
                lambda: self._calls.verbs.finish(self._worker, endings), passing=(StoreError,)
            )
        except ValueNotStoredError as error:
            await self._send_apart(batch, error)
            return
        self._answered(batch, verdicts)

    async def _send_apart(self, batch: Sequence[Ended], error: ValueNotStoredError) -> None:
        """One ending that the store cannot take must not hold up the others."""
        if len(batch) > 1:
            for ended in batch:
                await self._send([ended])
            return
        log.error("job %s: its outcome cannot be stored and it will run again: %s", batch[0].claim.job_id, error)
        self._answered(batch, [Verdict.STALE])

    def _answered(self, batch: Sequence[Ended], verdicts: Sequence[Verdict]) -> None:
        self._notes.ended(ended.claim.ref for ended in batch)
        self._under_way = self._under_way[len(batch) :]  # they are answered in the order in which they were sent
        self._tally.count(batch, verdicts)
        for ended, verdict in zip(batch, verdicts, strict=True):
            self._settled(ended, verdict)
        if len(batch) == BATCH or any(ended.ending.move in RETURNS for ended in batch):
            self._relieved()
