"""Measures the store and the machine for alerts: answer times, how the server keeps data, how full the disks are."""

import asyncio
import logging
import math
import os
import socket
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median
from typing import Any

from standfast.errors import StandfastError
from standfast.model.alerts import AlertRule, Check
from standfast.model.clock import Clock
from standfast.model.configuration import Settings
from standfast.observe.alerts.monitor import LocalView
from standfast.stores.doctor import Examination, Finding
from standfast.stores.url import examine_store, store_kind
from standfast.stores.verb import Verb
from standfast.supervisor.alert_pace import AFTER_FAILURE
from standfast.worker.execution import ThreadCall, ThreadExecutor

log = logging.getLogger(__name__)
PATIENCE = 10.0  # seconds that a survey is waited for
SERVER_EVERY = 600.0  # seconds between two looks at the server of a store: it is asked for more than costs nothing


@dataclass(frozen=True, slots=True)
class StorageState:
    """What was found: about the server, None where nobody was asked; and what share of which disk is in use."""

    findings: tuple[Finding, ...] | None = None
    disks: Mapping[str, float] = field(default_factory=dict)


Survey = Callable[[], Awaitable[StorageState | None]]  # looks at the premises; None where that came to nothing


class Surveyor:
    """Looks at the premises in a thread, one look at a time. Nothing waits for its end: a disk may never answer."""

    def __init__(self, look: Callable[[], StorageState], patience: float = PATIENCE) -> None:
        self._look = look
        self._patience = patience
        self._looking: ThreadCall | None = None

    async def __call__(self) -> StorageState | None:
        """Return what was found, if that did not take too long."""
        if self._looking is None:
            threads = ThreadExecutor(1)
            self._looking = threads.submit(self._look)
            threads.abandon()  # after this one
        try:
            async with asyncio.timeout(self._patience):
                returned = await asyncio.shield(self._looking.done)
        except TimeoutError:
            return None
        self._looking = None
        if returned.error is not None:
            log.debug("the premises could not be looked at, which is tried again: %s", returned.error)
            return None
        found: StorageState = returned.value
        return found


def surveyor_of(settings: Settings) -> Survey:
    """Return who looks at the premises of a store."""
    return Surveyor(PremisesLook(settings))


class PremisesLook:
    """Looks at the server of a store, now and then, and at the disks of it, of files of jobs and of incidents."""

    def __init__(
        self,
        settings: Settings,
        *,
        examine: Callable[[Settings], Examination] = examine_store,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._settings = settings
        self._examine = examine
        self._monotonic = monotonic
        self._findings: tuple[Finding, ...] | None = None
        self._ask_at = -math.inf

    def __call__(self) -> StorageState:
        """Return what is found, of the server what was found lately. It blocks."""
        if self._monotonic() >= self._ask_at:
            self._findings = self._ask_server()
            self._ask_at = self._monotonic() + (0.0 if self._findings is None else SERVER_EVERY)
        return StorageState(self._findings, _disks(self._settings))

    def _ask_server(self) -> tuple[Finding, ...] | None:
        """Look how a server keeps data: one that has files of its own is asked by nobody else."""
        if not self._settings.url.startswith(("redis", "valkey", "unix")):
            return None
        try:
            return self._examine(self._settings).findings
        except StandfastError as error:
            log.debug("the store could not be examined, which is tried again: %s", error)
            return None


def _disks(settings: Settings) -> Mapping[str, float]:
    """Return what share of disks is in use, each by the name of this machine, a colon, and the place."""
    beside = store_kind(settings.url).files_beside(settings.url)
    database = None if beside is None else str(beside.parent)
    shares = {}
    for place in (database, settings.files, settings.incidents_dir):
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


CALLS = 20  # of how many of the last calls the median is taken
LEAST_CALLS = 5
EXAMINED_EVERY = 60.0  # seconds between two looks at the premises
Run = Callable[[Verb[Any]], Awaitable[Any]]


class Measures:
    """The measurements of one supervisor. `survey` looks at the premises; None: nobody does."""

    def __init__(self, clock: Clock, survey: Survey | None = None) -> None:
        self._clock = clock
        self._survey = survey
        self._took: deque[float] = deque(maxlen=CALLS)
        self._was_full: bool | None = None
        self.due_at = math.inf if survey is None else -math.inf
        """When, by the boot clock, the premises are to be looked at again."""

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

    async def examine(self, here: LocalView) -> LocalView:
        """Return what is known here, with what is found on the premises, if anything is."""
        found = None if self._survey is None else await self._survey()
        return here if found is None else replace(here, findings=found.findings, disks=found.disks)

    def is_news(self, here: LocalView, rules: Iterable[AlertRule]) -> bool:
        """Tell whether the fleet may not know how full the disks of this machine are: they are, or were, too full.

        How they were before the first look, this process does not know.
        """
        is_full = _is_full(here, rules)
        return is_full is not None and (is_full or self._was_full is not False)

    def told(self, here: LocalView, rules: Iterable[AlertRule]) -> None:
        """Look again later: the fleet knows of this."""
        is_full = _is_full(here, rules)
        self._was_full = self._was_full if is_full is None else is_full
        self.due_at = self._clock.boot() + EXAMINED_EVERY

    def not_told(self) -> None:
        """Look again soon: the fleet could not be told."""
        self.due_at = self._clock.boot() + AFTER_FAILURE


def _is_full(here: LocalView, rules: Iterable[AlertRule]) -> bool | None:
    """Tell whether a disk is fuller than a rule allows; None where nobody knows, or asks."""
    limits = [rule.above or 0.0 for rule in rules if rule.check is Check.DISK_FULL and rule.enabled]
    if here.disks is None or not limits:
        return None
    return any(share > min(limits) for share in here.disks.values())
