"""From rows to the values that others see. What depends on the time was decided by the statements."""

from holdfast.core.job import Glance
from holdfast.core.states import State
from holdfast.store.protocol import Worker, WorkerInfo
from holdfast.store.sql_rows import Row, to_progress
from holdfast.store.times import from_micros, span_from_micros


def to_glance(row: Row) -> Glance:
    """Return the glance at the state and progress that `glance` selects."""
    state, done, total = row
    return Glance(State(state), to_progress(done, total))


def to_worker(row: Row) -> Worker:
    """Return the worker that `worker_rows` select."""
    _, id_, supervisor, host, pid, lease, queues, concurrency, started_at, beat_age, condemned, held, running = row
    info = WorkerInfo(
        id=id_,
        supervisor=supervisor,
        host=host,
        pid=pid,
        lease=span_from_micros(lease),
        queues=None if queues is None else tuple(queues),
        concurrency=concurrency,
    )
    return Worker(info, from_micros(started_at), span_from_micros(beat_age), condemned, held, running)
