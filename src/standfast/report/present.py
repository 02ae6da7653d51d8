"""Looks at what is wrong at this moment: alerts that fire, queues that wait in vain, no worker at all."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from standfast.alerts.board import read_board
from standfast.alerts.delivery import QUEUE
from standfast.alerts.serving import Serving
from standfast.alerts.standing import Board
from standfast.alerts.telling import heard
from standfast.core.alert import Alert, Severity
from standfast.core.record import Kind, Record
from standfast.core.states import State
from standfast.report.model import AlertLine, Present, QueueLine
from standfast.schedule.published import read_windows
from standfast.store.errand import Verbs
from standfast.store.protocol import Queue, QueueAge, QueueAges, Store, Worker
from standfast.watch.closed import queue_closed
from standfast.watch.health import LONG_WAIT
from standfast.words import one_line

LONGEST_TEXT = 300
"""Characters of foreign text in a cell."""


@dataclass(frozen=True, slots=True)
class Look:
    """What is wrong, and the queues, by name."""

    present: Present
    queues: Mapping[str, Queue]


def look_around(verbs: Store) -> Verbs[Look]:
    """Return how things are now, by five calls, and one more where a queue waits."""
    board: Board = yield from read_board(verbs).steps
    workers: Sequence[Worker] = yield verbs.workers()
    ages: QueueAges = yield verbs.queue_ages()
    queues: Mapping[str, Queue] = {queue.name: queue for queue in (yield verbs.queues())}
    living = [each for each in workers if each.is_live and not each.info.is_courier]
    late = list(_late(ages, Serving(living), queues))
    if late:
        records: Sequence[Record] = yield verbs.records(Kind.WINDOW)
        windows = read_windows(records)
        late = [line for line in late if queue_closed(windows, line.queue, ages.now) is None]
    present = Present(
        workers=len(living),
        alerts=tuple(_alert(each) for each in sorted(board.firing, key=_is_minor)),
        queues=tuple(sorted(late, key=lambda line: line.oldest_due_at)),
    )
    return Look(present, queues)


def _is_minor(alert: Alert) -> bool:
    return alert.severity is not Severity.CRITICAL


def _alert(alert: Alert) -> AlertLine:
    """Return an alert without its examples, and without who has said something about it."""
    rule, subject, says = (one_line(text, LONGEST_TEXT) for text in (alert.rule, alert.subject, alert.says))
    return AlertLine(rule, subject, alert.severity, alert.since, says, heard(alert))


def _late(ages: QueueAges, living: Serving, queues: Mapping[str, Queue]) -> Iterable[QueueLine]:
    """Yield the queues whose oldest due job waits for long, or for a worker that is not there.

    Deliveries are also made by supervisors, which serve their queue whenever something is in it.
    """
    for age in ages.queues:
        is_served = age.name in living or age.name == QUEUE
        waits = ages.now - age.oldest_due_at
        if waits > LONG_WAIT or not (is_served or age.paused_at):
            yield QueueLine(
                queue=age.name,
                oldest_due_at=age.oldest_due_at,
                waits=waits,
                due=_due(age, queues),
                is_served=is_served,
                paused_at=age.paused_at,
            )


def _due(age: QueueAge, queues: Mapping[str, Queue]) -> int:
    """Return how many jobs are due; that is asked a moment later than whether there are any."""
    queue = queues.get(age.name)
    return max(1, queue.states.get(State.READY, 0) if queue else 0)
