"""Records and fires in the memory store."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from functools import partial
from itertools import takewhile

from msgspec.structs import replace

from standfast.model.job import JobAction
from standfast.model.records import FIRES_KEPT, Change, Fire, Kind, Record
from standfast.model.states import CLAIMED
from standfast.stores.memory.client import ClientVerbs
from standfast.stores.memory.rows import in_one_step, verb
from standfast.stores.refusals import not_withdrawn
from standfast.stores.values import DueRecords
from standfast.stores.verb import Access, Verb, changing, check_changes


class RecordVerbs(ClientVerbs):
    """Look at records and fires; change records."""

    @verb(Access.READ)
    def records(self, kind: Kind, names: Sequence[str] | None = None) -> tuple[Record, ...]:
        records = (record for record in self._records.values() if record.kind is kind)
        return tuple(sorted((each for each in records if names is None or each.name in names), key=_name))

    @verb(Access.READ)
    def due_records(self, kind: Kind, ahead: timedelta, limit: int) -> DueRecords:
        now = self._clock.now()
        due = [
            (record.due_at, record.name, record)
            for record in self._records.values()
            if record.kind is kind and record.due_at is not None and record.due_at <= now + ahead
        ]
        return DueRecords(now, tuple(record for *_, record in sorted(due)[:limit]))

    def change_records(self, changes: Sequence[Change]) -> Verb[tuple[bool, ...]]:
        return changing(changes, partial(in_one_step, partial(self._change_all, changes)))

    def _change_all(self, changes: Sequence[Change]) -> tuple[bool, ...]:
        check_changes(changes)
        for change in changes:
            if _is_as_seen(self._records.get((change.kind, change.name)), change):
                self._refuse_claimed(change.withdraws)
        return tuple(self._change(change) for change in changes)

    def _refuse_claimed(self, job_ids: Sequence[str]) -> None:
        for job_id in job_ids:
            if job_id in self._jobs and self._jobs[job_id].state in CLAIMED:
                raise not_withdrawn(job_id)

    def _change(self, change: Change) -> bool:
        place = (change.kind, change.name)
        record = self._records.get(place)
        if record is None and change.body is None:
            return True
        if not _is_as_seen(record, change):
            return record is not None and record.version == change.seen + 1 and record.token == change.token
        if change.body is None:
            del self._records[place]
            if change.kind is Kind.SCHEDULE:
                self._forget_fires(change.name, kept=0)
        else:
            self._records[place] = Record(*place, change.seen + 1, change.due_at, change.body, change.token)
            self._note_fires(change)
        for job_id in (*change.withdraws, *change.cancels):
            self._change_job(JobAction.CANCEL, job_id)
        self._enqueue(change.jobs)
        return True

    def _note_fires(self, change: Change) -> None:
        now = self._clock.now()
        for fire in change.fires:
            self._fires[fire.schedule, fire.planned, fire.cause] = replace(fire, decided_at=now)
        if change.fires:
            self._forget_fires(change.name, kept=FIRES_KEPT)

    def _forget_fires(self, schedule: str, kept: int) -> None:
        places = sorted((place for place in self._fires if place[0] == schedule), reverse=True)
        for place in places[kept:]:
            del self._fires[place]

    @verb(Access.READ)
    def fires(self, schedule: str | None, limit: int, before: datetime | None = None) -> tuple[Fire, ...]:
        found = [
            fire
            for fire in self._fires.values()
            if schedule in {None, fire.schedule} and (before is None or fire.planned < before)
        ]
        found.sort(key=lambda fire: (fire.planned, fire.schedule, fire.cause), reverse=True)
        page, rest = found[:limit], found[limit:]
        return (*page, *takewhile(lambda fire: fire.planned == page[-1].planned, rest if page else ()))


def _is_as_seen(record: Record | None, change: Change) -> bool:
    if record is None:
        return change.seen == 0 and change.body is not None
    return record.version == change.seen and change.after in {None, record.token}


def _name(record: Record) -> str:
    return record.name
