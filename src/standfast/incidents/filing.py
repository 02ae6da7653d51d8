"""Writes the folders of incidents in a thread of its own: a disk that is slow, full or gone holds up nobody."""

import logging
import queue
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import partial

from msgspec.structs import replace

from standfast.clock import Clock
from standfast.codec import Scrub
from standfast.core.incident import Evidence, Incident
from standfast.incidents.folders import Folders
from standfast.incidents.keeping import Keeping
from standfast.incidents.trimming import fit_evidence

log = logging.getLogger(__name__)

MOST_WAITING = 200
"""Writes that wait for a slow disk; beyond that none are taken in."""

SWEEP_AFTER = 20
"""New folders after which old ones are looked for."""

LOOK_EVERY = 0.005

_NOTHING = Evidence()


@dataclass(slots=True)
class Filed:
    """What became of an incident: its evidence, fit to be kept, and its folder, if it has one when `over`."""

    evidence: Evidence | None = None
    folder: str | None = None
    over: Future[None] = field(default_factory=Future)


class Filing:
    """Takes incidents in, and writes each as a folder. Nothing here raises, and what fails is said once."""

    def __init__(self, keeping: Keeping, clock: Clock) -> None:
        self._folders = Folders(keeping)
        self._clock = clock
        self._wishes: queue.Queue[Callable[[Folders], None]] = queue.Queue(MOST_WAITING)
        self._thread: threading.Thread | None = None
        self._since_sweep = SWEEP_AFTER
        self._failing = False
        self._elsewhere = False

    def learn(self, keeping: Keeping) -> None:
        """Go on with other settings; folders that were written stay where they are."""
        if keeping != self._folders.keeping:
            self._folders = Folders(keeping)

    def file(self, incident: Incident, evidence: Evidence, scrub: Scrub) -> Filed:
        """Write a new incident soon."""
        filed = Filed()
        if not self._put(partial(self._write, incident, evidence, scrub, filed)):
            filed.over.set_result(None)
        return filed

    def update(self, incident: Incident, filed: Filed, evidence: Evidence = _NOTHING) -> None:
        """Write soon what has changed of an incident, and of its evidence."""
        self._put(partial(_rewrite, incident, filed, evidence))

    def sweep(self) -> None:
        """Remove soon what is too much or too old."""
        self._put(self._sweep)

    def close(self, seconds: float) -> None:
        """Wait until all is written, but no longer than this."""
        give_up_at = time.monotonic() + seconds
        while self._wishes.unfinished_tasks and time.monotonic() < give_up_at:
            time.sleep(LOOK_EVERY)

    def _put(self, wish: Callable[[Folders], None]) -> bool:
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="standfast-incidents", daemon=True)
            self._thread.start()
        try:
            self._wishes.put_nowait(wish)
        except queue.Full:
            self._tell_failing("the disk does not answer")
            return False
        return True

    def _run(self) -> None:
        while True:
            wish, folders = self._wishes.get(), self._folders
            try:
                wish(folders)
                self._failing = False
            except OSError as error:
                self._tell_failing(str(error))
            except Exception:  # the next incident is to be written, whatever is wrong with this one
                log.exception("an incident could not be written to disk")
            finally:
                self._wishes.task_done()

    def _write(self, incident: Incident, evidence: Evidence, scrub: Scrub, filed: Filed, folders: Folders) -> None:
        try:
            filed.evidence = fit_evidence(evidence, scrub)
            filed.folder = folders.write(incident, filed.evidence)
        finally:
            filed.over.set_result(None)
        if folders.instead_of is not None and not self._elsewhere:
            self._elsewhere = True
            log.warning(
                "the folders of incidents are in a temporary place, %s: %s", filed.folder, folders.instead_of
            )
        self._since_sweep += 1
        if self._since_sweep > SWEEP_AFTER:
            self._sweep(folders)

    def _sweep(self, folders: Folders) -> None:
        self._since_sweep = 0
        folders.sweep(self._clock.now())

    def _tell_failing(self, why: str) -> None:
        if not self._failing:
            self._failing = True
            log.warning("incidents cannot be written to disk, only to the store: %s", why)


def _rewrite(incident: Incident, filed: Filed, evidence: Evidence, folders: Folders) -> None:
    if filed.folder is not None:
        folders.rewrite(replace(incident, folder=filed.folder), evidence, filed.folder)
