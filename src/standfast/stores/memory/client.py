"""What clients and the curious ask of the memory store."""

from collections import ChainMap, Counter
from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import partial

from standfast.model.job import Attempt, Glance, Job, JobAction, NewJob
from standfast.model.memos import MEMOS_LIMIT, Memo, is_signal, is_suspended, signal_memo, signal_name
from standfast.model.states import CLAIMED, FINAL, WAITING, Reason, State
from standfast.stores.memory.rows import JobRow, KeyConflicts, MemoRow, Tables, in_one_step, key_of, verb
from standfast.stores.refusals import is_refused, too_many_signals
from standfast.stores.values import (
    JobFilter,
    JobOutcome,
    JobPage,
    KeyHolder,
    Queue,
    QueueAge,
    QueueAges,
    Situation,
    UnknownAge,
    Worker,
)
from standfast.stores.verb import Access, Verb, changing_jobs, enqueuing, known_before


class ClientVerbs(Tables):
    """Enqueue, look, cancel, requeue, pause."""

    def enqueue(self, jobs: Sequence[NewJob]) -> Verb[Mapping[str, str]]:
        return enqueuing(jobs, partial(in_one_step, partial(self._enqueue, jobs)))

    def _enqueue(self, jobs: Sequence[NewJob]) -> Mapping[str, str]:
        reception = KeyConflicts(ChainMap({}, self._jobs), ChainMap({}, self._holders), self._clock.now())
        for job in jobs:
            reception.receive(job, next(self._arrivals))
        self._jobs.update(reception.jobs.maps[0])
        self._holders.update(reception.holders.maps[0])
        return reception.taken if reception.taken or reception.jobs.maps[0] else known_before(jobs)

    @verb(Access.READ)
    def glance(self, job_ids: Sequence[str]) -> Mapping[str, Glance]:
        now = self._clock.now()
        rows = (self._jobs[job_id] for job_id in job_ids if job_id in self._jobs)
        return {row.new.id: Glance(row.state_at(now), row.progress) for row in rows}

    @verb(Access.READ)
    def get(self, job_id: str) -> Job | None:
        row = self._jobs.get(job_id)
        return None if row is None else row.view(self._clock.now())

    @verb(Access.READ)
    def list_jobs(self, which: JobFilter, span: int | None = None) -> JobPage:
        now = self._clock.now()
        ids = [job_id for job_id in sorted(self._jobs, reverse=True) if which.includes(job_id)]
        jobs = tuple(job for job in (self._jobs[job_id].view(now) for job_id in ids[:span]) if which.matches(job))
        if len(jobs) >= which.limit:
            return JobPage(jobs[: which.limit], jobs[which.limit - 1].id)
        return JobPage(jobs, ids[span - 1] if span is not None and len(ids) > span else None)

    @verb(Access.READ)
    def history(self, job_id: str) -> tuple[Attempt, ...]:
        row = self._jobs.get(job_id)
        return () if row is None else tuple(claim.view() for claim in row.claims)

    def _give_key_back(self, row: JobRow) -> None:
        key = key_of(row.new)
        if key is not None and row.after is not None:
            self._jobs[row.after].replaced_by = None
            self._holders[key] = row.after

    @verb(Access.READ)
    def memos(self, job_id: str) -> tuple[Memo, ...]:
        row = self._jobs.get(job_id)
        return () if row is None else tuple(Memo(name, memo.body) for name, memo in sorted(row.memos.items()))

    @verb(Access.WRITE, wakes=True)
    def signal(self, job_id: str, name: str, token: str, body: bytes) -> bool:
        row, now = self._job(job_id), self._clock.now()
        if row.state in FINAL:
            return False
        memo = signal_memo(name, token)
        if memo not in row.memos and sum(map(is_signal, row.memos)) >= MEMOS_LIMIT:
            raise too_many_signals(job_id)
        row.memos.setdefault(memo, MemoRow(body))
        if row.state_at(now) is State.SCHEDULED and signal_name(row.reason) == name and row.has_signal(name):
            row.wait(now)
        return True

    def change_jobs(
        self,
        action: JobAction,
        job_ids: Sequence[str],
        run_at: datetime | None = None,
        instead: NewJob | None = None,
    ) -> Verb[Mapping[str, JobOutcome]]:
        def change_all() -> Mapping[str, JobOutcome]:
            return {job_id: self._change_job(action, job_id, run_at, instead) for job_id in dict.fromkeys(job_ids)}

        return changing_jobs(action, instead, partial(in_one_step, change_all))

    def _change_job(
        self, action: JobAction, job_id: str, run_at: datetime | None = None, instead: NewJob | None = None
    ) -> JobOutcome:
        row, now = self._jobs.get(job_id), self._clock.now()
        if row is None:
            return JobOutcome(changed=False)
        state = row.state_at(now)
        if is_refused(action, state, row.reason):
            return JobOutcome(changed=False, state=state)
        if action is JobAction.RETRY:
            if holder := self._take_key_again(row, now):
                return JobOutcome(changed=False, state=state, holder=holder)
            if state is State.DEAD:
                row.attempt = row.crashes = 0
                row.error, row.cancel_requested = None, False
            row.wait(now)
        elif action is JobAction.RESCHEDULE:
            assert run_at is not None
            row.run_at = run_at
        elif action is JobAction.DISCARD:
            if instead is not None:
                self._enqueue((instead,))
            row.end(State.CANCELLED, now, Reason.DISCARDED)
        elif state in CLAIMED:
            row.cancel_requested = True
        else:
            self._give_key_back(row)
            row.cancel(now)
        return JobOutcome(changed=True, state=state)

    def _take_key_again(self, row: JobRow, now: datetime) -> KeyHolder | None:
        """Give a dead job its key again; return the job that has it, if another does."""
        key = key_of(row.new)
        if key is None or row.state is not State.DEAD:
            return None
        holder = self._jobs.get(self._holders.get(key, row.new.id), row)
        if holder.has_key(now):
            return KeyHolder(*key, holder.new.id, holder.state_at(now))
        self._holders[key] = row.new.id
        return None

    @verb(Access.WRITE)
    def pause(self, queue: str) -> None:
        self._paused_at.setdefault(queue, self._clock.now())

    @verb(Access.WRITE, wakes=True)
    def resume(self, queue: str) -> None:
        self._paused_at.pop(queue, None)

    @verb(Access.READ)
    def queues(self) -> tuple[Queue, ...]:
        now = self._clock.now()
        states: dict[str, Counter[State]] = {name: Counter() for name in self._paused_at}
        for row in self._jobs.values():
            states.setdefault(row.new.queue, Counter())[row.state_at(now)] += 1
        return tuple(Queue(name, self._paused_at.get(name), dict(states[name])) for name in sorted(states))

    @verb(Access.READ)
    def workers(self) -> tuple[Worker, ...]:
        return self._view_workers()

    @verb(Access.READ)
    def queue_ages(self) -> QueueAges:
        now = self._clock.now()
        oldest: dict[str, datetime] = {}
        unknown: dict[tuple[str, str, int], datetime] = {}
        for row in self._jobs.values():
            if row.state_at(now) is State.READY:
                oldest[row.new.queue] = min(oldest.get(row.new.queue, row.run_at), row.run_at)
            elif row.state is State.BLOCKED and row.reason == Reason.NO_WORKER and row.run_at <= now:
                kind = row.new.queue, row.new.task, row.new.version
                unknown[kind] = min(unknown.get(kind, row.run_at), row.run_at)
        ages = (QueueAge(name, oldest[name], self._paused_at.get(name)) for name in sorted(oldest))
        return QueueAges(now, tuple(ages), tuple(UnknownAge(*kind, unknown[kind]) for kind in sorted(unknown)))

    @verb(Access.READ)
    def situation(self, job_id: str) -> Situation | None:
        row, now = self._jobs.get(job_id), self._clock.now()
        if row is None:
            return None
        first = [
            other
            for other in self._jobs.values()
            if other.new.queue == row.new.queue and other.state_at(now) is State.READY and other.order < row.order
        ]
        ahead = len(first) if row.state in WAITING else 0
        paused_at = self._paused_at.get(row.new.queue)
        return Situation(row.view(now), now, paused_at, self._view_workers(), ahead)

    @verb(Access.READ)
    def unsettled(self, queues: tuple[str, ...] | None) -> int:
        rows = (row for row in self._jobs.values() if queues is None or row.new.queue in queues)
        return sum(self._is_unsettled(row) for row in rows)

    def _is_unsettled(self, row: JobRow) -> bool:
        state = row.state_at(self._clock.now())
        if state is State.READY:
            return row.new.queue not in self._paused_at
        return state in CLAIMED or (state is State.SCHEDULED and row.fence > 0 and not is_suspended(row.reason))
