"""One attempt in a subprocess, as its worker carries it, and how it is judged when the subprocess dies."""

import asyncio
import logging
import signal
from collections.abc import Callable, Coroutine
from dataclasses import KW_ONLY, dataclass
from typing import Any

from msgspec.structs import replace

from standfast.model.clock import Clock
from standfast.model.display import in_bytes, with_note
from standfast.model.incidents import InvolvedJob, Trouble
from standfast.model.job import Ending, Failure, Progress
from standfast.observe.logs.job_log import LogTail
from standfast.worker.completer import TRACEBACK_LIMIT, Judge
from standfast.worker.control import Control, StopReason
from standfast.worker.execution import ending_of_stopped
from standfast.worker.isolation.memory import ALLOWANCE, out_of_memory, taken_together
from standfast.worker.isolation.messages import (
    Asked,
    Awaiting,
    Begun,
    Concluded,
    FromCell,
    Logged,
    Progressed,
    Ready,
    Run,
    Tell,
    Where,
    Wrote,
)
from standfast.worker.isolation.notebook import answer_cell
from standfast.worker.isolation.subprocess import End, Subprocess
from standfast.worker.messages import Failed, Noticed

Notice = Callable[[Noticed], None]  # tells the supervisor of trouble
NEAR = 0.9  # the part of its limit from which on a cell that died is taken to have died of it


def ending_of_unstarted(control: Control, judge: Judge) -> Ending | None:
    """Return how an attempt ends that did not begin; nothing is charged for it. None where its claim is lost."""
    if control.why is StopReason.LOST:
        return None
    return judge.cancelled() if control.why is StopReason.CANCEL else judge.put_off()


# runs ─► concluded: as the subprocess judged
#   ├──► timeout: told, SIGTERM, SIGKILL ─► timed out
#   ├──► told to stop, or cancelled; killed if it ignores that ─► cancelled, released, or lost
#   └──► too much memory: killed; dies: a crash, out of memory, or put off if the attempt had not begun

log = logging.getLogger(__name__)

KILL_AFTER = 2.0
"""Seconds from the moment a handler is told that its time is over, or its job another's, to the end of its cell."""

LAST_WORDS = 0.2  # seconds from that moment where the worker itself is about to end
BEGIN_WITHIN = 10.0
"""Seconds for a cell to take up an attempt; one that an earlier attempt still keeps busy is replaced."""

LOOK_EVERY = 0.1  # seconds between two looks at what a handler has to be told, and how much memory it takes
STACKS_IN_HASTE = 0.1  # seconds for a cell that takes too much memory to write down where it is


@dataclass(eq=False)
class RemoteAttempt:
    """One attempt and its cell. `sound` tells in the end whether the cell can be used again."""

    cell: Subprocess
    control: Control
    judge: Judge
    _: KW_ONLY
    clock: Clock
    grace: float
    notice: Notice

    def __post_init__(self) -> None:
        self._stacks = self._coroutine = ""
        self._peak = 0
        self._progress: Progress | None = None
        self._loop = asyncio.get_running_loop()
        self._over: asyncio.Future[Concluded | None] = self._loop.create_future()
        self._told = Tell()
        self._ending: asyncio.Task[None] | None = None
        self._timed_out = False
        self._hurried = False
        self._took_too_much = False
        self._capped = False
        self._begun = False
        self._left_over = 0
        self.sound = False

    async def carry(self) -> Ending | None:
        """Have the cell run the attempt; return how it ends, None where the claim is lost."""
        cell, control, policy = self.cell, self.control, self.judge.policy
        cell.listener = self._heard
        cell.gone.add_done_callback(self._cell_gone)
        if policy.memory is not None:
            self._left_over = cell.left_over
        allowed = None if policy.memory is None else policy.memory + self._left_over
        self._capped = cell.group is not None and cell.group.limit(allowed)
        claim = replace(control.claim, start_by=None, metadata=dict(control.claim.metadata))
        now, boot = self.clock.now(), self.clock.boot()
        trace = {} if control.trace is None else dict(control.trace.carried())
        started_at, left_over = self.judge.started_at, self._left_over
        cell.send(Run(claim, started_at, policy.memory, self._capped, left_over, now, boot, trace))
        control.cancellable, control.kill = True, self._kill
        self._deadline = self._loop.call_later(BEGIN_WITHIN, cell.signal_group, signal.SIGKILL)
        self._look_later()
        try:
            concluded = await self._outlasted()
        finally:
            control.cancellable, control.kill = False, None
            self._deadline.cancel()
            self._looking.cancel()
            cell.gone.remove_done_callback(self._cell_gone)
        return await self._judged(concluded)

    # -- what is heard and seen meanwhile --------------------------------------------------------------------

    def _heard(self, message: FromCell) -> None:
        if isinstance(message, Ready | Failed) or message.ref != self.control.claim.ref or self._over.done():
            self.cell.haunted = True
            return
        match message:
            case Begun():
                self._has_begun()
            case Progressed(progress=progress):
                self._progress = progress
                self.control.report(progress)
            case Awaiting(jobs=jobs):
                self.control.awaited = jobs
            case Logged(lines=lines):
                if self.control.log is None:
                    self.control.log = LogTail(self.control.scrub)
                self.control.log.keep(lines)
            case Asked() | Wrote():
                answer_cell(self.control.notebook, message, self.cell.send)
            case Where(stack=stack):
                self._coroutine = stack
            case Concluded():
                self._over.set_result(message)

    def _has_begun(self) -> None:
        """Take note that it began: from now on its time counts."""
        self._begun = True
        self._deadline.cancel()
        if (timeout := self.judge.policy.timeout) is not None:
            self._deadline = self._loop.call_later(timeout, self._time_is_over)

    def _cell_gone(self, _: asyncio.Future[End]) -> None:
        if not self._over.done():
            self._over.set_result(None)

    def _look_later(self) -> None:
        self._looking = self._loop.call_later(LOOK_EVERY, self._look)

    def _look(self) -> None:
        self._tell()
        limit = self.judge.policy.memory
        if limit is not None and not self._capped:
            taken = taken_together(self.cell.pid) - self._left_over
            self._peak = max(self._peak, taken)
            if taken > limit + ALLOWANCE and not self._took_too_much:
                self._took_too_much = True
                self._end(self._end_for_memory())
        self._look_later()

    def _tell(self, *, interrupt: bool = False) -> None:
        """Tell the handler what has changed since it was last told."""
        control = self.control
        opens_in = None if control.opens_at is None else (control.opens_at - self.clock.now()).total_seconds()
        tell = Tell(control.why, control.lost, control.taken, self._told.opens_in or opens_in, interrupt)
        if tell != self._told or interrupt:
            self._told = replace(tell, interrupt=False)
            self.cell.send(tell)

    async def _outlasted(self) -> Concluded | None:
        """Wait for the end, come what may: who is cancelled here passes it on to the cell."""
        while not self._over.done():
            try:
                await asyncio.wait([self._over])
            except asyncio.CancelledError:
                why, attempt = self.control.why, self.control.attempt
                if why is None or attempt is None:
                    self.cell.signal_group(signal.SIGKILL)
                    raise
                attempt.uncancel()
                self._interrupted(why)
        return self._over.result()

    # -- ending it -------------------------------------------------------------------------------------------

    def _interrupted(self, why: StopReason) -> None:
        """Have the handler end: within a moment where the worker ends, and so has given all the grace there is."""
        hurry = why is StopReason.STOP or self._hurried
        self._hurried = True
        after = LAST_WORDS if hurry else KILL_AFTER if why is StopReason.LOST else self.grace
        self._end(self._end_told(after))

    def _kill(self) -> None:
        """End it at once: somebody who has cancelled its job wants no more of it."""
        self.control.tell(StopReason.CANCEL)
        self._end(self._end_at_once())

    def _time_is_over(self) -> None:
        self._timed_out = True
        self._end(self._end_for_timeout())

    def _end(self, way: Coroutine[Any, Any, None]) -> None:
        """Begin to end the cell in this way; it takes the place of a slower one."""
        if self._ending is not None:
            self._ending.cancel()
        self._ending = self._loop.create_task(way)

    async def _end_told(self, after: float) -> None:
        self._tell(interrupt=True)
        await self._wait(after - KILL_AFTER)
        self.cell.signal_group(signal.SIGTERM)
        await self._wait(min(after, KILL_AFTER))
        self.cell.signal_group(signal.SIGKILL)

    async def _end_at_once(self) -> None:
        self.cell.signal_group(signal.SIGKILL)

    async def _end_for_timeout(self) -> None:
        await self.cell.stacks()
        self.control.tell(StopReason.TIMEOUT)
        self._tell(interrupt=True)
        self.cell.signal_group(signal.SIGTERM)
        await self._wait(KILL_AFTER)
        self.cell.signal_group(signal.SIGKILL)

    async def _end_for_memory(self) -> None:
        await self.cell.stacks(STACKS_IN_HASTE)
        self.cell.signal_group(signal.SIGKILL)

    async def _wait(self, seconds: float) -> None:
        if seconds > 0 and not self._over.done():
            await asyncio.wait([self._over], timeout=seconds)

    # -- how it ended ----------------------------------------------------------------------------------------

    async def _judged(self, concluded: Concluded | None) -> Ending | None:  # noqa: PLR0911 - one for each way to end
        """Judge what became of the attempt, once its cell is idle again or gone."""
        if self._ending is not None:
            self._ending.cancel()
        if concluded is not None and self._ending is None and not concluded.out_of_memory:
            self.sound, self.cell.listener, self.cell.parent = True, None, concluded.parent
            return self._fixed(concluded) if concluded.fixed else concluded.ending
        end = await self.cell.kill()
        if concluded is None and not self._begun:
            log.warning("job %s: the process for it %s before it began", self.control.claim.job_id, end)
            return ending_of_unstarted(self.control, self.judge)
        self._stacks = self.cell.last_stacks
        if concluded is not None and concluded.fixed:
            return self._fixed(concluded)
        if self._timed_out:
            return self._judge_timeout(end)
        if self._took_too_much:
            return self._judge_out_of_memory(end)
        if concluded is not None:  # it ended by itself, though its process is of no more use
            return self._judge_told_out_of_memory(concluded) if concluded.out_of_memory else concluded.ending
        if self._ending is not None:
            return ending_of_stopped(self.control, self.judge, self.clock)
        group = self.cell.group
        return self._judge_dead(end, out_of_memory=group is not None and group.exceeded)

    def _judge_timeout(self, end: End) -> Ending:
        """Judge a handler whose cell was ended at its timeout."""
        ending = self.judge.timed_out()
        self._report(Trouble.TIMEOUT, f"ran longer than its timeout of {self.judge.policy.timeout:g} s", end=end)
        return self._with_stacks(ending)

    def _judge_out_of_memory(self, end: End | None = None) -> Ending:
        """Judge a handler whose cell was ended because it took too much memory."""
        words = self._memory_words()
        self._report(Trouble.OUT_OF_MEMORY, words, end=end)
        return self._with_stacks(self.judge.raised(MemoryError(words)))

    def _judge_told_out_of_memory(self, concluded: Concluded) -> Ending | None:
        """Pass on the end of a handler that was refused more memory, and failed of it."""
        self._peak = max(self._peak, concluded.peak)
        ending = concluded.ending
        failure = ending.failure if ending is not None else None
        self._stacks = failure.traceback if failure is not None else ""
        self._report(Trouble.OUT_OF_MEMORY, self._memory_words())
        return ending

    def _judge_dead(self, end: End, *, out_of_memory: bool) -> Ending:
        """Judge a handler whose cell died under it."""
        limit = self.judge.policy.memory
        if limit is not None and (end.signal or end.code is None) and (out_of_memory or self._peak >= NEAR * limit):
            if out_of_memory:
                self._peak = max(self._peak, limit)
            return self._judge_out_of_memory(end)
        self._report(Trouble.CRASH, f"its process {end}", end=end)
        return self.judge.failed(Failure("Crash", f"its process {end}", self._where))

    def _memory_words(self) -> str:
        return out_of_memory(self.judge.policy.memory or 0, self._peak)

    @property
    def _where(self) -> str:
        return "\n".join(filter(None, (self._coroutine, self._stacks)))[-TRACEBACK_LIMIT:]

    def _with_stacks(self, ending: Ending) -> Ending:
        failure = ending.failure
        return ending if failure is None else replace(ending, failure=replace(failure, traceback=self._where))

    def _report(self, trouble: Trouble, what: str, *, end: End | None = None) -> None:
        claim, log, said = self.control.claim, self.control.log, self._progress
        of = "" if said is None or said.total is None else f" of {said.total:g}"
        progress = None if said is None else with_note(f"{said.done:g}{of}", said.note)
        took = "" if end is None or end.code is None else f"; it took at most {in_bytes(end.peak)}"
        parts = {
            "exit": "" if end is None else f"its process {end}{took}",
            "stacks": self._stacks,
            "coroutine": self._coroutine,
            "log": "" if log is None else log.text,
        }
        self.notice(
            Noticed(
                trouble,
                f"{claim.task}, in a process of its own: {what}",
                f"isolated:{trouble}:{claim.task}",
                {name: text for name, text in parts.items() if text},
                (InvolvedJob(claim.job_id, claim.fence, claim.task, claim.attempt + 1, progress),),
            )
        )

    def _fixed(self, concluded: Concluded) -> Ending | None:
        """Return how a transaction of the handler ended the job."""
        if concluded.ending is not None:
            self.control.fix(concluded.ending)
        return concluded.ending
