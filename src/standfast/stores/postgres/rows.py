"""Rows of PostgreSQL, and what a process remembers between claims: levels, marks, expectations.

Text that we write ourselves about what happened, made so that the server can keep it.

PostgreSQL's text holds no NUL, and no half of a surrogate pair. An error message or a traceback may have either,
and must not be lost for it: NUL becomes its picture, and half a pair its number.
"""

import json
import re
import time
from collections import defaultdict
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from operator import itemgetter
from typing import NamedTuple, TypeAlias

import msgspec

from standfast.model.clock import Clock
from standfast.model.job import Claim, ClaimRef, Glance, OnLate
from standfast.model.states import State
from standfast.stores.claims import Candidate
from standfast.stores.rows import (
    DAMAGES,
    from_micros,
    read_each,
    span_from_micros,
    span_to_micros,
    to_micros,
    unreadable_claim,
)
from standfast.stores.statements import NO_METADATA, Row, read_metadata, to_progress, to_worker_info
from standfast.stores.values import ClaimRequest, Worker, read_vitals

_NUL, _PICTURE = "\0", "\N{SYMBOL FOR NULL}"


def readable(text: str | None) -> str | None:
    """Return the text, with signs that can be kept in place of those that cannot."""
    if text is None:
        return None
    return text.replace(_NUL, _PICTURE).encode("utf-8", "backslashreplace").decode()


# What all verbs of this store share: the named statements, and whose time it is.

_JOB_ID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")


class PostgresVerbs:
    """Base of the groups of verbs. Time is the server's own, unless a clock is given, as in tests."""

    def __init__(self, statements: Mapping[str, str], clock: Clock | None) -> None:
        self._sql = statements
        self._clock = clock

    def _given_now(self) -> int | None:
        """Return what statements pass to `standfast.present()`: NULL for the server's time."""
        return None if self._clock is None else to_micros(self._clock.now())


def is_id(text: str) -> bool:
    """Tell whether a text can be the id of a job; the server would refuse any other as a uuid."""
    return _JOB_ID.fullmatch(text) is not None


# From rows to the values that others see. What depends on the time was decided by the statements.


def to_glance(row: Row) -> Glance:
    """Return the glance at the state and progress that `glance` selects."""
    state, *progress = row
    return Glance(State(state) if state in set(State) else State.DEAD, to_progress(*progress))


def to_worker(row: Row) -> Worker:
    """Return the worker that `worker_rows` select."""
    _, *who, started_at, beat_age, condemned, held, running, vitals = row
    age = span_from_micros(beat_age)
    return Worker(to_worker_info(who), from_micros(started_at), age, condemned, held, running, read_vitals(vitals))


# What this process knows of levels: the pairs of queue and priority that jobs have.
#
# An enqueue has to see to it that the level of its jobs is in the table, or nobody would claim them; most of the time
# it is known to be. A level is remembered once it was seen committed, and for a time only: after a failover that lost
# the newest commits it might be gone. A claim wants to know whether priorities meet in its queues.
#
# Every claim looks at every level, so those that no job needs any more are forgotten, row by row (`forget_levels`):
#
#     unmarked ──► marked since a time ──► marked, and waits for all transactions before an xid ──► deleted
#
# A level is needed by jobs that are fresh, wait or are claimed. Jobs that are over need none: who revives one sees to
# its level. A row is deleted only where no job that the statement sees needs it, or where the level has an unmarked
# row. The danger is a job that this statement does not see yet, and that brings no row of its own:
#
#     Its enqueuer looked for the level when all rows were marked, or may have looked at an old snapshot
#                     Then it has inserted an unmarked row together with the job.
#     It remembered the level from a look before the last row was marked
#                     It may do so for REMEMBERED_FOR. The row is marked for ten times as long before it goes on to
#                     the next step, and from then on waits for all transactions that had begun. So that enqueue has
#                     committed, and its job is seen, or it was rolled back.
#     It remembered the level from a look at an unmarked row
#                     That row is there, or was marked later: see above.
#     The job comes back: from a claim, a pause, a block
#                     It was claimed, or waited, in the eyes of the statement: one statement moves a job, and each
#                     looks at one moment.
#
# What remains is a process that stands still for minutes between its decision and its message, or an enqueuer of a
# release that does not know marks: its job is found by the next claim that walks everything (marks.py), which makes
# the level anew.

REMEMBERED_FOR = 30.0
"""Seconds after which a level is looked for again."""

MARKED_FOR = 300
"""Seconds for which a level that no job needs is marked before it may be forgotten."""

MOST_LEVELS = 100
"""Up to so many levels none is forgotten: claims are quick, and they may be needed again."""

MANY_LEVELS = 1000
"""More than so many are worth a warning."""

Level: TypeAlias = tuple[str, int]
"""A queue and a priority in it."""


class Levels:
    """The levels that this process has met. Any thread may use it."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self.forget()

    def forget(self) -> None:
        """Know nothing any more, as after the server was lost from sight."""
        self._seen_at: dict[Level, float] = {}
        self._met: defaultdict[str, set[int]] = defaultdict(set)
        self._asked = set[tuple[str, ...] | None]()

    def doubtful(self, levels: Iterable[Level]) -> list[Level]:
        """Return those of the levels of an enqueue that it has to see to, each once."""
        long_ago = self._monotonic() - REMEMBERED_FOR
        doubtful = [level for level in dict.fromkeys(levels) if self._seen_at.get(level, long_ago) <= long_ago]
        self._meet(doubtful)
        return doubtful

    def learn(self, levels: Iterable[Level]) -> None:
        """Note that an enqueue has seen these committed."""
        now = self._monotonic()
        if len(self._seen_at) > MANY_LEVELS:
            seen_at = self._seen_at.copy().items()
            self._seen_at = {level: seen for level, seen in seen_at if seen > now - REMEMBERED_FOR}
        self._seen_at.update(dict.fromkeys(levels, now))

    def meet(self, queues: tuple[str, ...] | None, levels: Iterable[Level]) -> None:
        """Note which levels a claim has found in the queues that it asked for, None for every queue."""
        self._asked.add(queues)
        self._meet(levels)

    def are_apart(self, queues: tuple[str, ...] | None) -> bool:
        """Tell whether none of these queues has jobs of different priorities, as far as claims have seen."""
        met = self._met.copy()
        named = met if queues is None else queues
        return queues in self._asked and all(len(met.get(queue, ())) <= 1 for queue in named)

    def _meet(self, levels: Iterable[Level]) -> None:
        for queue, priority in levels:
            self._met[queue].add(priority)


# From where on the fresh jobs of each level are to be walked.
#
# Who takes jobs leaves dead entries in the index behind, and while some transaction still sees an old snapshot,
# nothing can clear them away. A mark lets the next claim begin behind them. It is an xid: every transaction before it
# had ended when the mark was set (`pg_snapshot_xmin`), and of what those had enqueued all was taken, or locked by
# someone who was taking it (or is of a task that is closed to the claims whose marks these are). Such a one may roll
# back: so from time to time everything is walked again, without marks.
# While an old snapshot is held open that takes long, and is then done the less often.

SWEEP_EVERY = 15.0
LONGEST_PAUSE = 300.0
"""Seconds after which a claim walks everything again, at least and at most."""

SHARE = 0.01
"""Which part of the time may go into walks of everything."""

Noted: TypeAlias = dict[Level, int]
"""Marks as a claim takes them along. What it learns is noted in the same object: once that is forgotten, so is all
that a claim learns which began before, on what may be another server."""


class Marks:
    """The marks of one process. Any thread may use them."""

    def __init__(self, sweep_every: float = SWEEP_EVERY, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._sweep_every = sweep_every
        self._monotonic = monotonic
        self._swept_at = monotonic()
        self._pause = sweep_every
        self._noted: Noted = {}
        self._walks: Noted | None = None

    def forget(self) -> None:
        """Begin at the front again: the server was lost from sight, and another may have taken its place."""
        self._noted = {}

    @property
    def noted(self) -> Noted:
        """The marks as they are."""
        return self._noted

    def begin(self) -> Noted:
        """Return the marks for a claim that begins now: none, if it is time to walk everything again."""
        now = self._monotonic()
        if now - self._swept_at >= self._pause:
            self._swept_at = now
            self.forget()
            self._walks = self._noted
        return self._noted

    def walked(self, noted: Noted) -> None:
        """Note that a claim has come to its end: if it was to walk everything, how long it took counts."""
        if noted is self._walks:
            self._walks = None
            took = self._monotonic() - self._swept_at
            self._pause = max(self._sweep_every, min(took / SHARE, LONGEST_PAUSE))


def as_json(noted: Noted, queues: Container[str] | None) -> str:
    """Return the marks of these queues, None for every queue, as the statements take them."""
    marks = noted.copy().items()
    return json.dumps(
        {f"{priority} {queue}": mark for (queue, priority), mark in marks if queues is None or queue in queues}
    )


def note(noted: Noted, xmin: int, taken: Iterable[tuple[Level, int]], empty: Iterable[Level]) -> None:
    """Note what a claim learned from a snapshot of this xmin: how far it took jobs, and which levels had none.

    A mark beyond xmin was set on another server, and would come to mean something again as this one grows older.
    """
    for level in [level for level, mark in noted.copy().items() if mark > xmin]:
        noted.pop(level, None)
    furthest: Noted = {}
    for level, mark in taken:
        furthest[level] = max(mark, furthest.get(level, 0))
    noted.update(furthest)
    noted.update(dict.fromkeys(empty, xmin))


# From the rows of a claim to what the worker gets, and what the next claim is to know.

# Claims are made in the hot path, and an enum's members are slow to get.
_RUN = OnLate.RUN

_SEQ, _ID, _QUEUE, _PRIORITY, _RUN_AT, _MARK = 4, 5, 10, 11, 12, 19


class Walked(msgspec.Struct, frozen=True):
    """What the first row of a claim tells of the levels that it walked, in their order.

    `waiting_at` is when the first job becomes due that is not fresh. The signature changes whenever a level comes
    or goes, or a queue is paused or resumed.
    """

    signature: str
    all: tuple[tuple[str, int, bool], ...] | None = msgspec.field(name="levels")
    waiting_at: int | None

    @property
    def levels(self) -> tuple[Level, ...]:
        """The levels."""
        return tuple((queue, priority) for queue, priority, _ in self.all or ())

    @property
    def empty(self) -> tuple[Level, ...]:
        """Those of them that had no fresh jobs."""
        return tuple((queue, priority) for queue, priority, is_empty in self.all or () if is_empty)

    @property
    def queues(self) -> tuple[str, ...]:
        """The queues in their order."""
        return tuple(dict.fromkeys(queue for queue, _ in self.levels))


to_walked = msgspec.json.Decoder(Walked).decode


class Found(msgspec.Struct, frozen=True, array_like=True):
    """What the first row of `claim_fresh` tells."""

    now: int
    xmin: str
    as_expected: bool
    empty: tuple[int, ...]
    """The places, from 1 on, of the levels that had no fresh jobs."""
    next_due_at: int | None


to_found = msgspec.json.Decoder(Found).decode


def marks_of(rows: Iterable[Row]) -> Iterable[tuple[Level, int]]:
    """Return how far the fresh jobs of each level were taken."""
    taken = {(row[_QUEUE], row[_PRIORITY], row[_MARK]) for row in rows}
    return [((queue, priority), int(mark)) for queue, priority, mark in taken if mark is not None]


def in_order(rows: Iterable[Row], queues: Sequence[str], now: int) -> list[Row]:
    """Return rows as a claim answers them: the due ones by queue and priority, then those ahead by their time."""
    place = {queue: number for number, queue in enumerate(queues)}

    def order(row: Row) -> tuple[int, ...]:
        run_at, seq, priority = row[_RUN_AT], row[_SEQ], -row[_PRIORITY]
        if run_at > now:
            return (1, run_at, priority, seq)
        return (0, place[row[_QUEUE]], priority, run_at, seq)

    return sorted(rows, key=order)


def as_chosen(rows: Iterable[Row], chosen: Sequence[Candidate]) -> list[Row]:
    """Return rows that are in order with the chosen ones first, in the order in which they were chosen."""
    place = {candidate.arrival: number for number, candidate in enumerate(chosen)}
    return sorted(rows, key=lambda row: place.get(row[_SEQ], len(place)))


def fresh_in_order(rows: list[Row], levels: Sequence[Level]) -> list[Row]:
    """Return rows of `claim_fresh`, sorted in their place, as a claim answers them."""
    rows.sort(key=_BY_TIME)
    if len(levels) > 1:
        place = {level: number for number, level in enumerate(levels)}
        rows.sort(key=lambda row: place[row[1], row[2]])
    return rows


_BY_TIME = itemgetter(3, 4)


def fresh_marks(rows: Iterable[Row], xmin: int) -> Iterable[tuple[Level, int]]:
    """Return how far the fresh jobs of each level were taken, by the rows of `claim_fresh`."""
    taken = {(queue, priority, xid) for _, queue, priority, _, _, xid, *_ in rows}
    return [((queue, priority), min(int(xid), xmin)) for queue, priority, xid in taken]


def to_fresh_claims(rows: Sequence[Row]) -> tuple[Claim, ...]:
    """Return the claims that the rows of `claim_fresh` tell of, in their order."""
    try:
        return _to_fresh_claims(rows)
    except DAMAGES:
        return tuple(
            read_each(_to_fresh_claims, rows, lambda row, error: unreadable_claim(row[-1], 1, row[1], error))
        )


def _to_fresh_claims(rows: Sequence[Row]) -> tuple[Claim, ...]:
    return tuple(
        Claim(
            ClaimRef(id_, 1),
            task,
            version,
            payload,
            queue,
            priority,
            from_micros(run_at),
            0,
            0,
            max_attempts,
            None if start_by is None else from_micros(start_by),
            _RUN if on_late is None else OnLate(on_late),
            NO_METADATA if metadata is None else read_metadata(metadata),
        )
        for (
            _,
            queue,
            priority,
            run_at,
            _,
            _,
            task,
            version,
            payload,
            max_attempts,
            start_by,
            on_late,
            metadata,
            id_,
        ) in rows
    )


def to_claims(rows: Sequence[Row]) -> tuple[Claim, ...]:
    """Return the claims that `claims` tell of, in the order of the rows."""
    try:
        return _to_claims(rows)
    except DAMAGES:
        return tuple(read_each(_to_claims, rows, _unreadable))


def _unreadable(row: Row, error: Exception) -> Claim:
    return unreadable_claim(row[_ID], row[_ID + 1], row[_QUEUE], error)


def _to_claims(rows: Sequence[Row]) -> tuple[Claim, ...]:
    return tuple(
        Claim(
            ClaimRef(id_, fence),
            task,
            version,
            payload,
            queue,
            priority,
            from_micros(run_at),
            attempt,
            crashes,
            max_attempts,
            None if start_by is None else from_micros(start_by),
            _RUN if on_late is None else OnLate(on_late),
            NO_METADATA if metadata is None else read_metadata(metadata),
        )
        for (
            _,
            _,
            _,
            _,
            _,
            id_,
            fence,
            task,
            version,
            payload,
            queue,
            priority,
            run_at,
            attempt,
            crashes,
            max_attempts,
            start_by,
            on_late,
            metadata,
            _,
        ) in rows
    )


# What a claim expects to find, from what the one before it found.
#
# A server takes longer to set up the statement for all that a claim may meet than to run it. So a process remembers
# the levels of the queues that it asks for, and mostly asks for their fresh jobs alone. Whether there is something
# else to heed is seen by that same statement, which then gives nothing.

_Queues = tuple[tuple[str, ...] | None, tuple[str, ...]]
"""Which queues a claim asks for, None for every one, and which of them are closed to it."""


class _Seen(NamedTuple):
    """The priorities of each queue, the higher first, as they were when all of them had this signature."""

    priorities: dict[str, list[int]]
    signature: str
    noted: Noted
    """The marks of that time. Where they are forgotten, so is this."""


class Expected(NamedTuple):
    """The levels that a claim expects, in the order in which it tries them, and their signature."""

    levels: list[Level]
    signature: str


class Expectations:
    """What the claims of one process expect. Any thread may use it."""

    def __init__(self) -> None:
        self._seen: dict[_Queues, _Seen] = {}

    def learn(self, request: ClaimRequest, noted: Noted, walked: Walked, now: int) -> None:
        """Note what a claim found that looked at everything, unless the next will find more than fresh jobs."""
        if walked.waiting_at is not None and walked.waiting_at <= now + horizon(request):
            self._seen.pop(_queues(request), None)
            return
        priorities = defaultdict[str, list[int]](list)
        for queue, priority in walked.levels:
            priorities[queue].append(priority)
        self._seen[_queues(request)] = _Seen(priorities, walked.signature, noted)

    def of(self, request: ClaimRequest, noted: Noted) -> Expected | None:
        """Return what a claim may expect, if anything."""
        seen = self._seen.get(_queues(request))
        if seen is None or seen.noted is not noted:
            return None
        queues = sorted(seen.priorities) if request.queues is None else list(seen.priorities)
        levels = [(queue, each) for queue in request.in_turn(queues) for each in seen.priorities[queue]]
        return Expected(levels, seen.signature)

    def forget(self, request: ClaimRequest) -> None:
        """Expect nothing of these queues: it came differently."""
        self._seen.pop(_queues(request), None)


def _queues(request: ClaimRequest) -> _Queues:
    return request.queues, request.closed


def horizon(request: ClaimRequest) -> int:
    """Return within which time a claim takes jobs that are not due yet."""
    return span_to_micros(request.look_ahead) if request.ahead_limit > 0 else 0


# What one process remembers of its server from call to call, to ask for less.

_MOST_PAST = 100
"""So many sets of closed tasks are remembered."""


class RememberingVerbs(PostgresVerbs):
    """Base of the verbs that remember. Nothing of it is needed to be right: it may be forgotten at any moment."""

    def __init__(self, statements: Mapping[str, str], clock: Clock | None, marks: Marks | None = None) -> None:
        super().__init__(statements, clock)
        self._levels = Levels()
        self._marks = marks or Marks()
        self._marks_past: dict[tuple[str, ...], Marks] = {}
        self._expectations = Expectations()
        self._marks_of_looks = Marks()

    def forget_server(self) -> None:
        """Forget everything: after an error, or on a new connection, it may be another server that answers."""
        self._levels.forget()
        self._marks.forget()
        self._marks_past.clear()
        self._marks_of_looks.forget()

    def _marks_for(self, request: ClaimRequest) -> Marks:
        """Return the marks for a claim: where tasks are closed, marks of its own, which go past their jobs."""
        if not request.closed_tasks:
            return self._marks
        if len(self._marks_past) >= _MOST_PAST:
            self._marks_past.clear()
        return self._marks_past.setdefault(request.closed_tasks, Marks())
