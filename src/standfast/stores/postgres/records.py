"""Memos and records in PostgreSQL.

What jobs write down, and what others send them: save, memos, signal.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from functools import partial
from itertools import chain
from typing import Any, NamedTuple

from standfast.errors import JobNotFoundError
from standfast.model.job import ClaimRef, JobAction, NewJob, Verdict
from standfast.model.memos import LAST_NUMBER, MEMOS_LIMIT, Memo, Save, signal_memo, signal_reason
from standfast.model.records import FIRES_KEPT, Change, Fire, Kind, Record
from standfast.model.states import CLAIMED, FINAL
from standfast.stores.postgres.enqueue import (
    ClientVerbs,
    JobSnapshot,
    keys_of,
    lock_holders,
    lock_keys,
    replaced_by,
    set_apart,
)
from standfast.stores.postgres.finish import columns
from standfast.stores.postgres.rows import is_id, readable
from standfast.stores.refusals import not_withdrawn, too_many_signals
from standfast.stores.rows import from_micros, span_to_micros, to_micros, to_micros_or_none
from standfast.stores.statements import to_fire, to_record
from standfast.stores.values import DueRecords, JobOutcome
from standfast.stores.verb import (
    Access,
    Command,
    Last,
    Query,
    Steps,
    Together,
    Verb,
    changing,
    check_changes,
    in_bites,
    verb,
)

BITE = 16 * 1024 * 1024
"""Bytes of memos that one statement takes."""

_Latest = dict[str, tuple[int, bytes]]
"""The memos of a claim by name, each with the number of its save."""


class MemoVerbs(ClientVerbs):
    """The verbs about memos."""

    @verb(Access.WRITE)
    def save(self, worker: str, saves: Sequence[Save]) -> Steps[tuple[Verdict, ...]]:
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
        if not is_id(job_id):
            return ()
        rows = yield Last(Query(self._sql["memos"], (job_id,)))
        return tuple(Memo(name, bytes(body)) for name, body in rows)

    @verb(Access.WRITE, wakes=True)
    def signal(self, job_id: str, name: str, token: str, body: bytes) -> Steps[bool]:
        return (yield from self._decide(job_id, partial(self._signal, name=name, token=token, body=body)))

    def _signal(self, job: JobSnapshot, *, name: str, token: str, body: bytes) -> Steps[bool | None]:
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


# Changes of records, and their fires, as the columns in which a statement takes them.

_FIRE_COLUMNS = 9


def change_columns(changes: Sequence[Change]) -> list[list[Any]]:
    """Return changes, then the fires of all of them, as `change_records` takes them: one list for each value."""
    rows = [
        (each.kind.value, each.name, each.seen, each.after, each.token, to_micros_or_none(each.due_at), each.body)
        for each in changes
    ]
    fires = [_fire_row(place, fire) for place, each in enumerate(changes, 1) for fire in each.fires]
    return [*_columns(rows), *(_columns(fires) or [[]] * _FIRE_COLUMNS)]


def _fire_row(place: int, fire: Fire) -> tuple[Any, ...]:
    return (
        place,
        fire.schedule,
        to_micros(fire.planned),
        fire.cause.value,
        fire.decision.value,
        fire.count,
        to_micros_or_none(fire.until),
        fire.job_id,
        readable(fire.note),
    )


def _columns(rows: Iterable[tuple[Any, ...]]) -> list[list[Any]]:
    return [list(column) for column in zip(*rows, strict=True)]


# Records: looking at them, and changing them together with all that comes of it.
#
# A change is compared and written by one statement, with its fires; its cancels and its jobs follow in the same
# transaction, by the steps of the verbs that cancel and enqueue. Locks are taken in this order: the right to make
# records, records (by kind and name), keys (by task and key), jobs that wait, claims (by id). Nobody who has one of
# the later waits for one of the earlier, and several of a sort are locked in their order: so none wait for each other
# in a circle.

FORGET_EVERY = 64
"""At one in so many changes of a record its old fires are forgotten, as well as after one that brings so many."""


class _Outcome(NamedTuple):
    """What `change_records` tells of a change: whether it was made, and whether that was now."""

    is_made: bool
    is_new: bool


class RecordVerbs(ClientVerbs):
    """Look at records and fires; change records."""

    @verb(Access.READ)
    def records(self, kind: Kind, names: Sequence[str] | None = None) -> Steps[tuple[Record, ...]]:
        if names is None:
            rows = yield Last(Query(self._sql["records_of"], (kind.value,)))
        else:
            rows = yield Last(Query(self._sql["records_named"], (kind.value, list(names))))
        return tuple(map(to_record, rows))

    @verb(Access.READ)
    def due_records(self, kind: Kind, ahead: timedelta, limit: int) -> Steps[DueRecords]:
        asked = (self._given_now(), kind.value, span_to_micros(ahead), max(limit, 0))
        rows = yield Last(Query(self._sql["due_records"], asked))
        [(now, *_), *_] = rows
        return DueRecords(from_micros(now), tuple(to_record(row) for _, *row in rows if row[0] is not None))

    @verb(Access.READ)
    def fires(self, schedule: str | None, limit: int, before: datetime | None = None) -> Steps[tuple[Fire, ...]]:
        page = (to_micros_or_none(before), max(limit, 0))
        if schedule is None:
            rows = yield Last(Query(self._sql["fires"], page))
        else:
            rows = yield Last(Query(self._sql["fires_of"], (*page, schedule)))
        return tuple(map(to_fire, rows))

    def change_records(self, changes: Sequence[Change]) -> Verb[tuple[bool, ...]]:
        return changing(changes, partial(self._change_all, changes))

    def _change_all(self, changes: Sequence[Change]) -> Steps[tuple[bool, ...]]:
        check_changes(changes)
        if not changes:
            return ()
        replaced = replaced_by(job for change in changes for job in change.jobs)
        yield from set_apart(self._sql, replaced, list(filter(is_id, chain.from_iterable(map(_ended_by, changes)))))
        outcomes = yield from self._compare(changes)
        yield from self._carry_out(
            [change for change, outcome in zip(changes, outcomes, strict=True) if outcome.is_new]
        )
        return tuple(outcome.is_made for outcome in outcomes)

    def _compare(self, changes: Sequence[Change]) -> Steps[list[_Outcome]]:
        """Write records and fires, as far as their versions are as they were seen."""
        before = [Command(self._sql["lock_creation"])] if any(map(_creates, changes)) else []
        write = Query(self._sql["change_records"], (self._given_now(), *change_columns(changes)))
        together = Together([*before, write, *self._forget_fires(changes)])
        if any(change.jobs or _ended_by(change) for change in changes):
            answers = yield together
        else:
            answers = yield Last(together)
        return [_Outcome(*row) for row in answers[len(before)]]

    def _forget_fires(self, changes: Iterable[Change]) -> Iterator[Command]:
        """Yield what forgets the fires of schedules that are forgotten, and of others now and then the oldest."""
        schedules = [change for change in changes if change.kind is Kind.SCHEDULE]
        gone = [change.name for change in schedules if change.body is None]
        if gone:
            yield Command(self._sql["forget_fires"], (gone, Kind.SCHEDULE.value))
        full = [change.name for change in schedules if change.body is not None and _may_fill_up(change)]
        if full:
            yield Command(self._sql["forget_old_fires"], (full, FIRES_KEPT))

    def _carry_out(self, changes: Sequence[Change]) -> Steps[None]:
        """Do what comes of changes, in their order: each ends jobs, and then brings some."""
        yield from self._lock_ahead(changes)
        jobs: list[NewJob] = []
        for change in changes:
            if _ended_by(change):
                yield from self._enqueue(jobs, is_last=False)
                jobs = []
                yield from self._end_each(change.withdraws, self._withdraw)
                yield from self._end_each(change.cancels, partial(self._change_job, JobAction.CANCEL, None, None))
            jobs += change.jobs
        yield from self._enqueue(jobs)

    def _end_each(
        self, job_ids: Iterable[str], act: Callable[[JobSnapshot], Steps[JobOutcome | None]]
    ) -> Steps[None]:
        for job_id in job_ids:
            with suppress(JobNotFoundError):
                yield from self._decide(job_id, act)

    def _withdraw(self, job: JobSnapshot) -> Steps[JobOutcome | None]:
        """Cancel a job that nobody has in hand. Where somebody has, raise what undoes the whole call."""
        if job.state in CLAIMED:
            raise not_withdrawn(job.id)
        return (yield from self._change_job(JobAction.CANCEL, None, None, job))

    def _lock_ahead(self, changes: Sequence[Change]) -> Steps[None]:
        """Lock all keys and jobs that are to be touched, in the order in which everybody does.

        One after the other, as they come, they would be locked in an order of our own.
        """
        ended = [job_id for change in changes for job_id in _ended_by(change)]
        jobs = [job for change in changes for job in change.jobs]
        keys = keys_of(jobs)
        if not ended or len(ended) + len(keys) == 1:
            return  # who only enqueues sees to it anyway, and one alone is in no order
        ended = [job_id for job_id in ended if is_id(job_id)]
        given_back = yield Query(self._sql["keys_given_back"], (ended,))
        keys = list(dict.fromkeys([*keys, *given_back]))
        if keys:
            yield from lock_keys(self._sql, keys, self._given_now())
        yield from lock_holders(self._sql, replaced_by(jobs), [job.id for job in jobs], ended)


def _ended_by(change: Change) -> tuple[str, ...]:
    return (*change.withdraws, *change.cancels)


def _creates(change: Change) -> bool:
    return change.seen == 0 and change.body is not None


def _may_fill_up(change: Change) -> bool:
    """Tell whether there may be many fires of a schedule after a change."""
    return len(change.fires) >= FORGET_EVERY or (change.seen + 1) % FORGET_EVERY == 0
