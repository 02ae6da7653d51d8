"""From rows to the values that others see. What depends on the time was decided by the statements."""

from standfast.core.job import Glance
from standfast.core.states import State
from standfast.core.vitals import read_vitals
from standfast.store.protocol import Worker
from standfast.store.sql_rows import Row, to_progress, to_worker_info
from standfast.store.times import from_micros, span_from_micros


def to_glance(row: Row) -> Glance:
    """Return the glance at the state and progress that `glance` selects."""
    state, *progress = row
    return Glance(State(state) if state in set(State) else State.DEAD, to_progress(*progress))


def to_worker(row: Row) -> Worker:
    """Return the worker that `worker_rows` select."""
    _, *who, started_at, beat_age, condemned, held, running, vitals = row
    age = span_from_micros(beat_age)
    return Worker(to_worker_info(who), from_micros(started_at), age, condemned, held, running, read_vitals(vitals))
