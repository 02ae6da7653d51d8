"""Queues as the fields that `--json` prints, and the columns in which a list shows them."""

from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Any

from rich.text import Text

from standfast.cli.output import STYLES, Column, cut, number
from standfast.core.states import State
from standfast.store.protocol import Queue
from standfast.watch.closed import Windows, queue_closed
from standfast.words import dated, relative

_ALWAYS = (State.READY, State.SCHEDULED, State.BLOCKED, State.HELD, State.RUNNING, State.DEAD)
_ON_WIDE_TERMINALS = (State.COMPLETED, State.CANCELLED)
_VITAL = (State.READY, State.RUNNING, State.DEAD)
_WIDE = 100


def queue_fields(found: Iterable[Queue], windows: Windows, now: datetime) -> list[dict[str, Any]]:
    """Return queues ready for JSON, every state with its count."""
    return [
        {
            "name": queue.name,
            "paused_at": queue.paused_at,
            "closed_until": closed.closing.end if (closed := queue_closed(windows, queue.name, now)) else None,
            "states": {state.value: queue.states.get(state, 0) for state in State},
        }
        for queue in found
    ]


def queue_columns(found: Iterable[Queue], windows: Windows, now: datetime) -> list[Column[Queue]]:
    """Return the columns of a list of queues; whether one is closed is a column only if one is."""
    closed = {
        queue.name: str(words.until(now)) for queue in found if (words := queue_closed(windows, queue.name, now))
    }
    until: Column[Queue] = Column(
        "CLOSED UNTIL", lambda queue: Text(closed.get(queue.name, ""), style="yellow"), shrinks=True, vital=2
    )
    counts = [_count_column(state) for state in _ALWAYS]
    counts += [_count_column(state, from_width=_WIDE) for state in _ON_WIDE_TERMINALS]
    return [
        Column("QUEUE", lambda queue: cut(queue.name)),
        *counts,
        Column("PAUSED", lambda queue: _paused(queue, relative, now), below_width=_WIDE, vital=2),
        Column("PAUSED", lambda queue: _paused(queue, dated, now), from_width=_WIDE, vital=2),
        *([until] if closed else []),
    ]


def _count_column(state: State, from_width: int = 0) -> Column[Queue]:
    return Column(
        state.value.upper(),
        lambda queue: number(queue.states.get(state, 0), STYLES[state]),
        from_width=from_width,
        vital=int(state in _VITAL),
        justify="right",
    )


def _paused(queue: Queue, told: Callable[[datetime, datetime], str], now: datetime) -> Text:
    return Text(told(queue.paused_at, now) if queue.paused_at else "", style="yellow")
