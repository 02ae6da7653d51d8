"""Workers that were given up: they are remembered until people were told, and somebody does their work again.

silent ─► its lease is over: noted on the board ─► buried, its row is gone ─► missed, for a day at most
"""

from collections.abc import Iterable
from datetime import datetime, timedelta

from msgspec.structs import replace

from standfast.alerts.board import change_board
from standfast.alerts.standing import Board, Missed
from standfast.core.alert import AlertState
from standfast.store.errand import Verbs, errand
from standfast.store.protocol import Store, Worker, ask_time

MISSED_FOR = timedelta(days=1)
"""So long a worker is missed at most: whoever has not done its work by then does not mean to."""

MOST_MISSED = 200


@errand
def note_missed(verbs: Store, worker: Worker, watched_since: datetime) -> Verbs[None]:
    """Note that a worker is about to be buried because it beats no more; by one who has watched since a time."""
    asked = yield ask_time(verbs)
    beat_at = asked.now - worker.beat_age

    def change(board: Board) -> tuple[Board, None]:
        others = [each for each in board.missed if each.info.id != worker.info.id]
        fresh = [each for each in others if asked.now - each.beat_at < MISSED_FOR]
        watched = any(each.watched for each in board.missed if each not in others) or beat_at >= watched_since
        missed = Missed(worker.info, beat_at, watched)
        return replace(board, missed=(*fresh, missed)[-MOST_MISSED:]), None

    yield from change_board(verbs, change)


def missed_now(board: Board, workers: Iterable[Worker]) -> tuple[Missed, ...]:
    """Return who is missed, with the rules that have fired because of it; not who lives after all."""
    living = {worker.info.id for worker in workers if worker.is_live}
    fired: dict[str, set[str]] = {}
    for alert in board.alerts:
        if alert.state is not AlertState.PENDING:
            fired.setdefault(alert.subject, set()).add(alert.rule)
    return tuple(
        replace(each, told=tuple(sorted({*each.told, *fired.get(each.info.id, ())})))
        for each in board.missed
        if each.info.id not in living
    )
