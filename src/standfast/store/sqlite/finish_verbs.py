"""The fenced writes of a claim: start, progress, finish.

Success is the hot path: one bulk update, whose count says that every claim was valid and that nobody waits for its
end. Only if it does not add up is each claim looked at, to tell the stale ones from those recorded before, and from
those for whose end another job waits.
"""

from collections.abc import Iterable, Sequence
from datetime import datetime
from functools import partial
from typing import NamedTuple

import msgspec
from msgspec.structs import astuple

from standfast.core.job import ClaimRef, Ending, Progress, Verdict
from standfast.core.memo import signal_name, signal_prefix
from standfast.core.states import State
from standfast.store.bites import in_bites
from standfast.store.claimed import ClaimedRow, check, finished, is_plain_success
from standfast.store.sqlite.ending import write_end
from standfast.store.sqlite.verbs import SqliteVerbs
from standfast.store.times import span_to_micros, to_micros, to_micros_or_none
from standfast.store.verb import Access, Bulk, Command, Query, Steps, Verb, verb
from standfast.store.waking import Finished, finishing

BITE = 4 * 1024 * 1024
"""Characters of results that one statement takes."""


class FinishVerbs(SqliteVerbs):
    """What a worker writes about its claims."""

    @verb(Access.WRITE)
    def start(self, worker: str, started: Sequence[tuple[ClaimRef, datetime]]) -> Steps[tuple[Verdict, ...]]:
        """Mark claims as running since the given times, fenced."""
        rows = [(ref.job_id, ref.fence, worker, to_micros(started_at)) for ref, started_at in started]
        return (yield from self._fenced("start", rows))

    @verb(Access.WRITE, tells=True)
    def progress(self, worker: str, reports: Sequence[tuple[ClaimRef, Progress]]) -> Steps[tuple[Verdict, ...]]:
        """Record progress, fenced."""
        rows = [(ref.job_id, ref.fence, worker, *astuple(report)) for ref, report in reports]
        return (yield from self._fenced("progress", rows))

    def finish(self, worker: str, endings: Sequence[Ending]) -> Verb[tuple[Verdict, ...]]:
        """End claims, fenced. An ending recorded before by this worker for this fence is accepted again."""
        return finishing(endings, partial(self._finish, worker, endings))

    def _finish(self, worker: str, endings: Sequence[Ending]) -> Steps[Finished]:
        now = self._now()
        plain = [ending for ending in endings if is_plain_success(ending)]
        all_completed = (yield from self._complete(worker, plain, now)) == len(plain)
        if all_completed and len(plain) == len(endings):
            return (Verdict.ACCEPTED,) * len(plain), False
        check(endings)
        verdicts: list[Verdict] = []
        frees = False
        for ending in endings:
            if all_completed and is_plain_success(ending):
                verdicts.append(Verdict.ACCEPTED)
                continue
            verdict, freed = yield from self._end(worker, ending, now)
            verdicts.append(verdict)
            frees |= freed
        return tuple(verdicts), frees

    def _complete(self, worker: str, endings: Iterable[Ending], now: int) -> Steps[int]:
        """Complete valid claims for whose end nobody waits; return how many of them there were."""
        completed = 0
        fading: list[tuple[str]] = []
        completions = [_completion(ending, now) for ending in endings if _is_text(ending.result)]
        for rows in in_bites(completions, [len(each.result or "") for each in completions], BITE):
            completed += yield Command(self._sql["complete"], (msgspec.json.encode(rows).decode(), worker, now))
            fading += [(row.job_id,) for row in rows if row.until is not None]
        if fading:
            yield Bulk(self._sql["note_fading"], fading)
        return completed

    def _fenced(
        self, update: str, rows: Sequence[tuple[str, int, str, *tuple[object, ...]]]
    ) -> Steps[tuple[Verdict, ...]]:
        changed = (yield Bulk(self._sql[update], rows)) if rows else 0
        if changed == len(rows):
            return (Verdict.ACCEPTED,) * len(rows)
        verdicts: list[Verdict] = []
        for job_id, fence, worker, *_ in rows:
            verdicts.append((yield from self._verdict("claim_is_valid", worker, ClaimRef(job_id, fence))))
        return tuple(verdicts)

    def _verdict(self, check: str, worker: str, ref: ClaimRef) -> Steps[Verdict]:
        [(found,)] = yield Query(self._sql[check], (ref.job_id, ref.fence, worker))
        return Verdict.ACCEPTED if found else Verdict.STALE

    def _end(self, worker: str, ending: Ending, now: int) -> Steps[tuple[Verdict, bool]]:
        """End a claim; tell the verdict, and whether a job that waited for this end is free now."""
        rows = yield Query(self._sql["claimed_job"], (ending.ref.job_id, ending.ref.fence, worker))
        if not rows:
            return (yield from self._verdict("was_finished", worker, ending.ref)), False
        end = finished(ClaimedRow(*rows[0]), ending, now)
        frees = yield from write_end(self._sql, end, now)
        wanted = signal_name(end.reason) if end.state is State.SCHEDULED else None
        if wanted is not None:
            yield Command(self._sql["end_wait"], (end.row.seq, end.reason, signal_prefix(wanted), now))
        return Verdict.ACCEPTED, frees


class _Completion(NamedTuple):
    """What `complete` takes of one ending."""

    job_id: str
    fence: int
    started_at: int | None
    result: str | None
    until: int | None


def _completion(ending: Ending, now: int) -> _Completion:
    result = None if ending.result is None else ending.result.decode()
    until = None if ending.keep_result is None else now + span_to_micros(ending.keep_result)
    return _Completion(*ending.ref, to_micros_or_none(ending.started_at), result, until)


def _is_text(result: bytes | None) -> bool:
    """Tell whether a result can be part of JSON, as what our codec makes can; any other takes the longer way."""
    if result is None:
        return True
    try:
        return "\0" not in result.decode()
    except UnicodeDecodeError:
        return False
