"""What workers ask of the memory store: claims, and the fenced writes of a claim."""

import math
from collections.abc import Iterator, Sequence
from datetime import datetime
from functools import partial

from standfast.model.job import ClaimRef, Ending, Progress, Verdict
from standfast.model.memos import Save, signal_name
from standfast.model.states import FINAL, MOVES, STARTED_ITS_LAST, Move, Reason, State
from standfast.stores.claims import Candidate, check, choose_due
from standfast.stores.memory.rows import JobRow, Tables, in_one_step, verb
from standfast.stores.refusals import buried_worker
from standfast.stores.rows import later
from standfast.stores.values import ClaimAnswer, ClaimRequest
from standfast.stores.verb import Access, Finished, Verb, finishing


class ClaimVerbs(Tables):
    """Claim, start, report, save, finish."""

    @verb(Access.WRITE)
    def claim(self, request: ClaimRequest) -> ClaimAnswer:
        if request.worker not in self._workers:
            raise buried_worker(request.worker)
        now = self._clock.now()
        self._put_aside(request, now)
        self._unblock_suspects(request)
        due = [
            Candidate(row.new.queue, row.new.priority, row.run_at, row.arrival, own=row)
            for row in self._open_rows(request)
            if row.run_at <= now
        ]
        long_ago = None if request.max_wait is None else now - request.max_wait / 2
        chosen = [each.own for each in choose_due(request, self._open_queues(request), due, long_ago)]
        chosen += self._ahead(request, now)
        jobs = tuple(row.give_to(request.worker, request.call) for row in chosen)
        left = (row.run_at for row in self._open_rows(request) if row.state is State.SCHEDULED)
        return ClaimAnswer(jobs, now, min(left, default=None))

    def _put_aside(self, request: ClaimRequest, now: datetime) -> None:
        oldest = {task.name: task.version for task in request.unknown}
        queues = self._open_queues(request) if oldest else ()
        for row in self._jobs.values():
            is_meant = row.new.queue in queues and row.new.version >= oldest.get(row.new.task, math.inf)
            if is_meant and row.group == request.group and row.state_at(now) is State.READY:
                row.block(Reason.NO_WORKER)

    def _unblock_suspects(self, request: ClaimRequest) -> None:
        queues = set(self._open_queues(request))
        for row in self._jobs.values():
            if row.group and row.new.queue in queues and _is_adopted(request, row):
                row.wait(row.run_at)

    def _ahead(self, request: ClaimRequest, now: datetime) -> list[JobRow]:
        if request.group:
            return []
        rows = [
            row
            for row in self._open_rows(request)
            if now < row.run_at <= now + request.look_ahead and signal_name(row.reason) is None
        ]
        return sorted(rows, key=lambda row: (row.run_at, row.order))[: request.ahead_limit]

    def _open_queues(self, request: ClaimRequest) -> list[str]:
        every = sorted({row.new.queue for row in self._jobs.values()})
        asked = every if request.queues is None else dict.fromkeys(request.queues)
        return request.in_turn(
            [queue for queue in asked if queue not in self._paused_at and queue not in request.closed]
        )

    def _open_rows(self, request: ClaimRequest) -> Iterator[JobRow]:
        queues = set(self._open_queues(request))
        return (
            row
            for row in self._jobs.values()
            if row.new.queue in queues and row.group == request.group and _is_open_to(request, row)
        )

    @verb(Access.WRITE)
    def start(self, worker: str, started: Sequence[tuple[ClaimRef, datetime]]) -> tuple[Verdict, ...]:
        return tuple(self._start(worker, ref, started_at) for ref, started_at in started)

    def _start(self, worker: str, ref: ClaimRef, started_at: datetime) -> Verdict:
        row = self._claimed_by(worker, ref)
        if row is None:
            return Verdict.STALE
        row.state = MOVES[Move.START].target
        row.claims[-1].started_at = started_at
        return Verdict.ACCEPTED

    @verb(Access.WRITE, tells=True)
    def progress(self, worker: str, reports: Sequence[tuple[ClaimRef, Progress]]) -> tuple[Verdict, ...]:
        return tuple(self._progress(worker, ref, progress) for ref, progress in reports)

    def _progress(self, worker: str, ref: ClaimRef, progress: Progress) -> Verdict:
        row = self._claimed_by(worker, ref)
        if row is None:
            return Verdict.STALE
        row.progress = progress
        return Verdict.ACCEPTED

    @verb(Access.WRITE)
    def save(self, worker: str, saves: Sequence[Save]) -> tuple[Verdict, ...]:
        return tuple(self._save(worker, save) for save in saves)

    def _save(self, worker: str, save: Save) -> Verdict:
        row = self._claimed_by(worker, save.ref)
        if row is None:
            return Verdict.STALE
        row.write_down(save)
        return Verdict.ACCEPTED

    def finish(self, worker: str, endings: Sequence[Ending]) -> Verb[tuple[Verdict, ...]]:
        return finishing(endings, partial(in_one_step, partial(self._finish, worker, endings)))

    def _finish(self, worker: str, endings: Sequence[Ending]) -> Finished:
        check(endings)
        outcomes = [self._end(worker, ending) for ending in endings]
        return tuple(verdict for verdict, _ in outcomes), any(frees for _, frees in outcomes)

    def _end(self, worker: str, ending: Ending) -> tuple[Verdict, bool]:
        """End a claim; tell the verdict, and whether a job that waited for this end is free now."""
        row = self._jobs.get(ending.ref.job_id)
        if row is not None and row.is_claim(worker, ending.ref):
            _end(row, ending, self._clock.now())
            return Verdict.ACCEPTED, self._free_follower(row)
        recorded = row is not None and row.was_finished(worker, ending.ref)
        return Verdict.ACCEPTED if recorded else Verdict.STALE, False


def _is_open_to(request: ClaimRequest, row: JobRow) -> bool:
    if row.state is State.SCHEDULED:
        return row.new.task not in request.closed_tasks
    return _is_adopted(request, row)


def _is_adopted(request: ClaimRequest, row: JobRow) -> bool:
    if row.state is not State.BLOCKED or row.reason != Reason.NO_WORKER:
        return False
    return any(row.new.task == task.name and row.new.version <= task.version for task in request.adopt)


def _end(row: JobRow, ending: Ending, now: datetime) -> None:
    move = row.settle(ending.move)
    rule = MOVES[move]
    _record(row, ending, move, now)
    row.attempt += rule.charges
    if move is Move.CANCEL and move is not ending.move:
        row.give_up(now)
    elif rule.target in FINAL:
        row.end(rule.target, now, ending.reason)
        row.result = ending.result
        if move is Move.COMPLETE and ending.keep_result is not None:
            row.result_until = later(now, ending.keep_result)
    elif rule.target is State.BLOCKED:
        row.block(ending.reason)
    elif rule.target is State.SCHEDULED:
        _suspend(row, ending, now)
    else:
        row.wait(row.run_at)


def _suspend(row: JobRow, ending: Ending, now: datetime) -> None:
    """Let it wait for its time, or not at all where the signal that it wants has come."""
    wanted = signal_name(ending.reason)
    if wanted is not None and row.has_signal(wanted):
        row.wait(now)
    else:
        row.wait(later(now, ending.delay), ending.reason)


def _record(row: JobRow, ending: Ending, move: Move, now: datetime) -> None:
    failure = ending.failure
    error = None if failure is None else str(failure)
    if move is Move.DIE and move is not ending.move:
        error = error or STARTED_ITS_LAST
    claim = row.close_claim(now, move, error)
    claim.by_finish = True
    claim.traceback = None if failure is None else failure.traceback
    claim.log = ending.log
    claim.started_at = ending.started_at or claim.started_at
    if error is not None or move is Move.COMPLETE:
        row.error = error
