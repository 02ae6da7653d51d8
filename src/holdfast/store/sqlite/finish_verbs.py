"""The fenced writes of a claim: start, progress, finish.

Success is the hot path: one bulk update, whose count says that every claim was valid. Only if it does not add up
is each claim looked at, to tell the stale ones from those recorded before.
"""

from collections.abc import Iterable, Sequence
from datetime import datetime

from holdfast.core.job import ClaimRef, Ending, Progress, Verdict
from holdfast.core.states import ENDINGS, MOVES, RETURNS, STARTED_ITS_LAST, Move, State
from holdfast.store.sqlite.ending import End, EndedBy, reason_of, write_end
from holdfast.store.sqlite.rows import ClaimedRow
from holdfast.store.sqlite.times import span_to_micros, to_micros, to_micros_or_none
from holdfast.store.sqlite.verbs import SqliteVerbs
from holdfast.store.verb import Access, Bulk, Query, Steps, Verb, verb


class FinishVerbs(SqliteVerbs):
    """What a worker writes about its claims."""

    @verb(Access.WRITE)
    def start(self, worker: str, started: Sequence[tuple[ClaimRef, datetime]]) -> Steps[tuple[Verdict, ...]]:
        """Mark claims as running since the given times, fenced."""
        rows = [(ref.job_id, ref.fence, worker, to_micros(started_at)) for ref, started_at in started]
        return (yield from self._fenced("start", "claim_is_valid", rows))

    @verb(Access.WRITE)
    def progress(self, worker: str, reports: Sequence[tuple[ClaimRef, Progress]]) -> Steps[tuple[Verdict, ...]]:
        """Record progress, fenced."""
        rows = [(ref.job_id, ref.fence, worker, report.done, report.total) for ref, report in reports]
        return (yield from self._fenced("progress", "claim_is_valid", rows))

    def finish(self, worker: str, endings: Sequence[Ending]) -> Verb[tuple[Verdict, ...]]:
        """End claims, fenced. An ending recorded before by this worker for this fence is accepted again."""
        wakes = any(ending.move in RETURNS for ending in endings)
        return Verb("finish", Access.WRITE, self._finish(worker, endings), wakes)

    def _finish(self, worker: str, endings: Sequence[Ending]) -> Steps[tuple[Verdict, ...]]:
        _check(endings)
        now = self._now()
        plain = [ending for ending in endings if _is_plain_success(ending)]
        completed = iter((yield from self._complete(worker, plain, now)))
        verdicts: list[Verdict] = []
        for ending in endings:
            if _is_plain_success(ending):
                verdicts.append(next(completed))
            else:
                verdicts.append((yield from self._end(worker, ending, now)))
        return tuple(verdicts)

    def _complete(self, worker: str, endings: Iterable[Ending], now: int) -> Steps[tuple[Verdict, ...]]:
        rows = [
            (ending.ref.job_id, ending.ref.fence, worker, now, to_micros_or_none(ending.started_at), ending.result)
            for ending in endings
        ]
        return (yield from self._fenced("complete", "was_finished", rows))

    def _fenced(
        self, update: str, check: str, rows: Sequence[tuple[str, int, str, *tuple[object, ...]]]
    ) -> Steps[tuple[Verdict, ...]]:
        changed = (yield Bulk(self._sql[update], rows)) if rows else 0
        if changed == len(rows):
            return (Verdict.ACCEPTED,) * len(rows)
        verdicts: list[Verdict] = []
        for job_id, fence, worker, *_ in rows:
            verdicts.append((yield from self._verdict(check, worker, ClaimRef(job_id, fence))))
        return tuple(verdicts)

    def _verdict(self, check: str, worker: str, ref: ClaimRef) -> Steps[Verdict]:
        [(found,)] = yield Query(self._sql[check], (ref.job_id, ref.fence, worker))
        return Verdict.ACCEPTED if found else Verdict.STALE

    def _end(self, worker: str, ending: Ending, now: int) -> Steps[Verdict]:
        rows = yield Query(self._sql["claimed_job"], (ending.ref.job_id, ending.ref.fence, worker))
        if not rows:
            return (yield from self._verdict("was_finished", worker, ending.ref))
        yield from write_end(self._sql, _decide(ClaimedRow(*rows[0]), ending, now), now)
        return Verdict.ACCEPTED


def _check(endings: Iterable[Ending]) -> None:
    for ending in endings:
        if ending.move not in ENDINGS:
            raise ValueError(f"{ending.move} does not end a claim; one of these does: {', '.join(sorted(ENDINGS))}")


def _is_plain_success(ending: Ending) -> bool:
    return ending.move is Move.COMPLETE and ending.failure is None


def _decide(row: ClaimedRow, ending: Ending, now: int) -> End:
    move = row.settle(ending.move)
    rule, failure = MOVES[move], ending.failure
    error = _error(ending, move)
    row = row._replace(
        attempt=row.attempt + rule.charges,
        run_at=now + span_to_micros(ending.delay) if rule.target is State.SCHEDULED else row.run_at,
        started_at=to_micros_or_none(ending.started_at) or row.started_at,
        error=row.error if error is None and move is not Move.COMPLETE else error,
    )
    return End(
        row,
        rule.target,
        move.value,
        EndedBy.FINISH,
        reason=ending.reason if move is ending.move else reason_of(rule.target),
        result=ending.result,
        attempt_error=error,
        traceback=None if failure is None else failure.traceback,
    )


def _error(ending: Ending, settled: Move) -> str | None:
    if ending.failure is not None:
        return str(ending.failure)
    return STARTED_ITS_LAST if settled is Move.DIE and settled is not ending.move else None
