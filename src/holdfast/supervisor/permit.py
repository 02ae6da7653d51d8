"""The permit to do what only one machine of the fleet may do at a time: a record with a holder and an end.

It is taken, renewed and given back by comparison of versions, and ends by the store's time: whoever dies with it
keeps nobody waiting for long. Its holder goes by its own boot clock, from before it asked, and so believes to have
it for a little less long than the store does: of two supervisors never both.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from datetime import datetime, timedelta
from typing import Annotated
from uuid import uuid4

import msgspec

from holdfast.clock import Clock
from holdfast.core.record import Change, Kind, Record, read_body
from holdfast.errors import StoreError
from holdfast.store.errand import Verbs, arun_errand, errand
from holdfast.store.protocol import DueRecords, Store
from holdfast.worker.storecalls import StoreCalls

RECYCLE = "recycle"
"""The permit to replace children."""

LONGEST = timedelta(days=1)
"""Nobody is granted one for so long: what says so is nonsense, or the clock of the store was set back."""

GIVEN_BACK_WITHIN = 1.0
"""Seconds for the store to take one back; then it ends by itself, and nobody's stop waits for it."""


class Held(msgspec.Struct, frozen=True):
    """Who has a permit, and until when by the store's time."""

    holder: str
    until: Annotated[datetime, msgspec.Meta(tz=True)]


@errand
def take_permit(verbs: Store, name: str, holder: str, span: timedelta) -> Verbs[bool]:
    """Take a permit for this long from now, or have it for so long again; tell whether that was granted."""
    asked: DueRecords = yield verbs.due_records(Kind.PERMIT, timedelta(), 0)
    records: tuple[Record, ...] = yield verbs.records(Kind.PERMIT, (name,))
    seen, after = 0, None
    if records:
        held = read_body(records[0], Held)
        if held is not None and held.holder != holder and asked.now < held.until <= asked.now + LONGEST:
            return False
        seen, after = records[0].version, records[0].token
    body = msgspec.json.encode(Held(holder, asked.now + span))
    (made,) = yield verbs.change_records([Change(Kind.PERMIT, name, seen, str(uuid4()), body, after=after)])
    return bool(made)


@errand
def give_back_permit(verbs: Store, name: str, holder: str) -> Verbs[None]:
    """Let others have a permit at once, if it is still ours."""
    records: tuple[Record, ...] = yield verbs.records(Kind.PERMIT, (name,))
    for record in records:
        held = read_body(record, Held)
        if held is not None and held.holder == holder:
            yield verbs.change_records(
                [Change(Kind.PERMIT, name, record.version, str(uuid4()), None, after=record.token)]
            )


class Permit:
    """A permit of the fleet, as one supervisor asks for it; granted for `span` seconds, again and again."""

    def __init__(self, calls: StoreCalls, clock: Clock, holder: str, span: float, name: str = RECYCLE) -> None:
        self._calls = calls
        self._clock = clock
        self._holder = holder
        self._span = span
        self._name = name
        self._ends_at = 0.0

    @property
    def ours(self) -> bool:
        """Whether it is ours now."""
        return self._clock.boot() < self._ends_at

    @asynccontextmanager
    async def held(self) -> AsyncIterator[bool]:
        """Have it, if it is to be had, for as long as the block takes; tell whether it is."""
        if not await self._take():
            yield False
            return
        renewing = asyncio.ensure_future(self._renew())
        try:
            yield True
        finally:
            renewing.cancel()
            self._ends_at = 0.0
            with suppress(StoreError, TimeoutError):  # else it ends by itself
                async with asyncio.timeout(GIVEN_BACK_WITHIN):
                    errand = give_back_permit(self._calls.verbs, self._name, self._holder)
                    await arun_errand(self._calls.once, errand)

    async def _take(self) -> bool:
        asked_at = self._clock.boot()
        span = timedelta(seconds=self._span)
        try:
            errand = take_permit(self._calls.verbs, self._name, self._holder, span)
            taken = await arun_errand(self._calls.once, errand)
        except StoreError:
            return False
        if taken:
            self._ends_at = asked_at + self._span
        return taken

    async def _renew(self) -> None:
        while True:
            await asyncio.sleep(self._span / 3)
            await self._take()
