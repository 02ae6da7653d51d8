"""The windows of queues and tasks, as the store tells of them."""

from standfast.core.record import Kind
from standfast.schedule.published import read_windows
from standfast.store.backend import Backend
from standfast.watch.closed import Windows


def find_windows(backend: Backend) -> Windows:
    """Return the windows that workers have told the store of."""
    records = backend.run(backend.verbs.records(Kind.WINDOW))
    return read_windows(records)
