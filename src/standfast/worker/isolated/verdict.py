"""What is made of an attempt that its cell could not end in good order: an ending, and word to the supervisor."""

from collections.abc import Callable

from msgspec.structs import replace

from standfast.core.incident import InvolvedJob, Trouble
from standfast.core.job import Ending, Failure, Progress
from standfast.words import in_bytes, with_note
from standfast.worker.control import Control, StopReason
from standfast.worker.isolated.cell import End
from standfast.worker.isolated.memory import out_of_memory
from standfast.worker.isolated.messages import Concluded
from standfast.worker.judge import TRACEBACK_LIMIT, Judge
from standfast.worker.messages import Noticed

Notice = Callable[[Noticed], None]
"""Tells the supervisor of trouble."""

NEAR = 0.9
"""The part of its limit from which on a cell that died is taken to have died of it."""


class Findings:
    """What is known of one attempt: where it was, how far, and how much memory it took."""

    def __init__(self, control: Control, judge: Judge, notice: Notice) -> None:
        self._control = control
        self._judge = judge
        self._notice = notice
        self.stacks = ""
        self.coroutine = ""
        self.peak = 0
        self.progress: Progress | None = None

    def timed_out(self, end: End) -> Ending:
        """Judge a handler whose cell was ended at its timeout."""
        ending = self._judge.timed_out()
        self._tell(Trouble.TIMEOUT, f"ran longer than its timeout of {self._judge.policy.timeout:g} s", end=end)
        return self._with_stacks(ending)

    def out_of_memory(self, end: End | None = None) -> Ending:
        """Judge a handler whose cell was ended because it took too much memory."""
        words = self._out_of_memory()
        self._tell(Trouble.OUT_OF_MEMORY, words, end=end)
        return self._with_stacks(self._judge.raised(MemoryError(words)))

    def said_out_of_memory(self, concluded: Concluded) -> Ending | None:
        """Pass on the end of a handler that was refused more memory, and failed of it."""
        self.peak = max(self.peak, concluded.peak)
        ending = concluded.ending
        failure = ending.failure if ending is not None else None
        self.stacks = failure.traceback if failure is not None else ""
        self._tell(Trouble.OUT_OF_MEMORY, self._out_of_memory())
        return ending

    def died(self, end: End, *, out_of_memory: bool) -> Ending:
        """Judge a handler whose cell died under it."""
        limit = self._judge.policy.memory
        if limit is not None and (end.signal or end.code is None) and (out_of_memory or self.peak >= NEAR * limit):
            if out_of_memory:
                self.peak = max(self.peak, limit)
            return self.out_of_memory(end)
        self._tell(Trouble.CRASH, f"its process {end}", end=end)
        return self._judge.failed(Failure("Crash", f"its process {end}", self._where))

    def _out_of_memory(self) -> str:
        return out_of_memory(self._judge.policy.memory or 0, self.peak)

    @property
    def _where(self) -> str:
        return "\n".join(filter(None, (self.coroutine, self.stacks)))[-TRACEBACK_LIMIT:]

    def _with_stacks(self, ending: Ending) -> Ending:
        failure = ending.failure
        return ending if failure is None else replace(ending, failure=replace(failure, traceback=self._where))

    def _tell(self, trouble: Trouble, what: str, *, end: End | None = None) -> None:
        claim, log, said = self._control.claim, self._control.log, self.progress
        of = "" if said is None or said.total is None else f" of {said.total:g}"
        progress = None if said is None else with_note(f"{said.done:g}{of}", said.note)
        parts = {
            "exit": "" if end is None else f"its process {end}" + _took(end),
            "stacks": self.stacks,
            "coroutine": self.coroutine,
            "log": "" if log is None else log.text,
        }
        self._notice(
            Noticed(
                trouble,
                f"{claim.task}, in a process of its own: {what}",
                f"isolated:{trouble}:{claim.task}",
                {name: text for name, text in parts.items() if text},
                (InvolvedJob(claim.job_id, claim.fence, claim.task, claim.attempt + 1, progress),),
            )
        )


def ending_of_unstarted(control: Control, judge: Judge) -> Ending | None:
    """Return how an attempt ends that did not begin; nothing is charged for it. None where its claim is lost."""
    if control.why is StopReason.LOST:
        return None
    return judge.cancelled() if control.why is StopReason.CANCEL else judge.put_off()


def _took(end: End) -> str:
    return "" if end.code is None else f"; it took at most {in_bytes(end.peak)}"
