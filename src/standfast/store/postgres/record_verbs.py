"""Records: looking at them, and changing them together with all that comes of it.

A change is compared and written by one statement, with its fires; its cancels and its jobs follow in the same
transaction, by the steps of the verbs that cancel and enqueue. Locks are taken in this order: the right to make
records, records (by kind and name), keys (by task and key), jobs that wait, claims (by id). Nobody who has one of
the later waits for one of the earlier, and several of a sort are locked in their order: so none wait for each other
in a circle.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from functools import partial
from itertools import chain
from typing import NamedTuple

from standfast.core.job import Cancellation, NewJob
from standfast.core.record import FIRES_KEPT, Change, Fire, Kind, Record
from standfast.core.states import CLAIMED
from standfast.errors import JobNotFoundError
from standfast.store.postgres.client_verbs import ClientVerbs
from standfast.store.postgres.enqueue_verbs import keys_of, replaced_by
from standfast.store.postgres.keys import lock_holders, lock_keys, set_apart
from standfast.store.postgres.record_rows import change_columns
from standfast.store.postgres.verbs import is_id
from standfast.store.postgres.whereabouts import Whereabouts
from standfast.store.protocol import DueRecords
from standfast.store.refusals import not_withdrawn
from standfast.store.sql_rows import to_fire, to_record
from standfast.store.times import from_micros, span_to_micros, to_micros_or_none
from standfast.store.verb import Access, Command, Last, Query, Steps, Together, Verb, verb
from standfast.store.waking import changing, check_changes

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
        """Return all records of a kind, or those of the given names that exist, by name."""
        if names is None:
            rows = yield Last(Query(self._sql["records_of"], (kind.value,)))
        else:
            rows = yield Last(Query(self._sql["records_named"], (kind.value, list(names))))
        return tuple(map(to_record, rows))

    @verb(Access.READ)
    def due_records(self, kind: Kind, ahead: timedelta, limit: int) -> Steps[DueRecords]:
        """Return at most `limit` records of a kind that are due at the store's now + `ahead`."""
        asked = (self._given_now(), kind.value, span_to_micros(ahead), max(limit, 0))
        rows = yield Last(Query(self._sql["due_records"], asked))
        [(now, *_), *_] = rows
        return DueRecords(from_micros(now), tuple(to_record(row) for _, *row in rows if row[0] is not None))

    @verb(Access.READ)
    def fires(self, schedule: str | None, limit: int, before: datetime | None = None) -> Steps[tuple[Fire, ...]]:
        """Return fires of one schedule or of all, the latest planned first; `before` starts the next page."""
        page = (to_micros_or_none(before), max(limit, 0))
        if schedule is None:
            rows = yield Last(Query(self._sql["fires"], page))
        else:
            rows = yield Last(Query(self._sql["fires_of"], (*page, schedule)))
        return tuple(map(to_fire, rows))

    def change_records(self, changes: Sequence[Change]) -> Verb[tuple[bool, ...]]:
        """Make changes; tell for each whether it was made."""
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
                yield from self._end_each(change.cancels, self._cancel)
            jobs += change.jobs
        yield from self._enqueue(jobs)

    def _end_each(
        self, job_ids: Iterable[str], act: Callable[[Whereabouts], Steps[Cancellation | None]]
    ) -> Steps[None]:
        for job_id in job_ids:
            with suppress(JobNotFoundError):
                yield from self._decide(job_id, act)

    def _withdraw(self, job: Whereabouts) -> Steps[Cancellation | None]:
        """Cancel a job that nobody has in hand. Where somebody has, raise what undoes the whole call."""
        if job.state in CLAIMED:
            raise not_withdrawn(job.id)
        return (yield from self._cancel(job))

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
