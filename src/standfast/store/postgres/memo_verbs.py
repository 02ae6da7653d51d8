"""What jobs write down, and what others send them: save, memos, signal."""

from collections.abc import Sequence
from functools import partial

from standfast.core.job import ClaimRef, Verdict
from standfast.core.memo import LAST_NUMBER, MEMOS_LIMIT, Memo, Save, signal_memo, signal_reason
from standfast.core.states import CLAIMED, FINAL
from standfast.store.bites import in_bites
from standfast.store.postgres.client_verbs import ClientVerbs
from standfast.store.postgres.ending import columns
from standfast.store.postgres.verbs import is_id
from standfast.store.postgres.whereabouts import Whereabouts
from standfast.store.refusals import too_many_signals
from standfast.store.verb import Access, Command, Last, Query, Steps, Together, verb

BITE = 16 * 1024 * 1024
"""Bytes of memos that one statement takes."""

_Latest = dict[str, tuple[int, bytes]]
"""The memos of a claim by name, each with the number of its save."""


class MemoVerbs(ClientVerbs):
    """The verbs about memos."""

    @verb(Access.WRITE)
    def save(self, worker: str, saves: Sequence[Save]) -> Steps[tuple[Verdict, ...]]:
        """Write memos down, fenced, each save of its own; one that says nothing new is accepted all the same."""
        claims = sorted(_by_claim(saves).items())
        valid: set[ClaimRef] = set()
        if claims:
            if any(save.number == LAST_NUMBER for save in saves):
                yield Command(self._sql["hold_claims"], (worker, *columns(ref for ref, _ in claims)))
            sizes = [sum(len(body) for _, body in memos.values()) for _, memos in claims]
            bites = in_bites(claims, sizes, BITE)
            answers = yield Last(Together([self._written(worker, bite) for bite in bites]))
            valid = {ClaimRef(*row) for rows in answers for row in rows}
        return tuple(Verdict.ACCEPTED if save.ref in valid else Verdict.STALE for save in saves)

    @verb(Access.READ)
    def memos(self, job_id: str) -> Steps[tuple[Memo, ...]]:
        """Return what a job has written down and was sent, by name; nothing of a job that does not exist."""
        if not is_id(job_id):
            return ()
        rows = yield Last(Query(self._sql["memos"], (job_id,)))
        return tuple(Memo(name, bytes(body)) for name, body in rows)

    @verb(Access.WRITE, wakes=True)
    def signal(self, job_id: str, name: str, token: str, body: bytes) -> Steps[bool]:
        """Send a signal to a job that is not final; one that waits for it becomes ready."""
        return (yield from self._decide(job_id, partial(self._signal, name=name, token=token, body=body)))

    def _signal(self, job: Whereabouts, *, name: str, token: str, body: bytes) -> Steps[bool | None]:
        if job.state in FINAL:
            return False
        memo = (job.id, signal_memo(name, token), body)
        [(sent, is_known)] = yield Query(self._sql["signals_sent"], memo[:2])
        if sent >= MEMOS_LIMIT and not is_known:
            raise too_many_signals(job.id)
        if job.state in CLAIMED:
            here = yield Query(self._sql["signal_claimed"], memo)
        else:
            here = yield Query(self._sql["signal_waiting"], (self._given_now(), *memo, signal_reason(name)))
        return True if here else None

    def _written(self, worker: str, claims: Sequence[tuple[ClaimRef, _Latest]]) -> Query:
        said = [
            (*ref, name, number, body) for ref, memos in claims for name, (number, body) in sorted(memos.items())
        ]
        memos = columns(said) if said else [()] * 5
        return Query(self._sql["save"], (worker, *columns(ref for ref, _ in claims), *memos))


def _by_claim(saves: Sequence[Save]) -> dict[ClaimRef, _Latest]:
    """Return what claims write in the end: of each memo the first of those with the highest number."""
    claims: dict[ClaimRef, _Latest] = {}
    for save in saves:
        if is_id(save.ref.job_id):
            latest = claims.setdefault(save.ref, {})
            for memo in save.memos:
                if memo.name not in latest or latest[memo.name][0] < save.number:
                    latest[memo.name] = (save.number, memo.body)
    return claims
