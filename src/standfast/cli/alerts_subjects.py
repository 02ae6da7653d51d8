"""The names that a silence may be about, as far as the store tells: one that nothing has is a slip, as a rule."""

from collections.abc import Iterator

from standfast.alerts.breach import OTHERS
from standfast.alerts.standing import Board
from standfast.catalogue.book import read_catalogue
from standfast.core.alert import AlertRule, Check
from standfast.core.incident import Trouble
from standfast.core.record import Kind
from standfast.spelling import nearest
from standfast.store.backend import Backend
from standfast.store.errand import run_errand
from standfast.words import one_line

_UNTOLD = frozenset({Check.KEEP_ALIVE, Check.NOT_DURABLE, Check.DISK_FULL})
"""What is about hosts, places and settings, whose names are in no store."""


def subject_doubt(backend: Backend, board: Board, rule: AlertRule | None, subject: str) -> str | None:
    """Return why a silence may cover nothing: nothing has the name that it is about. None where something has."""
    if rule is not None and rule.check in _UNTOLD:
        return None
    known = set(_names(backend, board))
    if subject in known:
        return None
    meant = nearest(subject, known)
    slip = "" if meant is None else f"; did you mean {one_line(meant)}?"
    return f"no queue, task, schedule, worker, objective or alert is named {subject!r} yet{slip}"


def _names(backend: Backend, board: Board) -> Iterator[str]:
    verbs, view = backend.verbs, run_errand(backend.run, read_catalogue(backend.verbs))
    yield from (alert.subject for alert in board.alerts)
    yield from (missed.info.id for missed in board.missed)
    yield from (known.task.name for known in view.tasks)
    yield from (queue.name for queue in view.queues)
    yield from (queue.name for queue in backend.run(verbs.queues()))
    yield from (objective.name for objective in view.objectives)
    yield from (schedule.name for schedule in backend.run(verbs.records(Kind.SCHEDULE)))
    yield from (worker.info.id for worker in backend.run(verbs.workers()))
    yield from (*Trouble, "store", "number", "age", OTHERS)
