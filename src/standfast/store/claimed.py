"""A claim that is about to end, and what its end will be. Pure: SQL stores read the row and write the end."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from standfast.core.crash import Aftermath, Orphan
from standfast.core.job import ClaimRef, Ending
from standfast.core.states import ENDINGS, MOVES, STARTED_ITS_LAST, Move, Reason, State, settle
from standfast.store.times import span_to_micros, to_micros_or_none


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
