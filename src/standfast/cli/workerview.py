"""Workers as the fields that `--json` prints, and the columns in which a list shows them."""

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from rich.text import Text

from standfast.cli.output import Column, cut
from standfast.store.protocol import Worker
from standfast.words import dated, in_bytes, relative

BETWEEN_PULSES = 1.0
"""Seconds between two signs of life of a worker that is well."""

LATE = 0.5
"""Seconds from which on it is told that an event loop is late."""


def worker_fields(found: Iterable[Worker]) -> list[dict[str, Any]]:
    """Return workers ready for JSON; spans are seconds."""
    return [
        {
            "id": worker.info.id,
            "supervisor": worker.info.supervisor,
            "host": worker.info.host,
            "pid": worker.info.pid,
            "queues": worker.info.queues,
            "concurrency": worker.info.concurrency,
            "lease": worker.info.lease.total_seconds(),
            "started_at": worker.started_at,
            "beat_age": worker.beat_age.total_seconds(),
            "live": worker.is_live,
            "condemned": worker.condemned,
            "held": worker.held,
            "running": worker.running,
            "vitals": worker.vitals,
        }
        for worker in found
    ]


def worker_columns(now: datetime) -> list[Column[Worker]]:
    """Return the columns of a list of workers."""
    return [
        Column("WORKER", lambda worker: worker.info.id),
        Column("HOST", lambda worker: cut(worker.info.host), shrinks=True),
        Column("PID", lambda worker: str(worker.info.pid), justify="right"),
        Column("QUEUES", lambda worker: cut(", ".join(worker.info.queues or ("all",))), shrinks=True),
        Column("RUNNING", lambda worker: f"{worker.running}/{worker.info.concurrency}", justify="right"),
        Column("LOAD", _load, justify="right", from_width=90),
        Column("MEMORY", _memory, justify="right", from_width=90),
        Column("HELD", lambda worker: str(worker.held), justify="right", from_width=110),
        Column("LAST BEAT", lambda worker: _last_beat(worker, now), vital=1),
        Column("STARTED", lambda worker: dated(worker.started_at, now), from_width=120),
    ]


def _load(worker: Worker) -> Text:
    """Return how much of what it may run at a time it runs, and whether its event loop is late."""
    if (vitals := worker.vitals) is None:
        return Text("")
    share = f"{100 * vitals.running / max(vitals.slots, 1):.0f} %"
    late = max(vitals.lag or 0.0, vitals.pulse_age - BETWEEN_PULSES)
    return Text(share) if late < LATE else Text(f"{share}, {late:.1f} s late", style="yellow")


def _memory(worker: Worker) -> str:
    return "" if worker.vitals is None or worker.vitals.memory is None else in_bytes(worker.vitals.memory)


def _last_beat(worker: Worker, now: datetime) -> Text:
    at = relative(now - worker.beat_age, now)
    if worker.is_live:
        return Text(at, style="green")
    return Text(f"{at}, lost", style="bold red")
