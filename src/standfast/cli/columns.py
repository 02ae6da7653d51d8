"""Columns of queues and workers, which several commands print.

The windows of queues and tasks, as the store tells of them.
"""

from collections.abc import Callable, Iterable
from datetime import datetime, timedelta

from rich.text import Text

from standfast.admin.queues import QueueRow
from standfast.admin.workers import WorkerRow
from standfast.cli.output import STYLES, Column, cut, number
from standfast.model.display import dated, in_bytes, relative
from standfast.model.records import Kind
from standfast.model.states import State
from standfast.observe.obstacles import Windows
from standfast.schedules.closed_hours import read_windows
from standfast.stores.backend import Backend


def find_windows(backend: Backend) -> Windows:
    """Return the windows that workers have told the store of."""
    records = backend.run(backend.verbs.records(Kind.WINDOW))
    return read_windows(records)


# The columns in which a list shows queues.

_ALWAYS = (State.READY, State.SCHEDULED, State.BLOCKED, State.HELD, State.RUNNING, State.DEAD)
_ON_WIDE_TERMINALS = (State.COMPLETED, State.CANCELLED)
_VITAL = (State.READY, State.RUNNING, State.DEAD)
_WIDE = 100


def queue_columns(found: Iterable[QueueRow], now: datetime) -> list[Column[QueueRow]]:
    """Return the columns of a list of queues; whether one is closed is a column only if one is."""
    until: Column[QueueRow] = Column(
        "CLOSED UNTIL", lambda queue: Text(str(queue.closed or ""), style="yellow"), shrinks=True, vital=2
    )
    counts = [_count_column(state) for state in _ALWAYS]
    counts += [_count_column(state, from_width=_WIDE) for state in _ON_WIDE_TERMINALS]
    return [
        Column("QUEUE", lambda queue: cut(queue.name)),
        *counts,
        Column("PAUSED", lambda queue: _paused(queue, relative, now), below_width=_WIDE, vital=2),
        Column("PAUSED", lambda queue: _paused(queue, dated, now), from_width=_WIDE, vital=2),
        *([until] if any(queue.closed for queue in found) else []),
    ]


def _count_column(state: State, from_width: int = 0) -> Column[QueueRow]:
    return Column(
        state.value.upper(),
        lambda queue: number(queue.states[state], STYLES[state]),
        from_width=from_width,
        vital=int(state in _VITAL),
        justify="right",
    )


def _paused(queue: QueueRow, told: Callable[[datetime, datetime], str], now: datetime) -> Text:
    return Text(told(queue.paused_at, now) if queue.paused_at else "", style="yellow")


# Workers as the columns in which a list shows them.

BETWEEN_PULSES = 1.0
"""Seconds between two signs of life of a worker that is well."""

LATE = 0.5
"""Seconds from which on it is told that an event loop is late."""


def worker_columns(now: datetime) -> list[Column[WorkerRow]]:
    """Return the columns of a list of workers."""
    return [
        Column("WORKER", lambda worker: worker.id),
        Column("HOST", lambda worker: cut(worker.host), shrinks=True),
        Column("PID", lambda worker: str(worker.pid), justify="right"),
        Column("QUEUES", lambda worker: cut(", ".join(worker.queues or ("all",))), shrinks=True),
        Column("RUNNING", lambda worker: f"{worker.running}/{worker.concurrency}", justify="right"),
        Column("LOAD", _load, justify="right", from_width=90),
        Column("MEMORY", _memory, justify="right", from_width=90),
        Column("HELD", lambda worker: str(worker.held), justify="right", from_width=110),
        Column("LAST BEAT", lambda worker: _last_beat(worker, now), vital=1),
        Column("STARTED", lambda worker: dated(worker.started_at, now), from_width=120),
    ]


def _load(worker: WorkerRow) -> Text:
    """Return how much of what it may run at a time it runs, and whether its event loop is late."""
    if (vitals := worker.vitals) is None:
        return Text("")
    share = f"{100 * vitals.running / max(vitals.slots, 1):.0f} %"
    late = max(vitals.lag or 0.0, vitals.pulse_age - BETWEEN_PULSES)
    return Text(share) if late < LATE else Text(f"{share}, {late:.1f} s late", style="yellow")


def _memory(worker: WorkerRow) -> str:
    return "" if worker.vitals is None or worker.vitals.memory is None else in_bytes(worker.vitals.memory)


def _last_beat(worker: WorkerRow, now: datetime) -> Text:
    at = relative(now - timedelta(seconds=worker.beat_age), now)
    if worker.live:
        return Text(at, style="green")
    return Text(f"{at}, lost", style="bold red")
