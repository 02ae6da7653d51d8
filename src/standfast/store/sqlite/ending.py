"""How a claim leaves its worker's hands, whoever ends it: the two updates and the line in the history."""

from collections.abc import Mapping

from standfast.core.job import HISTORY_FIRST, HISTORY_LAST, folds_at
from standfast.core.states import FINAL, State
from standfast.store.claimed import End
from standfast.store.verb import Command, Steps


def write_end(sql: Mapping[str, str], end: End, now: int) -> Steps[bool]:
    """Write the end of a claim that was found valid in this same transaction; tell whether it set a job free."""
    row = end.row
    story = (row.started_at, now, end.how, end.attempt_error, end.traceback, end.log, end.by.value)
    yield Command(sql["record_attempt"], (row.seq, row.fence, row.worker, *story))
    if folds_at(row.fence):
        between = (row.seq, HISTORY_FIRST, row.fence - HISTORY_LAST)
        yield Command(sql["fold_attempts"], between)
        yield Command(sql["forget_folded"], between)
    numbers = (row.attempt, row.crashes, row.group, row.error)
    if end.state in FINAL:
        last = (end.result, end.result_until, row.started_at)
        yield Command(sql["end_for_good"], (row.seq, end.state.value, end.reason, now, *numbers, *last))
    else:
        state = _waiting_state(end.state, row.run_at, now)
        yield Command(sql["give_back"], (row.seq, state.value, end.reason, row.run_at, *numbers))
    if end.result_until is not None:
        yield Command(sql["note_fading"], (row.id,))
    if row.replaced:
        yield Command(sql["free_replacement"], (row.task, row.key, row.id, now))
    return bool(row.replaced)


def _waiting_state(state: State, run_at: int, now: int) -> State:
    if state is State.BLOCKED:
        return state
    return State.READY if run_at <= now else State.SCHEDULED
