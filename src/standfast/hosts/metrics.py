"""What is counted for metrics beside the lives of a host: what else its process does, and what its beater does.

A life counts in a file of its own, as there may be two at a time in one process, one of which does not end yet. All
else that goes through the app, requests too, is counted in one file of the process, whichever life is there.
"""

import logging
import os
import weakref
from dataclasses import dataclass
from pathlib import Path

from standfast.app import Standfast
from standfast.events import Events
from standfast.model.clock import Clock
from standfast.model.configuration import Settings
from standfast.observe.figures.counts import Tally
from standfast.observe.metrics.meter import Meter, MeteredTally
from standfast.observe.metrics.shared import SharedFolder
from standfast.stores.backend import Backend
from standfast.stores.url import open_backend

log = logging.getLogger(__name__)

_COUNTED: "weakref.WeakKeyDictionary[Standfast, int]" = weakref.WeakKeyDictionary()
"""The apps that are counted, and in which process: what a forked one has is the parent's."""


def count_here(app: Standfast, folder: str | None) -> None:
    """Count what this process does with an app from now on, once. Raises ConfigurationError where it cannot."""
    if folder is None or _COUNTED.get(app) == os.getpid():
        return
    meter = SharedFolder(Path(folder)).required_meter()
    app.observe(meter.observe)
    app.events.subscribe(meter.hear, meter.hears)
    _COUNTED[app] = os.getpid()


@dataclass(frozen=True, slots=True)
class Metered:
    """What a beater counts with, if it does: its calls of the store, and jobs that died with their worker."""

    meter: Meter | None

    @classmethod
    def beginning(cls, folder: str | None, events: Events) -> "Metered":
        """Begin to count. Without room for it jobs run all the same."""
        if folder is None:
            return cls(None)
        try:
            meter = SharedFolder(Path(folder)).meter()
        except OSError as error:
            log.warning("this beater counts nothing for metrics: %s: %s", folder, error.strerror)
            return cls(None)
        events.subscribe(meter.hear, meter.hears)
        return cls(meter)

    def open_backend(self, settings: Settings) -> Backend:
        """Open the store."""
        opened = open_backend(settings)
        if self.meter is not None:
            opened.observe(self.meter.observe)
        return opened

    def tally(self, clock: Clock) -> Tally:
        """Return what counts how jobs end."""
        return Tally(clock) if self.meter is None else MeteredTally(self.meter, clock)
