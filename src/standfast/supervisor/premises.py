"""The premises: how the server of a store keeps data, and how full the disks of a machine are."""

import asyncio
import logging
import math
import os
import socket
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from standfast.errors import StandfastError
from standfast.settings import Settings
from standfast.store.examination import Examination, Finding
from standfast.store.open import door_of, examine_store
from standfast.worker.threads import ThreadCall, ThreadExecutor

log = logging.getLogger(__name__)

PATIENCE = 10.0
"""Seconds that a survey is waited for."""

SERVER_EVERY = 600.0
"""Seconds between two looks at the server of a store: it is asked for more than costs nothing."""


@dataclass(frozen=True, slots=True)
class Premises:
    """What was found: about the server, None where nobody was asked; and what share of which disk is in use."""

    findings: tuple[Finding, ...] | None = None
    disks: Mapping[str, float] = field(default_factory=dict)


Survey = Callable[[], Awaitable[Premises | None]]
"""Looks at the premises; None where that came to nothing."""


class Surveyor:
    """Looks at the premises in a thread, one look at a time. Nothing waits for its end: a disk may never answer."""

    def __init__(self, look: Callable[[], Premises], patience: float = PATIENCE) -> None:
        self._look = look
        self._patience = patience
        self._looking: ThreadCall | None = None

    async def __call__(self) -> Premises | None:
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
        found: Premises = returned.value
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

    def __call__(self) -> Premises:
        """Return what is found, of the server what was found lately. It blocks."""
        if self._monotonic() >= self._ask_at:
            self._findings = self._ask_server()
            self._ask_at = self._monotonic() + (0.0 if self._findings is None else SERVER_EVERY)
        return Premises(self._findings, _disks(self._settings))

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
    beside = door_of(settings.url).files_beside(settings.url)
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
