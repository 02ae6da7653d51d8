"""Handlers that wait for the results of other jobs, and the deadlock in which all of a worker's do.

    a place is free ◄─► every place waits ─(for a while)─► asked of the store: who could run what they wait for?
                                                              ├─► somebody will ─────► asked again later
                                                              └─► this worker alone ─► told, once

What a handler waits for is noted by its attempt (`Control.wait_begins`) once it has waited for a second. So that no
warning is false, all must hold: every place is taken by a handler that waits; nothing that they wait for runs, or
waits for anything else than a place; and no living worker but those whose places all wait as well serves its queue.
"""

from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from itertools import islice

from standfast.core.states import State
from standfast.errors import StoreError
from standfast.events import Events, WorkerDeadlocked
from standfast.store.protocol import Situation, Worker
from standfast.wakeup import Wakeup
from standfast.worker.slots import Slots
from standfast.worker.storecalls import StoreCalls

PATIENCE = 5.0
"""Seconds for which every place must wait before the store is asked: others may be about to take the jobs."""

LONGEST_PAUSE = 60.0
"""Seconds between two questions at most, while somebody else will run the jobs."""

LOOKED_AT = 20
"""Of so many of the jobs that are waited for it is asked who could run them."""


class Waits:
    """The waits of one worker's handlers. `closed_queues` tells which queues are closed by a window now."""

    def __init__(
        self,
        worker: str,
        slots: Slots,
        calls: StoreCalls,
        events: Events,
        *,
        boot: Callable[[], float],
        closed_queues: Callable[[], Collection[str]],
    ) -> None:
        self._worker = worker
        self._slots = slots
        self._calls = calls
        self._events = events
        self._boot = boot
        self._closed_queues = closed_queues
        self._ask_at: float | None = None
        self._pause = PATIENCE
        self._told = False
        self._wakeup = Wakeup()

    def count(self) -> int:
        """Return how many handlers wait for results, 0 while a place is free; begin to suspect where all do."""
        waiting = 0 if self._slots.free > 0 else sum(bool(each.awaited) for each in self._slots.running())
        if not waiting or waiting < self._slots.taken:
            self._ask_at, self._pause = None, PATIENCE
        elif self._ask_at is None:
            self._ask_at = self._boot() + PATIENCE
        elif self._boot() >= self._ask_at and not self._told:
            self._wakeup.call()
        return waiting

    async def run(self) -> None:
        """Ask the store whenever all places have waited for a while."""
        while not self._told:
            await self._wakeup.rest(None)
            with suppress(StoreError):  # it is asked again
                await self._ask()
            self._pause = min(2 * self._pause, LONGEST_PAUSE)
            self._ask_at = self._boot() + self._pause

    async def _ask(self) -> None:
        """Tell of the deadlock, if it is one."""
        awaited = {job_id for each in self._slots.running() for job_id in each.awaited}
        seen = await self._calls.once(self._calls.verbs.glance(tuple(awaited)))
        if any(job_id not in seen or seen[job_id].state not in {State.READY, State.HELD} for job_id in awaited):
            return
        task = ""
        for job_id in islice(awaited, LOOKED_AT):
            situation: Situation | None = await self._calls.once(self._calls.verbs.situation(job_id))
            if situation is None or not self._is_up_to_us(situation):
                return
            task = situation.job.task
        waiting = self._slots.running()
        if self._slots.free <= 0 and waiting and all(each.awaited for each in waiting):
            self._told = True
            claim = waiting[0].claim
            self._events.emit(WorkerDeadlocked(claim.task, claim.job_id, task, len(waiting)))

    def _is_up_to_us(self, situation: Situation) -> bool:
        """Tell whether a job waits for a place of this worker, and of nobody else."""
        job = situation.job
        unstarted = job.state is State.READY or (job.state is State.HELD and job.worker == self._worker)
        held_up = situation.queue_paused_at is not None or job.queue in self._closed_queues()
        serving = [each for each in situation.workers if each.is_live and each.serves(job.queue)]
        ours = any(each.info.id == self._worker for each in serving)
        return unstarted and not held_up and not job.group and ours and not _others_can(self._worker, serving)


def _others_can(worker: str, serving: Sequence[Worker]) -> bool:
    """Tell whether one of the other workers will have a place, as far as their last beats tell."""
    return any(
        each.vitals is None or each.vitals.waiting < each.info.concurrency
        for each in serving
        if each.info.id != worker
    )
