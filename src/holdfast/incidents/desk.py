"""Where a supervisor hands in its incidents: kept on hand while the store is away, written when it answers."""

import asyncio
import logging
from collections import deque

from holdfast.core.incident import Evidence, Incident
from holdfast.errors import StoreError
from holdfast.incidents.book import write_incident
from holdfast.store.errand import arun_errand
from holdfast.worker.storecalls import StoreCalls

log = logging.getLogger(__name__)

MOST_WAITING = 100
"""Incidents that wait for a store that is away; of more, the oldest are given up."""


class Desk:
    """The incidents of one supervisor."""

    def __init__(self) -> None:
        self._waiting: deque[tuple[Incident, Evidence | None]] = deque(maxlen=MOST_WAITING)
        self._some = asyncio.Event()

    def report(self, incident: Incident, evidence: Evidence | None = None) -> None:
        """Take an incident in. Never raises and never waits."""
        self._waiting.append((incident, evidence))
        self._some.set()

    async def run(self, calls: StoreCalls) -> None:
        """Write incidents as they come, once there is a store to write them to."""
        while True:
            await self._some.wait()
            self._some.clear()
            await self._write(calls)

    async def _write(self, calls: StoreCalls) -> None:
        pauses = calls.pauses()
        while self._waiting:
            incident, evidence = self._waiting[0]
            try:
                await arun_errand(calls.once, write_incident(calls.verbs, incident, evidence))
            except StoreError:
                await asyncio.sleep(pauses.next())
                continue
            pauses.reset()
            if self._waiting and self._waiting[0][0] is incident:
                self._waiting.popleft()
