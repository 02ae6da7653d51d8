"""Canaries in flight: which queues they are sent through, which are back, and why the others are not.

None is sent through a queue that a window closes: that it does not start anything is how it should be.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

from msgspec.structs import replace

from standfast.child.canary import new_canary
from standfast.cli.windows import find_windows
from standfast.clock import SystemClock
from standfast.core.states import FINAL, State
from standfast.errors import JobNotFoundError
from standfast.store.backend import Backend
from standfast.store.protocol import Queue, Worker
from standfast.watch.closed import queue_closed
from standfast.watch.why import explain
from standfast.words import counted

_ORDINARY = "default"


@dataclass(frozen=True, slots=True)
class QueueChoice:
    """Which queues are checked: those `named`, else those `declared` by an app and those that the store knows."""

    named: tuple[str, ...] = ()
    declared: frozenset[str] = frozenset()

    def of(self, queues: Iterable[Queue], workers: Iterable[Worker]) -> list[str]:
        """Return the queues, by name.

        A queue without a worker counts while it holds unfinished jobs: what is left of it afterwards is history. If
        workers serve all queues and none is known yet, the ordinary one stands for them.
        """
        if self.named:
            return list(self.named)
        live = [worker for worker in workers if worker.is_live]
        served = {name for worker in live for name in worker.info.queues or ()}
        known = {
            queue.name for queue in queues if _is_in_use(queue) or any(each.serves(queue.name) for each in live)
        }
        chosen = self.declared | served | known
        return sorted(chosen) or ([_ORDINARY] if live else [])


def _is_in_use(queue: Queue) -> bool:
    return queue.paused_at is not None or any(count for state, count in queue.states.items() if state not in FINAL)


@dataclass(frozen=True, slots=True)
class Flight:
    """How a queue fared: how long its canary took, or else why it is not through, or not to be: it is closed."""

    queue: str
    job_id: str | None
    took: timedelta | None
    why: str | None
    closed: bool = False


class Canaries:
    """One canary for each queue. Queues that turn up later get theirs then."""

    def __init__(self, backend: Backend, choice: QueueChoice) -> None:
        self._backend = backend
        self._choice = choice
        self._sent: dict[str, str] = {}
        self._away: set[str] = set()
        self._closed: dict[str, str] = {}

    @property
    def words(self) -> str:
        """What is waited for."""
        if not self._sent:
            return "waiting for a worker"
        return f"{counted(len(self._away), 'queue')} of {len(self._sent)} to go: {', '.join(sorted(self._away))}"

    def look(self, left: float) -> bool:
        """Send what is to be sent, with so many seconds left, and look who is back; return whether all are."""
        if left:
            self._send(timedelta(seconds=left))
        seen = self._backend.run(self._backend.verbs.glance([self._sent[queue] for queue in self._away]))
        self._away -= {queue for queue in self._away if seen[self._sent[queue]].state in FINAL}
        return bool(self._sent or self._closed) and not self._away

    def landed(self) -> list[Flight]:
        """Return how each queue fared, by name."""
        closed = [Flight(queue, None, None, why, closed=True) for queue, why in self._closed.items()]
        sent = [self._flight(queue, job_id) for queue, job_id in self._sent.items()]
        return sorted([*closed, *sent], key=lambda flight: flight.queue)

    def recall(self) -> None:
        """Cancel those that are still away."""
        for queue in self._away:
            self._backend.run(self._backend.verbs.cancel(self._sent[queue]))

    def _send(self, within: timedelta) -> None:
        verbs = self._backend.verbs
        queues, workers = self._backend.run(verbs.queues()), self._backend.run(verbs.workers())
        chosen = [queue for queue in self._choice.of(queues, workers) if queue not in self._sent]
        now = SystemClock().now()
        self._closed = {queue: why for queue in chosen if (why := self._why_closed(queue, now)) is not None}
        jobs = [new_canary(queue, within) for queue in chosen if queue not in self._closed]
        if jobs:
            self._backend.run(verbs.enqueue(jobs))
            self._sent |= {job.queue: job.id for job in jobs}
            self._away |= {job.queue for job in jobs}

    def _flight(self, queue: str, job_id: str) -> Flight:
        situation = self._backend.run(self._backend.verbs.situation(job_id))
        if situation is None:
            raise JobNotFoundError(f"the canary {job_id} of queue '{queue}' is gone; someone deleted it")
        job = situation.job
        if job.state is State.COMPLETED and job.finished_at is not None:
            return Flight(queue, job_id, job.finished_at - job.created_at, None)
        closed = self._why_closed(queue, situation.now)
        endless = replace(situation, job=replace(job, start_by=None))  # that it ends with the wait explains nothing
        return Flight(queue, job_id, None, closed or explain(endless).text, closed=closed is not None)

    def _why_closed(self, queue: str, now: datetime) -> str | None:
        closed = queue_closed(find_windows(self._backend), queue, now)
        return None if closed is None else f"It is closed until {closed.until(now)}."
