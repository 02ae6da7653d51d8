"""What a worker counts with for metrics: a file that its supervisor reads, or one in a folder that many share."""

import logging
from functools import partial
from pathlib import Path

from standfast.app import Standfast
from standfast.metrics.backend import MeteredBackend
from standfast.metrics.meter import Meter
from standfast.metrics.shared import SharedFolder
from standfast.worker.messages import Configure

log = logging.getLogger(__name__)


def begin_metering(app: Standfast, configure: Configure, *, whole_app: bool) -> Meter | None:
    """Return what counts for metrics, if they are wanted. Without room for it jobs run all the same.

    `whole_app`: what goes through the app is counted, too; else that is somebody else's affair.
    """
    meter = _meter_for(configure)
    if meter is None:
        return None
    if whole_app:
        app.open_inside(partial(MeteredBackend, meter=meter))
        app.events.subscribe(meter.hear, meter.hears)
    meter.know([(task.policy.queue, name) for name, task in app.tasks.items()])
    return meter


def _meter_for(configure: Configure) -> Meter | None:
    try:
        if configure.counts_dir:
            return SharedFolder(Path(configure.counts_dir)).meter()
        return Meter(Path(configure.counts)) if configure.counts else None
    except OSError as error:
        place = configure.counts_dir or configure.counts
        log.warning("this worker counts nothing for metrics: %s cannot be written: %s", place, error.strerror)
        return None
