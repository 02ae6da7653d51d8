"""One attempt in progress, as its handler asks it and as it is told to stop; slots, and deadlocks of waits."""

import asyncio
import threading
import traceback
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass
from datetime import datetime
from enum import Enum
from itertools import islice
from random import Random
from typing import Any

from msgspec.structs import replace

from standfast.context import Context, Transaction
from standfast.durable.durable_context import DurableAttempt
from standfast.durable.files import FileStore
from standfast.durable.runtime import Notebook, OwnNotebook, Saving
from standfast.errors import StoreError
from standfast.events import Events, WorkerDeadlocked
from standfast.model.concurrency import Latch, Wakeup
from standfast.model.display import one_line
from standfast.model.job import NOTE_LENGTH, Claim, Ending, Progress
from standfast.model.secrets import NO_SECRETS, Scrub
from standfast.model.states import State
from standfast.model.tracing import AttemptTrace
from standfast.observe.logs.job_log import LogTail
from standfast.stores.values import Situation, Worker
from standfast.worker.completer import Judge
from standfast.worker.lease import Lease
from standfast.worker.storecalls import StoreCalls

_opening = threading.Lock()
IN_BACKGROUND = "standfast-background"  # how the names of the threads begin in which work in the background runs


class StopReason(Enum):
    """Why an attempt is told to stop."""

    CANCEL = "cancel"
    STOP = "stop"
    LOST = "lost"
    TIMEOUT = "timeout"
    WINDOW = "window"
    """A window of its queue or task is about to begin: it is asked only, and any other reason overrules."""


class Control:
    """One attempt in progress. Read from any thread; changed on the event loop only, but for what `fix` sets.

    `attempt` is the task that carries it; while a coroutine is in progress there, `cancellable` is true.
    `ending` is how a transaction of the handler ended the job; while that is under way, `concluding` is true.
    `opens_at` is when the window ends for which it was asked to finish. `opened` is its notebook, if it was used.
    `kill` ends the process of its own in which it runs, if it does.
    `opener` makes its context, of it and of its `judge`, once anybody asks for that; with it come the store's time
    (`now`), where files are put (`shelf`), and transactions that complete the job or save the memo of a step.
    `spoke`: it has said how far it is; `began_durable`: it has asked for a step or a wait; `knew`: it has asked
    whether it should end, and it should.
    """

    takes_pauses = True  # whether the waits between two tries of a step are kept

    __slots__ = (
        "_awaited",
        "_context",
        "_durable",
        "_lease",
        "_open",
        "_report",
        "_waker",
        "attempt",
        "began_durable",
        "cancellable",
        "claim",
        "concluding",
        "ending",
        "judge",
        "kill",
        "knew",
        "log",
        "marked",
        "now",
        "opened",
        "opener",
        "opens_at",
        "outlived_by_thread",
        "saving",
        "scrub",
        "shelf",
        "spoke",
        "started_boot",
        "trace",
        "transaction",
        "why",
    )

    def __init__(
        self,
        claim: Claim,
        lease: Lease,
        report: Callable[["Control", Progress], None],
        open_notebook: Callable[[Any], OwnNotebook] | None = None,
    ) -> None:
        self.claim = claim
        self.started_boot: float = 0.0
        self.judge: Judge
        self.opener: Callable[[Control, Judge], Context]
        self.marked = False
        self.log: LogTail | None = None
        self.scrub: Scrub = NO_SECRETS
        self.spoke = False
        self.knew = False
        self.trace: AttemptTrace | None = None
        self.why: StopReason | None = None
        self.attempt: asyncio.Task[Any] | None = None
        self.cancellable = False
        self.ending: Ending | None = None
        self.kill: Callable[[], None] | None = None
        self.concluding = False
        self.opens_at: datetime | None = None
        self.outlived_by_thread = False
        self.now: Callable[[], datetime]
        self.shelf: FileStore
        self.transaction: Callable[[Any], Transaction]
        self.saving: Callable[[Any], Saving]
        self.began_durable = False
        self._durable: DurableAttempt | None = None
        self._lease = lease
        self._report = report
        self._open = open_notebook
        self.opened: OwnNotebook | None = None

    @property
    def cancelled(self) -> bool:
        """Whether the handler should end soon."""
        if self.why is None:
            return False
        self.knew = True
        return True

    @property
    def context(self) -> Context:
        """What its handler holds of it: one, however it comes by it."""
        context: Context | None = getattr(self, "_context", None)
        if context is None:
            with _opening:  # a handler may have threads
                context = getattr(self, "_context", None) or self.opener(self, self.judge)
                self._context = context
        return context

    @property
    def may_start(self) -> bool:
        """Whether the handler may begin: nobody wants the job back, and the lease is fresh."""
        return self.why is None and self._lease.fresh

    @property
    def taken(self) -> bool:
        """Whether the claim is known to belong to someone else."""
        return self.why is StopReason.LOST or self._lease.buried

    @property
    def lost(self) -> bool:
        """Whether the claim may belong to someone else."""
        return self.why is StopReason.LOST or self._lease.lost

    @property
    def notebook(self) -> Notebook:
        """The memos of the job; only an attempt that asks for them has a notebook."""
        if self.opened is None:
            if self._open is None:
                raise RuntimeError("this attempt has no notebook")
            with _opening:  # a handler may have threads, and two notebooks would number their saves alike
                self.opened = self.opened or self._open(self)
        return self.opened

    @property
    def random(self) -> Random:
        """The source of jitter."""
        return self.judge.random

    @property
    def durable(self) -> DurableAttempt:
        """The steps and waits; only an attempt that asks for them has any."""
        if self._durable is None:
            durable = DurableAttempt(self)
            with _opening:  # a handler may have threads of its own, and they must know of each other's steps
                self._durable, self.began_durable = self._durable or durable, True
        return self._durable

    def nap(self, seconds: float) -> None:
        """Block this thread for so long, or until the handler should end."""
        waker = self._own_waker()
        if not (self.cancelled or self.taken):  # or it was told before there was anybody to wake
            waker.wait(seconds)

    async def anap(self, seconds: float) -> None:
        """Let the event loop go on for so long, or until the handler should end."""
        waker = self._own_waker()
        if not (self.cancelled or self.taken):
            await waker.await_(seconds)

    @property
    def awaited(self) -> tuple[str, ...]:
        """The jobs for whose results its handler waits, for a second at least."""
        awaited: tuple[str, ...] = getattr(self, "_awaited", ())  # only an attempt that waits has any
        return awaited

    @awaited.setter
    def awaited(self, jobs: tuple[str, ...]) -> None:
        self._awaited = jobs

    def wait_begins(self, job_id: str) -> None:
        """Note that the handler waits for a job, in whichever thread but those of work in the background."""
        if not threading.current_thread().name.startswith(IN_BACKGROUND):
            with _opening:
                self._awaited = (*self.awaited, job_id)

    def wait_ends(self, job_id: str) -> None:
        """Note that it waits no more."""
        with _opening:
            left = list(self.awaited)
            if job_id in left:
                left.remove(job_id)
            self._awaited = tuple(left)

    def wake(self) -> None:
        """End the sleeps of the handler: it should end."""
        waker: Latch | None = getattr(self, "_waker", None)
        if waker is not None:
            waker.set()

    def _own_waker(self) -> Latch:
        """Return what wakes the handler; only an attempt that sleeps has it, so others pay nothing for it."""
        with _opening:
            waker: Latch | None = getattr(self, "_waker", None)
            if waker is None:
                waker = self._waker = Latch()
            return waker

    def fix(self, ending: Ending) -> None:
        """Let this be how the attempt ends, whatever comes: the store has it already."""
        self.ending = ending

    def with_log(self, ending: Ending) -> Ending:
        """Return the ending with the end of what the attempt logged."""
        return replace(ending, log=text) if self.log is not None and (text := self.log.text) else ending

    def fault_point(self, name: str) -> None:
        """Do nothing: this place in a handler has a name for tests alone."""

    def overruled(self, said: str) -> None:
        """Do nothing: what a handler came to after its transaction is ignored, and tests alone mind."""

    def report(self, progress: Progress) -> None:
        """Pass on how far the handler is, its note without secrets and as one line that is not too long."""
        if progress.note is not None:
            note = one_line(self.scrub.text(progress.note), NOTE_LENGTH)  # in this order: a cut secret is not found
            progress = replace(progress, note=note or None)
        self.spoke = True
        self._report(self, progress)

    @property
    def goes_on(self) -> bool:
        """Whether nothing demands its end: it may have been asked to finish."""
        return self.why is None or self.why is StopReason.WINDOW

    def tell(self, why: StopReason) -> None:
        """Ask the handler to end; the first reason given stays, but a lost claim overrules."""
        if self.goes_on or why is StopReason.LOST:
            self.why = why
            self.wake()

    def ask_to_finish(self, opens_at: datetime) -> None:
        """Ask a handler that has started to end before a window begins; what it leaves goes on after its end."""
        if self.why is None and self.started_boot:
            self.why, self.opens_at = StopReason.WINDOW, opens_at
            self.wake()

    def interrupt(self, why: StopReason) -> None:
        """Ask the handler to end and, where it is a coroutine in progress, cancel it."""
        self.tell(why)
        if self.cancellable and self.attempt is not None:
            self.attempt.cancel()


class Slots:
    """Every attempt in progress has one of them."""

    def __init__(self, concurrency: int) -> None:
        self.free = self.limit = concurrency  # how many more attempts may start now, and how many may run at a time
        self._running: dict[Control, None] = {}
        self._quiet = asyncio.Event()
        self._quiet.set()

    @property
    def taken(self) -> int:
        """How many attempts run."""
        return len(self._running)

    def running(self) -> list[Control]:
        """Return the attempts that run now."""
        return list(self._running)

    def ages(self, boot: float) -> list[float]:
        """Return for how many seconds each of them has run."""
        return [boot - (control.started_boot or boot) for control in self._running]

    def take(self, control: Control) -> None:
        """Give an attempt its slot."""
        if not self._running:
            self._quiet.clear()
        self._running[control] = None
        self.free -= 1

    def leave(self, control: Control) -> None:
        """Have the slot back."""
        del self._running[control]
        self.free += 1
        if not self._running:
            self._quiet.set()

    def resize(self, limit: int) -> None:
        """Let so many run at a time. What runs goes on, and `free` is below 0 while that is more."""
        self.free += limit - self.limit
        self.limit = limit

    async def quiet(self) -> None:
        """Wait until nothing runs."""
        await self._quiet.wait()


MOST_TASKS = 500  # tasks that a picture shows; jobs come first


def picture(running: Iterable[Control]) -> str:
    """Return where all tasks of this event loop are, those that run jobs first."""
    jobs = {control.attempt: control for control in running if control.attempt is not None}
    others = [task for task in asyncio.all_tasks() if task not in jobs]
    shown = [_shown(task, f"job {control.claim.job_id} of {control.claim.task}") for task, control in jobs.items()]
    shown += [_shown(task, task.get_name()) for task in sorted(others, key=asyncio.Task.get_name)]
    left_out = len(shown) - MOST_TASKS
    return "\n".join(shown[:MOST_TASKS] + ([f"and {left_out} more"] if left_out > 0 else []))


def stack_of(task: asyncio.Task[Any] | None) -> str:
    """Return where a suspended coroutine is; a task's own `get_stack` tells its outermost frame only."""
    frames, coroutine = [], None if task is None else task.get_coro()
    while (frame := getattr(coroutine, "cr_frame", None)) is not None:
        frames.append((frame, frame.f_lineno))
        coroutine = getattr(coroutine, "cr_await", None)
    return "".join(traceback.StackSummary.extract(frames).format())


def _shown(task: asyncio.Task[Any], who: str) -> str:
    name = getattr(task.get_coro(), "__qualname__", "")
    return f"{who} ({name}):\n{stack_of(task)}"


# A deadlock is reported once, and only if all of this holds: every slot is taken by a handler that waits for a
# result; no job that they wait for runs, or waits for anything but a slot; and no other living worker with a free
# slot serves its queue.

PATIENCE = 5.0
"""Seconds for which every place must wait before the store is asked: others may be about to take the jobs."""

LONGEST_PAUSE = 60.0  # seconds between two questions at most, while somebody else will run the jobs
LOOKED_AT = 20  # of so many of the jobs that are waited for it is asked who could run them


@dataclass(eq=False)
class DeadlockDetector:
    """The waits of one worker's handlers. `closed_queues` tells which queues are closed by a window now."""

    worker: str
    slots: Slots
    calls: StoreCalls
    events: Events
    _: KW_ONLY
    boot: Callable[[], float]
    closed_queues: Callable[[], Collection[str]]

    def __post_init__(self) -> None:
        self._ask_at: float | None = None
        self._pause = PATIENCE
        self._told = False
        self._wakeup = Wakeup()

    def count(self) -> int:
        """Return how many handlers wait for results, 0 while a place is free; begin to suspect where all do."""
        waiting = 0 if self.slots.free > 0 else sum(bool(each.awaited) for each in self.slots.running())
        if not waiting or waiting < self.slots.taken:
            self._ask_at, self._pause = None, PATIENCE
        elif self._ask_at is None:
            self._ask_at = self.boot() + PATIENCE
        elif self.boot() >= self._ask_at and not self._told:
            self._wakeup.call()
        return waiting

    async def run(self) -> None:
        """Ask the store whenever all places have waited for a while."""
        while not self._told:
            await self._wakeup.rest(None)
            with suppress(StoreError):  # it is asked again
                await self._ask()
            self._pause = min(2 * self._pause, LONGEST_PAUSE)
            self._ask_at = self.boot() + self._pause

    async def _ask(self) -> None:
        """Tell of the deadlock, if it is one."""
        awaited = {job_id for each in self.slots.running() for job_id in each.awaited}
        seen = await self.calls.once(self.calls.verbs.glance(tuple(awaited)))
        if any(job_id not in seen or seen[job_id].state not in {State.READY, State.HELD} for job_id in awaited):
            return
        task = ""
        for job_id in islice(awaited, LOOKED_AT):
            situation: Situation | None = await self.calls.once(self.calls.verbs.situation(job_id))
            if situation is None or not self._is_up_to_us(situation):
                return
            task = situation.job.task
        waiting = self.slots.running()
        if self.slots.free <= 0 and waiting and all(each.awaited for each in waiting):
            self._told = True
            claim = waiting[0].claim
            self.events.emit(WorkerDeadlocked(claim.task, claim.job_id, task, len(waiting)))

    def _is_up_to_us(self, situation: Situation) -> bool:
        """Tell whether a job waits for a place of this worker, and of nobody else."""
        job = situation.job
        unstarted = job.state is State.READY or (job.state is State.HELD and job.worker == self.worker)
        held_up = situation.queue_paused_at is not None or job.queue in self.closed_queues()
        serving = [each for each in situation.workers if each.is_live and each.serves(job.queue)]
        ours = any(each.info.id == self.worker for each in serving)
        return unstarted and not held_up and not job.group and ours and not _others_can(self.worker, serving)


def _others_can(worker: str, serving: Sequence[Worker]) -> bool:
    """Tell whether one of the other workers will have a place, as far as their last beats tell."""
    return any(
        each.vitals is None or each.vitals.waiting < each.info.concurrency
        for each in serving
        if each.info.id != worker
    )
