"""What jobs write down for their later attempts, and what others send them."""

import json
from collections.abc import Sequence

from standfast.core.job import ClaimRef, Verdict
from standfast.core.memo import MEMOS_LIMIT, Memo, Save, signal_memo, signal_prefix, signal_reason
from standfast.core.states import FINAL, State
from standfast.store.refusals import too_many_signals
from standfast.store.sqlite.client_verbs import ClientVerbs
from standfast.store.verb import Access, Bulk, Command, Query, Steps, verb


class MemoVerbs(ClientVerbs):
    """Save, look, signal."""

    @verb(Access.WRITE)
    def save(self, worker: str, saves: Sequence[Save]) -> Steps[tuple[Verdict, ...]]:
        """Write memos down, fenced, each save of its own."""
        rows = yield Query(self._sql["valid_claims"], (json.dumps([save.ref for save in saves]), worker))
        jobs = {ClaimRef(job_id, fence): seq for job_id, fence, seq in rows}
        yield Bulk(
            self._sql["write_memo"],
            [
                (jobs[save.ref], memo.name, save.ref.fence, save.number, memo.body)
                for save in saves
                for memo in save.memos
                if save.ref in jobs
            ],
        )
        return tuple(Verdict.ACCEPTED if save.ref in jobs else Verdict.STALE for save in saves)

    @verb(Access.READ)
    def memos(self, job_id: str) -> Steps[tuple[Memo, ...]]:
        """Return what a job has written down and was sent, by name; nothing of a job that does not exist."""
        rows = yield Query(self._sql["memos"], (job_id,))
        return tuple(Memo(name, body) for name, body in rows)

    @verb(Access.WRITE, wakes=True)
    def signal(self, job_id: str, name: str, token: str, body: bytes) -> Steps[bool]:
        """Send a signal to a job that is not final; one that waits for it becomes ready."""
        job = yield from self._find(job_id)
        if job.state in FINAL:
            return False
        memo = signal_memo(name, token)
        [(sent, is_known)] = yield Query(self._sql["signals_sent"], (job.seq, memo))
        if sent >= MEMOS_LIMIT and not is_known:
            raise too_many_signals(job_id)
        yield Command(self._sql["keep_signal"], (job.seq, memo, body))
        if job.state is State.SCHEDULED:
            waits_for = (signal_reason(name), signal_prefix(name))
            yield Command(self._sql["end_wait"], (job.seq, *waits_for, self._now()))
        return True
