"""How a claim leaves its worker's hands, whoever ends it: the two updates and the line in the history."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import NamedTuple

import msgspec
from msgspec.structs import astuple

from standfast.model.job import HISTORY_FIRST, HISTORY_LAST, ClaimRef, Ending, Progress, Verdict, folds_at
from standfast.model.memos import signal_name, signal_prefix
from standfast.model.states import FINAL, State
from standfast.stores.claims import ClaimedRow, End, check, finished, is_plain_success
from standfast.stores.rows import span_to_micros, to_micros, to_micros_or_none
from standfast.stores.sqlite.statements import SqliteVerbs
from standfast.stores.verb import Access, Bulk, Command, Finished, Query, Steps, Verb, finishing, in_bites, verb


def write_end(sql: Mapping[str, str], end: End, now: int) -> Steps[bool]:
    """Write the end of a claim that was found valid in this same transaction; tell whether it set a job free."""
    row = end.row
    story = (row.started_at, now, end.how, end.attempt_error, end.traceback, end.log, end.by.value)
    yield Command(sql["record_attempt"], (row.seq, row.fence, row.worker, *story))
    if folds_at(row.fence):
        between = (row.seq, HISTORY_FIRST, row.fence - HISTORY_LAST)
        yield Command(sql["fold_attempts"], between)
        yield Command(sql["forget_folded"], between)
    numbers = (row.attempt, row.crashes, row.group, row.error)
    if end.state in FINAL:
        last = (end.result, end.result_until, row.started_at)
        yield Command(sql["end_for_good"], (row.seq, end.state.value, end.reason, now, *numbers, *last))
    else:
        state = _waiting_state(end.state, row.run_at, now)
        yield Command(sql["give_back"], (row.seq, state.value, end.reason, row.run_at, *numbers))
    if end.result_until is not None:
        yield Command(sql["note_fading"], (row.id,))
    if row.replaced:
        yield Command(sql["free_replacement"], (row.task, row.key, row.id, now))
    return bool(row.replaced)


def _waiting_state(state: State, run_at: int, now: int) -> State:
    if state is State.BLOCKED:
        return state
    return State.READY if run_at <= now else State.SCHEDULED


# The fenced writes of a claim: start, progress, finish.
#
# Success is the hot path: one bulk update, whose count says that every claim was valid and that nobody waits for its
# end. Only if it does not add up is each claim looked at, to tell the stale ones from those recorded before, and from
# those for whose end another job waits.

BITE = 4 * 1024 * 1024
"""Characters of results that one statement takes."""


class FinishVerbs(SqliteVerbs):
    """What a worker writes about its claims."""

    @verb(Access.WRITE)
    def start(self, worker: str, started: Sequence[tuple[ClaimRef, datetime]]) -> Steps[tuple[Verdict, ...]]:
        rows = [(ref.job_id, ref.fence, worker, to_micros(started_at)) for ref, started_at in started]
        return (yield from self._fenced("start", rows))

    @verb(Access.WRITE, tells=True)
    def progress(self, worker: str, reports: Sequence[tuple[ClaimRef, Progress]]) -> Steps[tuple[Verdict, ...]]:
        rows = [(ref.job_id, ref.fence, worker, *astuple(report)) for ref, report in reports]
        return (yield from self._fenced("progress", rows))

    def finish(self, worker: str, endings: Sequence[Ending]) -> Verb[tuple[Verdict, ...]]:
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
