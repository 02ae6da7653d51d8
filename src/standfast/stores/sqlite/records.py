"""Memos and records in SQLite.

What jobs write down for their later attempts, and what others send them.
"""

import json
from collections.abc import Sequence
from datetime import datetime, timedelta
from functools import partial

from standfast.model.job import ClaimRef, JobAction, Verdict
from standfast.model.memos import MEMOS_LIMIT, Memo, Save, signal_memo, signal_prefix, signal_reason
from standfast.model.records import FIRES_KEPT, Change, Fire, Kind, Record
from standfast.model.states import CLAIMED, FINAL, State
from standfast.stores.refusals import no_such_job, not_withdrawn, too_many_signals
from standfast.stores.rows import to_micros, to_micros_or_none
from standfast.stores.sqlite.enqueue import ClientVerbs
from standfast.stores.sqlite.statements import to_json
from standfast.stores.statements import to_fire, to_record
from standfast.stores.values import DueRecords
from standfast.stores.verb import Access, Bulk, Command, Query, Steps, Verb, changing, check_changes, verb


class MemoVerbs(ClientVerbs):
    """Save, look, signal."""

    @verb(Access.WRITE)
    def save(self, worker: str, saves: Sequence[Save]) -> Steps[tuple[Verdict, ...]]:
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
        rows = yield Query(self._sql["memos"], (job_id,))
        return tuple(Memo(name, body) for name, body in rows)

    @verb(Access.WRITE, wakes=True)
    def signal(self, job_id: str, name: str, token: str, body: bytes) -> Steps[bool]:
        job = yield from self._look_for(job_id)
        if job is None:
            raise no_such_job(job_id)
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


# Records and fires. What comes of a change is written by the steps of `enqueue` and `cancel` themselves.

_END_OF_TIME = 2**63 - 1


class RecordVerbs(ClientVerbs):
    """Look at records and fires; change records."""

    @verb(Access.READ)
    def records(self, kind: Kind, names: Sequence[str] | None = None) -> Steps[tuple[Record, ...]]:
        rows = yield Query(self._sql["records"], (kind.value, to_json(names)))
        return tuple(map(to_record, rows))

    @verb(Access.READ)
    def due_records(self, kind: Kind, ahead: timedelta, limit: int) -> Steps[DueRecords]:
        now = self._clock.now()
        rows = yield Query(self._sql["due_records"], (kind.value, to_micros(now + ahead), limit))
        return DueRecords(now, tuple(map(to_record, rows)))

    @verb(Access.READ)
    def fires(self, schedule: str | None, limit: int, before: datetime | None = None) -> Steps[tuple[Fire, ...]]:
        page = (limit, _END_OF_TIME if before is None else to_micros(before))
        if schedule is None:
            rows = yield Query(self._sql["fires"], page)
        else:
            rows = yield Query(self._sql["fires_of"], (schedule, *page))
        return tuple(map(to_fire, rows))

    def change_records(self, changes: Sequence[Change]) -> Verb[tuple[bool, ...]]:
        return changing(changes, partial(self._change_all, changes))

    def _change_all(self, changes: Sequence[Change]) -> Steps[tuple[bool, ...]]:
        check_changes(changes)
        made: tuple[bool, ...] = ()
        for change in changes:
            made += ((yield from self._change(change)),)
        return made

    def _change(self, change: Change) -> Steps[bool]:
        place = (change.kind.value, change.name)
        found = yield Query(self._sql["record_version"], place)
        if not found and change.body is None:
            return True
        [(version, token)] = found or [(0, change.after)]
        if version != change.seen or change.after not in {None, token}:
            return bool(version == change.seen + 1 and token == change.token)
        if change.body is None:
            yield from self._forget(change)
        else:
            version_now = (version + 1, change.token, to_micros_or_none(change.due_at), change.body)
            yield Command(self._sql["write_record"], place + version_now)
            yield from self._note_fires(change)
        for job_id in change.withdraws:
            job = yield from self._look_for(job_id)
            if job is not None and job.state in CLAIMED:
                raise not_withdrawn(job_id)
        for job_id in (*change.withdraws, *change.cancels):
            yield from self._change_job(JobAction.CANCEL, job_id)
        yield from self._enqueue(change.jobs)
        return True

    def _forget(self, change: Change) -> Steps[None]:
        yield Command(self._sql["forget_record"], (change.kind.value, change.name))
        if change.kind is Kind.SCHEDULE:
            yield Command(self._sql["forget_fires"], (change.name,))

    def _note_fires(self, change: Change) -> Steps[None]:
        if not change.fires:
            return
        now = self._now()
        yield Bulk(self._sql["write_fire"], [_fire_row(fire, now) for fire in change.fires])
        yield Command(self._sql["forget_old_fires"], (change.name, FIRES_KEPT))


def _fire_row(fire: Fire, now: int) -> tuple[object, ...]:
    what = (fire.schedule, to_micros(fire.planned), fire.decision.value, fire.cause.value)
    return (*what, fire.count, to_micros_or_none(fire.until), fire.job_id, fire.note, now)
