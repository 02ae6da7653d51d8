"""A queue that a worker was told to serve and that its app does not use: a slip of the keyboard, most likely."""

import logging

from holdfast.app import Holdfast
from holdfast.schedule.closing import About
from holdfast.worker.served import ServedQueues

log = logging.getLogger(__name__)


def warn_of_unused_queues(app: Holdfast, served: ServedQueues | None) -> None:
    """Say which queues no task is declared for. No error: jobs get there by `options(queue=…)` all the same."""
    used = {task.policy.queue for task in app.tasks.values()}
    used |= {hours.name for hours in app.windows if hours.about is About.QUEUE}
    unused = [name for name in (served.names if served else ()) if name not in used]
    if unused:
        log.warning(
            "no task of the app is declared for %s %s, named in --queues; it has tasks for %s",
            "queue" if len(unused) == 1 else "the queues",
            ", ".join(map(repr, unused)),
            ", ".join(map(repr, sorted(used))) or "none",
        )
