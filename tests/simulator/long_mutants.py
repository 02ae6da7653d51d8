"""Ways to break what long jobs rely on, each of which the simulator must notice."""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from datetime import datetime
from typing import Any

from simulator.replacing import replaced
from standfast.durable.memo_cache import MemoCache
from standfast.durable.resume import ResumeProgress
from standfast.durable.runtime import StepRunner
from standfast.model.job import Ending, Verdict
from standfast.model.memos import Memo, Save, signal_memo, step_name
from standfast.model.states import FINAL
from standfast.stores.memory import claim
from standfast.stores.memory.claim import ClaimVerbs
from standfast.stores.memory.client import ClientVerbs
from standfast.stores.memory.rows import JobRow, MemoRow, verb
from standfast.stores.verb import Access
from standfast.worker.control import Control
from standfast.worker.progress import Saver


def stale_save() -> AbstractContextManager[None]:
    """A save goes by the job's id alone."""

    def broken(self: ClaimVerbs, _worker: str, save: Save) -> Verdict:
        self._jobs[save.ref.job_id].write_down(save)
        return Verdict.ACCEPTED

    return replaced(ClaimVerbs, "_save", broken)


def unnumbered_save() -> AbstractContextManager[None]:
    """A save that comes late is written over what came after it."""

    def broken(self: JobRow, save: Save) -> None:
        for memo in save.memos:
            self.memos[memo.name] = MemoRow(memo.body, save.ref.fence, save.number)

    return replaced(JobRow, "write_down", broken)


def unflushed_ending() -> AbstractContextManager[None]:
    """An attempt ends before what it wrote last is in the store."""

    async def broken(_self: Saver, _control: Control) -> None:
        pass

    return replaced(Saver, "flush", broken)


def unbounded_lead() -> AbstractContextManager[None]:
    """A loop never waits for its saves."""
    return replaced(ResumeProgress, "must_wait", lambda _self: None)


def forgotten_steps() -> AbstractContextManager[None]:
    """An attempt knows only of the steps that it has done itself."""
    known = MemoCache.known

    async def broken(self: MemoCache, way: StepRunner) -> Mapping[str, bytes]:
        memos = await known(self, way)
        return {name: body for name, body in memos.items() if step_name(name) is None or name in self._own}

    return replaced(MemoCache, "known", broken)


def unawaited_step() -> AbstractContextManager[None]:
    """A handler goes on after a step before the store has its result."""

    async def broken(self: MemoCache, _way: StepRunner, *memos: Memo) -> None:
        self._port.notebook.write(*memos)
        self.note(*memos)

    return replaced(MemoCache, "write", broken)


def _signal(*, moves: bool, wakes: bool) -> AbstractContextManager[None]:
    @verb(Access.WRITE, wakes=wakes)
    def broken(self: ClientVerbs, job_id: str, name: str, token: str, body: bytes) -> bool:
        row = self._job(job_id)
        if row.state in FINAL:
            return False
        row.memos.setdefault(signal_memo(name, token), MemoRow(body))
        if moves and row.reason is not None:
            row.wait(self._clock.now())
        return True

    broken.__name__ = "signal"
    return replaced(ClientVerbs, "signal", broken)


def unmoved_signal() -> AbstractContextManager[None]:
    """A signal is written, and the job that waits for it stays where it is."""
    return _signal(moves=False, wakes=True)


def unrung_signal() -> AbstractContextManager[None]:
    """A signal makes the job that waits for it due, and wakes nobody."""
    return _signal(moves=True, wakes=False)


def missed_signal() -> AbstractContextManager[None]:
    """A job that goes to wait for a signal does not see that it came just before."""

    def broken(row: JobRow, ending: Ending, now: datetime) -> None:
        row.wait(now + ending.delay, ending.reason)

    return replaced(claim, "_suspend", broken)


LONG_MUTANTS: Mapping[str, Callable[[], AbstractContextManager[Any]]] = {
    "stale-save": stale_save,
    "unnumbered-save": unnumbered_save,
    "unflushed-ending": unflushed_ending,
    "unbounded-lead": unbounded_lead,
    "forgotten-steps": forgotten_steps,
    "unawaited-step": unawaited_step,
    "unmoved-signal": unmoved_signal,
    "unrung-signal": unrung_signal,
    "missed-signal": missed_signal,
}
