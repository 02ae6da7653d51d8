"""What a worker is told that may be a slip, and no error: an unused queue, a program or name that is not there."""

import logging
from collections.abc import Iterable, Iterator

from standfast.alerts.channel import Channel
from standfast.alerts.delivery import DELIVER, QUEUE, doubts
from standfast.alerts.names import strange_names
from standfast.app import Standfast
from standfast.child.canary import CANARY
from standfast.schedule.closing import About
from standfast.worker.served import ServedQueues

log = logging.getLogger(__name__)


def warn_of_unused_queues(app: Standfast, served: ServedQueues | None) -> None:
    """Say which queues no task is declared for. No error: jobs get there by `options(queue=…)` all the same."""
    used = {QUEUE, *_queues_of(app)}
    unused = [name for name in (served.names if served else ()) if name not in used]
    if unused:
        log.warning(
            "no task of the app is declared for %s %s, named in --queues; it has tasks for %s",
            "queue" if len(unused) == 1 else "the queues",
            ", ".join(map(repr, unused)),
            ", ".join(map(repr, sorted(used - {QUEUE}))) or "none",
        )


def warn_of_channels(channels: Iterable[Channel]) -> None:
    """Say through which channels nobody will hear anything from here."""
    for doubt in doubts(channels):
        log.warning("%s: what goes through it is tried again, and fails", doubt)


def warn_of_names(app: Standfast, served: ServedQueues | None) -> None:
    """Say which rules and objectives are about something that is not there."""
    for doubt in name_doubts(app, served.names if served else ()):
        log.warning("%s", doubt)


def name_doubts(app: Standfast, queues: Iterable[str]) -> Iterator[str]:
    """Yield a line for each name in rules and objectives that nobody has; `queues` somebody has besides the app."""
    used = {QUEUE, *queues, *app.limits.queues, *_queues_of(app)}
    schedules = {declared.name for declared in app.declarations}
    yield from strange_names(
        app.watching, {"task": {DELIVER, CANARY, *app.tasks}, "queue": used, "schedule": schedules}
    )


def _queues_of(app: Standfast) -> Iterator[str]:
    """Yield the queues that an app has something for: tasks, schedules, windows."""
    yield from (task.policy.queue for task in app.tasks.values())
    yield from (declared.job.queue for declared in app.declarations)
    yield from (hours.name for hours in app.windows if hours.about is About.QUEUE)
