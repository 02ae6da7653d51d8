"""What clients do to jobs in PostgreSQL: enqueue, change, pause.

Where one job is, at one moment: what a client decides upon before it moves the job, or ends it.
"""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from functools import partial
from operator import attrgetter
from typing import NamedTuple, TypeAlias, TypeVar

from standfast.errors import ConfigurationError, JobNotFoundError, StoreUnavailableError
from standfast.model.job import JobAction, NewJob, OnConflict
from standfast.model.states import CLAIMED, FINAL, Reason, State
from standfast.stores.postgres.finish import columns
from standfast.stores.postgres.rows import Level, RememberingVerbs, is_id
from standfast.stores.refusals import is_refused, makes_way, no_such_job
from standfast.stores.rows import span_to_micros, to_micros, to_micros_or_none
from standfast.stores.statements import MANY_CHANGED, Row
from standfast.stores.values import JobOutcome, KeyHolder
from standfast.stores.verb import (
    Access,
    Command,
    Last,
    Query,
    Steps,
    Together,
    Try,
    Verb,
    changing_jobs,
    enqueuing,
    known_before,
    verb,
)


class JobSnapshot(NamedTuple):
    """A job and where it is, as it was at `now`. `after` is the claimed job that it is to follow."""

    id: str
    task: str
    key: str | None
    state: State
    reason: str | None
    finished_at: int | None
    keep_key: int
    after: str | None
    now: int

    @property
    def has_key(self) -> bool:
        """Whether its key, if it was the last to get it, is taken."""
        if self.state is State.COMPLETED and self.finished_at is not None:
            return self.now < self.finished_at + self.keep_key
        return self.state not in FINAL


def look_up_job(sql: Mapping[str, str], job_id: str, now: int | None) -> Steps[JobSnapshot | None]:
    """Return where a job is now, by the time given or else the server's; None where there is no such job."""
    rows = yield Query(sql["look_up_job"], (now, job_id))
    return to_snapshot(rows[0]) if rows else None


def to_snapshot(row: Row) -> JobSnapshot:
    """Return what `found` tells of a job."""
    id_, task, key, state, *rest = row
    return JobSnapshot(id_, task, key, State(state), *rest)


def withdraw(sql: Mapping[str, str], job_id: str, reason: Reason, now: int | None) -> Steps[bool]:
    """Cancel a job that waits, for its time or for anything else; False where it does not, or does so no more.

    Someone else may claim it at the same moment: then this waits until that is decided.
    """
    rows = yield Query(sql["withdraw"], (now, job_id, reason.value))
    return bool(rows)


# Who has a key: one row says which job was last accepted with it, and where that job is whether it still has it.
#
# That row is also the lock. Who gives a key to a job, or takes it from one, locks the key first and looks at its
# holder after that, in a later statement, which sees what was committed meanwhile. Workers do not lock keys: they
# claim and finish as ever, so that every act upon a holder may find it gone, and then has to look again.

Key: TypeAlias = tuple[str, str]
"""A task and a key of it."""


def lock_keys(sql: Mapping[str, str], keys: Iterable[Key], now: int | None) -> Steps[int]:
    """Lock keys until the transaction ends; return the time at which the last of them was had.

    Raises ConfigurationError in a transaction that would not see what others did while this one waited.
    """
    tasks, names = zip(*dict.fromkeys(keys), strict=True)
    rows: list[tuple[int]] = yield Query(sql["lock_keys"], (now, tasks, names))
    if not rows:
        raise ConfigurationError(
            "a job with a key needs a READ COMMITTED transaction, because one that is REPEATABLE READ or"
            " SERIALIZABLE does not see who took the key meanwhile: set the isolation level of this transaction to"
            " READ COMMITTED, or enqueue the job without tx="
        )
    return max(moment for (moment,) in rows)


def set_apart(sql: Mapping[str, str], keys: Sequence[Key], others: Sequence[str] = ()) -> Steps[None]:
    """Let the jobs that have these keys, and the `others`, be fresh no longer, before they are locked or withdrawn.

    If the transaction that does so comes to nothing, they are where every claim finds them at once. A fresh job may
    be behind the marks of claims by then, and would be found only by one that walks everything (marks.py).
    """
    if keys or others:
        tasks, names = [task for task, _ in keys], [name for _, name in keys]
        yield Try(Query(sql["set_apart"], (tasks, names, others)), apart=True)


def lock_holders(
    sql: Mapping[str, str], keys: Sequence[Key], own: Sequence[str], others: Sequence[str] = ()
) -> Steps[None]:
    """Lock the jobs that have these keys, which are locked, and the `others`, and the claims in their way.

    But not the `own` new jobs of the caller.

    Whoever ends claims locks them in the order of their ids. Who takes several keys would lock them one after the
    other, in an order of its own, and the two might wait for each other: so it locks all that it will need before.
    What came back while this waited for a claim is locked after that. If a worker is quicker still, and two then do
    wait for each other, the server lets one of them try again.
    """
    tasks, names = [task for task, _ in keys], [name for _, name in keys]
    claimable = Command(sql["lock_claimable"], (tasks, names, own, others))
    yield Together([claimable, Command(sql["lock_claims"], (tasks, names, others)), claimable])


def holders_of(sql: Mapping[str, str], keys: Iterable[Key], now: int | None) -> Steps[dict[Key, JobSnapshot]]:
    """Return the jobs that have these keys now; those that are free are left out."""
    tasks, names = zip(*keys, strict=True)
    rows = yield Query(sql["key_holders"], (now, tasks, names))
    found = map(to_snapshot, rows)
    return {(job.task, job.key): job for job in found if job.key is not None and job.has_key}


def holder_of(sql: Mapping[str, str], task: str, key: str, now: int | None) -> Steps[JobSnapshot | None]:
    """Return the job that has the key now; None where it is free."""
    holders = yield from holders_of(sql, [(task, key)], now)
    return holders.get((task, key))


def give_key(sql: Mapping[str, str], task: str, key: str, job_id: str) -> Steps[None]:
    """Note the job that has a key from now on. The key must be locked."""
    yield Command(sql["give_keys"], ([task], [key], [job_id]))


def mark_replaced(sql: Mapping[str, str], job_id: str, replaced: bool) -> Steps[bool]:
    """Note on a claimed job that another waits for its end, or no longer does; False if it is claimed no more."""
    changed: int = yield Command(sql["mark_replaced"], (job_id, replaced))
    return changed > 0


# How jobs with keys are accepted, one after the other, and what becomes of those whose key is taken.

Keep: TypeAlias = Callable[[Sequence[NewJob], int, str | None], Steps[None]]
"""Stores jobs at a time; they wait for the end of a job, if one is named."""


class KeyConflicts:
    """One call of enqueue, whose keys are locked. What is accepted is stored together, as far as that can be.

    `holders` are the jobs that have the keys, `known` the ids of jobs that are there already; `taken` are the jobs
    that were not stored, each with the one that has its key.
    """

    def __init__(
        self, sql: Mapping[str, str], keep: Keep, now: int, holders: dict[Key, JobSnapshot], known: set[str]
    ) -> None:
        self.taken: dict[str, str] = {}
        self._sql = sql
        self._keep = keep
        self._now = now
        self._holders = holders
        self._known = known
        self._accepted: list[NewJob] = []

    def receive(self, job: NewJob) -> Steps[None]:
        """Accept a job, or note who has its key."""
        if job.id in self._known:
            return
        self._known.add(job.id)
        after = None
        if job.key is not None:
            key = (job.task, job.key)
            while (holder := self._holders.get(key)) is not None:
                if not makes_way(job, holder.id, holder.state):
                    self.taken[job.id] = holder.id
                    return
                made_way, after = yield from self._make_way(holder)
                if made_way:
                    break
                yield from self._look_again(key)
            self._holders[key] = self._whereabouts(job, after)
        yield from self._accept(job, after)

    def close(self) -> Steps[None]:
        """Store what was accepted and is not stored yet."""
        if self._accepted:
            jobs, self._accepted = self._accepted, []
            yield from self._keep(jobs, self._now, None)

    def _accept(self, job: NewJob, after: str | None) -> Steps[None]:
        if after is None:
            self._accepted.append(job)
        else:
            yield from self.close()
            yield from self._keep([job], self._now, after)

    def _make_way(self, holder: JobSnapshot) -> Steps[tuple[bool, str | None]]:
        """Let a job give its key to another; tell whether it was still there, and which job that one has to follow.

        What a job follows is locked before the job itself, as it is by who ends it and sets the other free.
        """
        claimed = holder.id if holder.state in CLAIMED else holder.after
        if claimed is not None and not (yield from mark_replaced(self._sql, claimed, replaced=True)):
            return False, None
        if claimed == holder.id:
            return True, claimed
        yield from self.close()  # it may be a job of this very call
        withdrawn = yield from withdraw(self._sql, holder.id, Reason.REPLACED, self._now)
        return withdrawn, claimed

    def _look_again(self, key: Key) -> Steps[None]:
        """Learn where the holder of a key is, after it was not where it had been."""
        holder = yield from holder_of(self._sql, *key, self._now)
        if holder is None:
            del self._holders[key]
        else:
            self._holders[key] = holder

    def _whereabouts(self, job: NewJob, after: str | None) -> JobSnapshot:
        """Return where a job is that is accepted now."""
        run_at = self._now + span_to_micros(job.delay) if job.run_at is None else to_micros(job.run_at)
        state = State.READY if run_at <= self._now else State.SCHEDULED
        return JobSnapshot(
            id=job.id,
            task=job.task,
            key=job.key,
            state=state if after is None else State.BLOCKED,
            reason=None if after is None else Reason.REPLACING,
            finished_at=None,
            keep_key=span_to_micros(job.keep_key),
            after=after,
            now=self._now,
        )


# How jobs are accepted.
#
# Plain jobs, alike and due now, are the hot path: one short statement, one round trip. Others take a longer one,
# still for all of them at once. Where a level is not known to be there, another statement goes along. Where keys are
# among them, these are locked first, in their order; then each job is looked at, and those that are accepted are
# stored together as far as none of them has to make way for a later one.

_IS_PLAIN = attrgetter("is_plain")
_COMMON = ("task", "version", "queue", "priority", "max_attempts")
_ALIKE = attrgetter(*_COMMON)
_ALIKE_IN_TIME = attrgetter(*_COMMON, "run_at", "delay")
_LEVEL = attrgetter("queue", "priority")


class EnqueueVerbs(RememberingVerbs):
    """The verb by which jobs come in."""

    def enqueue(self, jobs: Sequence[NewJob]) -> Verb[Mapping[str, str]]:
        return enqueuing(jobs, partial(self._enqueue, jobs, is_first=True))

    def _enqueue(
        self, jobs: Sequence[NewJob], *, is_first: bool = False, is_last: bool = True
    ) -> Steps[Mapping[str, str]]:
        """Accept jobs; that nothing else comes before in this transaction, or after, say `is_first`, `is_last`."""
        if not jobs:
            return {}
        if any(job.key is not None for job in jobs):
            if is_first:
                yield from set_apart(self._sql, replaced_by(jobs))
            return (yield from self._receive(jobs))
        now = self._given_now()
        is_due = jobs[0].run_at is None and not jobs[0].delay
        is_plain = is_due and all(map(_IS_PLAIN, jobs)) and len(set(map(_ALIKE_IN_TIME, jobs))) == 1
        statement = self._plain(jobs, now) if is_plain else self._with_more(jobs, now)
        doubtful = self._levels.doubtful(map(_LEVEL, jobs[:1] if is_plain else jobs))
        if doubtful:
            together = Together([statement, self._note(doubtful)])
            accepted, there = yield Last(together) if is_last else together
            self._levels.learn(there)
        else:
            accepted = yield Last(statement) if is_last else statement
        return {} if accepted else known_before(jobs)

    def _plain(self, jobs: Sequence[NewJob], now: int | None) -> Command:
        first = jobs[0]
        if len(jobs) == 1:
            return Command(self._sql["enqueue_one"], (now, first.id, first.payload, *_ALIKE(first)))
        ids, payloads = [job.id for job in jobs], [job.payload for job in jobs]
        return Command(self._sql["enqueue"], (now, ids, payloads, *_ALIKE(first)))

    def _with_more(self, jobs: Sequence[NewJob], now: int | None, after: str | None = None) -> Command:
        columns = map(list, zip(*map(_full_row, jobs), strict=True))
        return Command(self._sql["enqueue_with_more"], (now, after, *columns))

    def _note(self, levels: Sequence[Level]) -> Query:
        """Return what sees to it that levels are there; only what is there for good may be remembered."""
        queues, priorities = [queue for queue, _ in levels], [priority for _, priority in levels]
        return Query(self._sql["note_levels"], (queues, priorities))

    def _receive(self, jobs: Sequence[NewJob]) -> Steps[Mapping[str, str]]:
        """Accept jobs with keys; return those that were not stored, each with the job that has its key."""
        keyed = [job for job in jobs if job.key is not None]
        keys = keys_of(keyed)
        now = yield from lock_keys(self._sql, keys, self._given_now())
        replaced = replaced_by(keyed)
        ids = [job.id for job in jobs]
        if len(replaced) > 1:
            yield from lock_holders(self._sql, replaced, ids)
        rows = yield Query(self._sql["known_jobs"], (ids,))
        holders = yield from holders_of(self._sql, keys, now)
        reception = KeyConflicts(self._sql, self._keep, now, holders, {id_ for (id_,) in rows})
        for job in jobs:
            yield from reception.receive(job)
        yield from reception.close()
        return reception.taken or (known_before(jobs) if rows else {})

    def _keep(self, jobs: Sequence[NewJob], now: int, after: str | None) -> Steps[None]:
        doubtful = self._levels.doubtful(map(_LEVEL, jobs))
        statement = self._with_more(jobs, now, after)
        if doubtful:
            _, there = yield Together([statement, self._note(doubtful)])
            self._levels.learn(there)
        else:
            yield statement


def keys_of(jobs: Iterable[NewJob]) -> list[Key]:
    """Return the keys of jobs, each once."""
    return list(dict.fromkeys((job.task, job.key) for job in jobs if job.key is not None))


def replaced_by(jobs: Iterable[NewJob]) -> list[Key]:
    """Return the keys that jobs take from those that have them, each once."""
    return keys_of(job for job in jobs if job.on_conflict is OnConflict.REPLACE)


def _full_row(job: NewJob) -> tuple[object, ...]:
    start_within = on_late = None
    if job.start_within is not None:
        start_within, on_late = span_to_micros(job.start_within), job.on_late.value
    return (
        job.id,
        job.task,
        job.version,
        job.queue,
        job.priority,
        job.max_attempts,
        job.payload,
        to_micros_or_none(job.run_at),
        span_to_micros(job.delay),
        job.key,
        span_to_micros(job.keep_key),
        start_within,
        on_late,
        json.dumps(job.tags) if job.tags else None,
        json.dumps(dict(job.metadata)) if job.metadata else None,
    )


# What clients ask for about jobs that are there, from cancel to discard; and about queues: pause.

T = TypeVar("T")

_LOOKS = 10
"""How often a job is looked up that moves while someone acts upon it. Each time another was quicker."""


class ClientVerbs(EnqueueVerbs):
    """The writes of clients. Where a job moves between the look and the act, they look again."""

    def change_jobs(
        self,
        action: JobAction,
        job_ids: Sequence[str],
        run_at: datetime | None = None,
        instead: NewJob | None = None,
    ) -> Verb[Mapping[str, JobOutcome]]:
        if len(job_ids) == 1:
            steps = partial(self._change_one, action, job_ids[0], run_at, instead)
        else:
            steps = partial(self._change_many, action, job_ids, run_at)
        return changing_jobs(action, instead, steps)

    def _change_many(
        self, action: JobAction, job_ids: Sequence[str], run_at: datetime | None
    ) -> Steps[Mapping[str, JobOutcome]]:
        """Change what nobody else has locked. Where the jobs were is not known."""
        jobs, now = [job_id for job_id in job_ids if is_id(job_id)], self._given_now()
        if action is JobAction.RETRY:
            yield from self._take_keys_again(jobs)
        changed: set[str] = set()
        for name in MANY_CHANGED[action]:
            what = (now, jobs) if run_at is None else (now, jobs, to_micros(run_at))
            changed.update(job_id for (job_id,) in (yield Query(self._sql[name], what)))
        return dict.fromkeys(changed, JobOutcome(changed=True))

    def _take_keys_again(self, jobs: Sequence[str]) -> Steps[None]:
        """Give the keys that are free to those of the dead jobs that had them."""
        wanted = {(task, key): job_id for job_id, task, key in (yield Query(self._sql["dead_with_keys"], (jobs,)))}
        if wanted:
            now = yield from lock_keys(self._sql, wanted, self._given_now())
            taken = yield from holders_of(self._sql, list(wanted), now)
            free = [(*key, job_id) for key, job_id in wanted.items() if key not in taken]
            if free:
                yield Command(self._sql["give_keys"], columns(free))

    @verb(Access.WRITE)
    def pause(self, queue: str) -> Steps[None]:
        yield Last(Command(self._sql["pause"], (self._given_now(), queue)))

    @verb(Access.WRITE, wakes=True)
    def resume(self, queue: str) -> Steps[None]:
        yield Last(Command(self._sql["resume"], (queue,)))

    def _change_one(
        self, action: JobAction, job_id: str, run_at: datetime | None, instead: NewJob | None
    ) -> Steps[Mapping[str, JobOutcome]]:
        try:
            outcome = yield from self._decide(job_id, partial(self._change_job, action, run_at, instead))
        except JobNotFoundError:
            outcome = JobOutcome(changed=False)
        return {job_id: outcome}

    def _decide(self, job_id: str, act: Callable[[JobSnapshot], Steps[T | None]]) -> Steps[T]:
        """Look a job up and act upon it, until the act finds it where it was."""
        for _ in range(_LOOKS):
            job = (yield from look_up_job(self._sql, job_id, self._given_now())) if is_id(job_id) else None
            if job is None:
                raise no_such_job(job_id)
            done = yield from act(job)
            if done is not None:
                return done
        raise StoreUnavailableError(f"job {job_id} moved at each of {_LOOKS} looks, nothing was changed: try again")

    def _change_job(
        self, action: JobAction, run_at: datetime | None, instead: NewJob | None, job: JobSnapshot
    ) -> Steps[JobOutcome | None]:
        if is_refused(action, job.state, job.reason):
            return JobOutcome(changed=False, state=job.state)
        done: object
        if action is JobAction.RETRY:
            done = yield from self._retry(job)
        elif action is JobAction.CANCEL:
            done = yield from self._cancel(job)
        elif action is JobAction.DISCARD:
            done = yield from self._discard(job, instead)
        else:
            assert run_at is not None
            done = yield Query(self._sql["reschedule"], (job.id, to_micros(run_at), job.reason))
        if isinstance(done, KeyHolder):
            return JobOutcome(changed=False, state=job.state, holder=done)
        return JobOutcome(changed=True, state=job.state) if done else None

    def _cancel(self, job: JobSnapshot) -> Steps[bool]:
        if job.state in CLAIMED:
            asked: int = yield Command(self._sql["ask_to_cancel"], (job.id,))
            return asked > 0
        if not (yield from self._give_key_back(job)):
            return False
        return (yield from withdraw(self._sql, job.id, Reason.REQUESTED, self._given_now()))

    def _give_key_back(self, job: JobSnapshot) -> Steps[bool]:
        """Give the key of a job that waits for the end of a claimed one back to that; False where that has ended.

        The claim is locked before the job that waits for it, as those do who end the claim.
        """
        if job.key is None or job.after is None:
            return True
        yield from lock_keys(self._sql, [(job.task, job.key)], self._given_now())
        holder = yield from holder_of(self._sql, job.task, job.key, self._given_now())
        if holder is None or holder.id != job.id or not (yield from mark_replaced(self._sql, job.after, False)):
            return False
        yield from give_key(self._sql, job.task, job.key, job.after)
        return True

    def _retry(self, job: JobSnapshot) -> Steps[int | KeyHolder]:
        """Return what was changed, or who has the key of the job."""
        if job.state is State.DEAD and job.key is not None:
            now = yield from lock_keys(self._sql, [(job.task, job.key)], self._given_now())
            holder = yield from holder_of(self._sql, job.task, job.key, now)
            if holder is not None and holder.id != job.id:
                return KeyHolder(job.task, job.key, holder.id, holder.state)
            yield from give_key(self._sql, job.task, job.key, job.id)
        name = "revive" if job.state is State.DEAD else "make_due"
        changed: int = yield Command(self._sql[name], (self._given_now(), job.id))
        return changed

    def _discard(self, job: JobSnapshot, instead: NewJob | None) -> Steps[int]:
        """Accept another first, if one is given: who retries the job also takes its key before it changes the job."""
        if instead is not None:
            yield from self._enqueue((instead,), is_last=False)
        ended: int = yield Command(self._sql["discard"], (self._given_now(), job.id))
        return ended
