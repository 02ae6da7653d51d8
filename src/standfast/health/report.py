"""What a look at the store means: is it all well, and how far behind are the queues. Pure.

Nothing in a report names a machine, a URL, a task or an argument.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from standfast.store.protocol import QueueAge, QueueAges, Worker
from standfast.watch.closed import Windows, queue_closed
from standfast.words import counted, span, standfast_version


@dataclass(frozen=True, slots=True)
class Seen:
    """What a look at the store brought, and how many seconds it took; `problem` if the store did not answer."""

    took: float = 0.0
    workers: tuple[Worker, ...] = ()
    ages: QueueAges | None = None
    windows: Windows = ()
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that has to be well. `warns`: it is worth a look, though work may be sent here all the same."""

    name: str
    ok: bool
    says: str
    warns: bool = False


@dataclass(frozen=True, slots=True)
class QueueHealth:
    """A queue with due jobs that nobody has claimed: how long the oldest waits, and who wants that, if anybody."""

    age: timedelta
    held_up: str | None = None
    """`paused` or `closed`."""


@dataclass(frozen=True, slots=True)
class Report:
    """How things are. `lag` is the age of the oldest queue that nothing holds up on purpose."""

    checks: tuple[Check, ...]
    at: datetime | None = None
    last_beat: timedelta | None = None
    """How long ago the last beat of any worker was."""
    workers: int = 0
    queues: Mapping[str, QueueHealth] = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        """Whether all is well, so that work may be sent here."""
        return all(check.ok for check in self.checks)

    @property
    def warns(self) -> bool:
        """Whether something is worth a look, though work may be sent here."""
        return any(check.warns for check in self.checks)

    @property
    def lag(self) -> timedelta:
        """How long the job waits that has been due longest, and should be running."""
        late = (queue.age for queue in self.queues.values() if queue.held_up is None)
        return max(late, default=timedelta())

    def fields(self) -> dict[str, Any]:
        """Return the report as JSON has it; spans are seconds."""
        return {
            "status": "ok" if self.ok else "failing",
            "version": standfast_version(),
            "time": self.at,
            "last_beat": None if self.last_beat is None else _seconds(self.last_beat),
            "lag": _seconds(self.lag) if self.at else None,
            "workers": self.workers,
            "queues": {
                name: {"age": _seconds(queue.age), "held_up": queue.held_up} for name, queue in self.queues.items()
            },
            "checks": [
                {"check": check.name, "ok": check.ok, "warns": check.warns, "says": check.says}
                for check in self.checks
            ],
        }


def judge(seen: Seen, *, warm: bool | None = None) -> Report:
    """Return what a look means; `warm` is whether the worker of this very process works, if it is to have one."""
    if seen.ages is None:
        store = Check("store", ok=False, says=f"the store {seen.problem}")
        return Report((store,) if warm is None else (store, _of_this_process(warm=warm)))
    counted = [worker for worker in seen.workers if not worker.info.is_courier]
    live = sum(worker.is_live for worker in counted)
    store = Check("store", ok=True, says=f"answered within {span(timedelta(seconds=seen.took))}")
    workers = _fleet(live) if warm is None else _of_this_process(warm=warm)
    return Report(
        (store, workers, *_unknown(seen.ages)),
        seen.ages.now,
        min((worker.beat_age for worker in counted), default=None),
        live,
        {queue.name: _queue(queue, seen.ages.now, seen.windows) for queue in seen.ages.queues},
    )


def _unknown(ages: QueueAges) -> Iterator[Check]:
    """Yield that jobs wait whose task no worker knows: to restart anything here would not help them."""
    if ages.unknown:
        tasks = {age.task for age in ages.unknown}
        waits = ages.now - min(age.oldest_due_at for age in ages.unknown)
        says = f"jobs of {counted(len(tasks), 'task')} wait that no worker knows, the oldest for {span(waits)}"
        yield Check("tasks", ok=True, says=f"{says}: see `standfast doctor`", warns=True)


def _fleet(live: int) -> Check:
    return Check("workers", ok=live > 0, says=f"{counted(live, 'live worker')}" if live else "no live worker")


def _of_this_process(*, warm: bool) -> Check:
    return Check("worker", ok=warm, says="works" if warm else "does not work, or not yet")


def _queue(queue: QueueAge, now: datetime, windows: Windows) -> QueueHealth:
    closed = queue_closed(windows, queue.name, now) is not None
    held_up = "paused" if queue.paused_at is not None else "closed" if closed else None
    return QueueHealth(max(timedelta(), now - queue.oldest_due_at), held_up)


def _seconds(length: timedelta) -> float:
    return round(length.total_seconds(), 3)
