"""What every store decides alike: who goes first, how claims end, what a beat brings back.

Which due jobs a claim takes: each queue's share first, and in every second place those that waited long.

Shared by the stores that choose in Python among rows of their own.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from itertools import chain, zip_longest
from typing import Any, NamedTuple

from standfast.model.crash import Aftermath, Orphan
from standfast.model.job import ClaimRef, Ending
from standfast.model.states import ENDINGS, MOVES, STARTED_ITS_LAST, Move, Reason, State, settle
from standfast.stores.rows import span_to_micros, to_micros_or_none
from standfast.stores.values import ClaimRequest, Turn, WorkerBeat, priorities_in_turn


class Candidate(NamedTuple):
    """A due job that may be chosen. Its time is in whatever way its store tells times."""

    queue: str
    priority: int
    run_at: Any
    """Since when it is due."""
    arrival: int
    """Its number in the order of arrival, which no other job has."""
    own: Any = None
    """What its store knows of it besides."""


def choose_due(
    request: ClaimRequest, queues: Sequence[str], due: Iterable[Candidate], long_ago: Any
) -> list[Candidate]:
    """Return at most `limit` of the due jobs, in the order in which the queues give them.

    A job that is due since `long_ago` or longer has waited for long; None where that makes no difference.
    """
    waiting: dict[str, list[Candidate]] = defaultdict(list)
    for row in sorted(due, key=_order):
        waiting[row.queue].append(row)
    visit = request.visit(queues)
    lines = {queue: _Line(visit, waiting[queue], long_ago) for queue in queues}
    chosen: list[Candidate] = []
    for queue, most in request.portions(queues):
        chosen += lines[queue].give(min(most, request.limit - len(chosen)))
    return chosen


def _order(row: Candidate) -> tuple[int, Any, int]:
    return (-row.priority, row.run_at, row.arrival)


class _Line:
    """The due jobs of one queue in one call. Its places go on where the queue is asked a second time."""

    def __init__(self, visit: int, waiting: list[Candidate], long_ago: Any) -> None:
        self._place = visit
        self._left = len(waiting)
        self._urgent = iter(waiting)
        self._starved = _starved(visit, waiting, long_ago)
        self._given = set[int]()

    def give(self, places: int) -> list[Candidate]:
        """Return the next jobs: in every second place a starved one, as long as there are any."""
        return [self._next() for _ in range(min(places, self._left))]

    def _next(self) -> Candidate:
        in_turn = chain(self._starved, self._urgent) if self._place % 2 else self._urgent
        row = next(row for row in in_turn if row.arrival not in self._given)
        self._given.add(row.arrival)
        self._place += 1
        self._left -= 1
        return row


def _starved(visit: int, waiting: list[Candidate], long_ago: Any) -> Iterator[Candidate]:
    """Return those that have waited for long, their priorities taking turns."""
    if long_ago is None:
        return iter(())
    by_priority: dict[int, list[Candidate]] = defaultdict(list)
    for row in waiting:
        if row.run_at <= long_ago:
            by_priority[row.priority].append(row)
    turns = zip_longest(*(by_priority[priority] for priority in priorities_in_turn(by_priority, visit)))
    return (row for turn in turns for row in turn if row is not None)


# A claim that is about to end, and what its end will be. Pure: SQL stores read the row and write the end.


class EndedBy(StrEnum):
    """Who ended a claim; only a worker's own finish may be repeated."""

    FINISH = "finish"
    RECONCILE = "reconcile"
    BURIAL = "burial"


class ClaimedRow(NamedTuple):
    """A claimed job with all that decides how it ends."""

    seq: int
    id: str
    fence: int
    worker: str
    call: int
    state: str
    run_at: int
    attempt: int
    crashes: int
    max_attempts: int
    group: int
    cancel_requested: int
    started_at: int | None
    error: str | None
    queue: str
    task: str
    key: str | None
    replaced: int

    @property
    def ref(self) -> ClaimRef:
        """Which claim this is."""
        return ClaimRef(self.id, self.fence)

    def settle(self, move: Move) -> Move:
        """Return the move to record when someone ends this claim with one."""
        last_chance = self.max_attempts == 1 and self.state == State.RUNNING
        return settle(
            move,
            cancel_requested=bool(self.cancel_requested),
            replaced=bool(self.replaced),
            last_chance=last_chance,
        )

    def reason_of(self, state: State) -> str | None:
        """Return the reason of an end that was not its worker's own choice."""
        if state is not State.CANCELLED:
            return None
        return Reason.REQUESTED.value if self.cancel_requested else Reason.REPLACED.value

    def orphaned(self, crashes_alone: int) -> Orphan:
        """Return the claim as its dead worker leaves it behind."""
        return Orphan(
            ref=self.ref,
            state=State(self.state),
            attempt=self.attempt,
            crashes=self.crashes,
            max_attempts=self.max_attempts,
            group=self.group,
            cancel_requested=bool(self.cancel_requested),
            replaced=bool(self.replaced),
            crashes_alone=crashes_alone,
        )


@dataclass(frozen=True, slots=True)
class End:
    """The end of one claim: where its job goes, and what the history says. `row` has the job's new numbers."""

    row: ClaimedRow
    state: State
    how: str
    by: EndedBy
    reason: str | None = None
    result: bytes | None = None
    result_until: int | None = None
    attempt_error: str | None = None
    traceback: str | None = None
    log: str | None = None


def is_plain_success(ending: Ending) -> bool:
    """Tell whether an ending is a completion with nothing to tell but its result and when it started."""
    is_silent = ending.failure is None and ending.log is None and ending.reason is None
    return ending.move is Move.COMPLETE and is_silent


def check(endings: Iterable[Ending]) -> None:
    """Refuse moves that end no claim. Raises ValueError."""
    for ending in endings:
        if ending.move not in ENDINGS:
            raise ValueError(f"{ending.move} does not end a claim; one of these does: {', '.join(sorted(ENDINGS))}")


def finished(row: ClaimedRow, ending: Ending, now: int) -> End:
    """Return the end that a claim comes to when its worker ends it."""
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
        reason=ending.reason if move is ending.move else row.reason_of(rule.target),
        result=ending.result,
        result_until=_result_until(ending, move, now),
        attempt_error=error,
        traceback=None if failure is None else failure.traceback,
        log=ending.log,
    )


def released(row: ClaimedRow) -> End:
    """Return the end of a claim that its worker never named."""
    move = row.settle(Move.RELEASE)
    rule = MOVES[move]
    error = STARTED_ITS_LAST if move is Move.DIE else None
    row = row._replace(attempt=row.attempt + rule.charges, error=error or row.error)
    return End(row, rule.target, move.value, EndedBy.RECONCILE, row.reason_of(rule.target), attempt_error=error)


def buried(row: ClaimedRow, fate: Aftermath, evidence: str) -> End:
    """Return the end of a claim whose worker is dead."""
    row = row._replace(
        attempt=fate.attempt,
        crashes=fate.crashes,
        group=fate.group,
        error=(evidence or STARTED_ITS_LAST) if fate.state is State.DEAD else row.error,
    )
    reason, harm = row.reason_of(fate.state), fate.harm(evidence)
    return End(row, fate.state, fate.how, EndedBy.BURIAL, reason, attempt_error=harm)


def _result_until(ending: Ending, settled: Move, now: int) -> int | None:
    if settled is not Move.COMPLETE or ending.keep_result is None:
        return None
    return now + span_to_micros(ending.keep_result)


def _error(ending: Ending, settled: Move) -> str | None:
    if ending.failure is not None:
        return str(ending.failure)
    return STARTED_ITS_LAST if settled is Move.DIE and settled is not ending.move else None


# What a beat has to say about the claims of the workers that beat. Pure.


class HeldRow(NamedTuple):
    """A claim, as a beat looks at it."""

    worker: str
    job_id: str
    fence: int
    call: int
    cancel_requested: int
    replaced: int


@dataclass(frozen=True, slots=True)
class ClaimsHeld:
    """The claims to give up, by worker, and the workers with claims that they did not name."""

    revoked: dict[str, tuple[ClaimRef, ...]]
    replaced: dict[str, tuple[ClaimRef, ...]]
    unnamed: frozenset[str]


def claims_held(beats: Collection[WorkerBeat], rows: Iterable[HeldRow]) -> ClaimsHeld:
    """Sort out the claims of the workers that beat; those of others are left out."""
    by_worker = {beat.worker: beat for beat in beats}
    revoked: defaultdict[str, tuple[ClaimRef, ...]] = defaultdict(tuple)
    replaced: defaultdict[str, tuple[ClaimRef, ...]] = defaultdict(tuple)
    unnamed: set[str] = set()
    for row in rows:
        ref, beat = ClaimRef(row.job_id, row.fence), by_worker.get(row.worker)
        if beat is None:
            continue
        if row.cancel_requested:
            revoked[row.worker] += (ref,)
        if row.replaced:
            replaced[row.worker] += (ref,)
        if row.call <= beat.closed_call and ref not in beat.held:
            unnamed.add(row.worker)
    return ClaimsHeld(revoked, replaced, frozenset(unnamed))


# The place of a worker among those that serve the same queues. Pure.


class Member(NamedTuple):
    """A living worker, as turns look at it. Its queues count as a set; None: every queue."""

    worker: str
    queues: Collection[str] | None
    polled_at: datetime | None


def turns(asking: Collection[str], living: Iterable[Member]) -> dict[str, Turn]:
    """Return the turn of each of those who ask, all of whom are among the living."""
    groups: defaultdict[frozenset[str] | None, list[Member]] = defaultdict(list)
    for member in living:
        groups[None if member.queues is None else frozenset(member.queues)].append(member)
    found: dict[str, Turn] = {}
    for group in groups.values():
        polled_at = max((member.polled_at for member in group if member.polled_at is not None), default=None)
        for rank, worker in enumerate(sorted(member.worker for member in group)):
            if worker in asking:
                found[worker] = Turn(rank, len(group), polled_at)
    return found
