"""What a supervisor measures itself for alerts: how fast its store answers, whether that keeps jobs, full disks."""

import asyncio
import logging
import math
import os
import socket
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

from holdfast.alerts.scout import Here
from holdfast.clock import Clock
from holdfast.errors import HoldfastError
from holdfast.settings import Settings
from holdfast.store.examination import Finding
from holdfast.store.open import door_of, examine_store
from holdfast.store.verb import Verb

log = logging.getLogger(__name__)

CALLS = 20
"""Of how many of the last calls the median is taken."""

LEAST_CALLS = 5

EXAMINED_EVERY = 600.0
"""Seconds between two looks at how a server keeps data, and at disks."""

Run = Callable[[Verb[Any]], Awaitable[Any]]


class Measures:
    """The measurements of one supervisor."""

    def __init__(self, settings: Settings, clock: Clock) -> None:
        self._settings = settings
        self._clock = clock
        self._took: deque[float] = deque(maxlen=CALLS)
        self._examine_at = -math.inf

    @property
    def store_seconds(self) -> float | None:
        """How long the store takes to answer, as the median of the last calls; None before there were some."""
        return median(self._took) if len(self._took) >= LEAST_CALLS else None

    def timed(self, run: Run) -> Run:
        """Return a way to run verbs that notes how long each takes."""

        async def once(verb: Verb[Any]) -> Any:
            began_at = self._clock.boot()
            try:
                return await run(verb)
            finally:
                self._took.append(self._clock.boot() - began_at)

        return once

    async def seldom(self, here: Here) -> Here:
        """Return what is known here with what is measured every ten minutes, if it is time."""
        if self._clock.boot() < self._examine_at:
            return here
        self._examine_at = self._clock.boot() + EXAMINED_EVERY
        return replace(here, findings=await self._findings(), disks=self._disks())

    async def _findings(self) -> tuple[Finding, ...] | None:
        """Look how a server keeps data: one that has files of its own is asked by nobody else."""
        if not self._settings.url.startswith(("redis", "valkey", "unix")):
            return None
        try:
            return (await asyncio.to_thread(examine_store, self._settings)).findings
        except HoldfastError as error:
            log.debug("the store could not be examined, which is tried again: %s", error)
            return None

    def _disks(self) -> Mapping[str, float]:
        """Return what share is in use of the disks of a store in a file, of the files of jobs, and of incidents.

        Each by the name of this machine, a colon, and the place.
        """
        beside = door_of(self._settings.url).files_beside(self._settings.url)
        database = None if beside is None else str(beside.parent)
        shares = {}
        for place in (database, self._settings.files, self._settings.incidents_dir):
            if place is not None:
                with suppress(OSError):
                    shares[f"{socket.gethostname()}:{place}"] = used_share(Path(place))
        return shares


def used_share(path: Path) -> float:
    """Return what share of the disk of a file or folder is in use, for those who are not root. Raises OSError."""
    disk = os.statvfs(path)
    used = disk.f_blocks - disk.f_bfree
    total = used + disk.f_bavail
    return used / total if total else 0.0
