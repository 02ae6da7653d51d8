"""The windows of queues and tasks, as the store tells of them."""

from holdfast.core.record import Kind
from holdfast.schedule.published import read_windows
from holdfast.store.backend import Backend
from holdfast.watch.closed import Windows


def find_windows(backend: Backend) -> Windows:
    """Return the windows that workers have told the store of."""
    records = backend.run(backend.verbs.records(Kind.WINDOW))
    return read_windows(records)
