"""Who holds the places of a lock and who waits for one, by the store's time. Pure.

A lock is a semaphore of one place. Its roll is the body of a record, so each change of it is compared and written
in one step. Who asks is given a place if one is free and it is its turn; else it may stand in line:

    asks ─► holds ─► renews … ─► gives back, or its time is over
      └─► in line ─┘ first at once, those behind it later, if those before it do not come

A place that is free belongs to the first in line. It may be dead, so those behind it may have it a little later:
after a while the second, then the next two, then the next four. So a whole line of dead ones is soon passed.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Annotated, Any

import msgspec
from msgspec.structs import replace

from standfast.errors import LockStateError, StoreUnavailableError
from standfast.model.records import Change, Kind, Record, forgetting, read_body, writing
from standfast.model.validation import as_seconds, is_finite, is_int, name_problems, refuse_any
from standfast.stores.contract import Store
from standfast.stores.rows import to_micros
from standfast.stores.values import DueRecords
from standfast.stores.verb import Verbs, procedure

LONGEST = timedelta(days=1)
"""Nobody is granted a place for so long: what says so is nonsense, or the clock of the store was set back."""

PRECEDENCE = timedelta(seconds=0.5)
"""So long a free place is left to those before one in line, before twice as many may have it."""

PLACE_KEPT = timedelta(seconds=15)
"""How long one who waits keeps its place in line without a sign of life."""

PASSED_KEPT = timedelta(seconds=3)
"""How long one keeps it that did not come for a place of its own: likely it is dead. If not, it looks soon."""

REMEMBERED = timedelta(days=30)
"""How long a lock is remembered after it was last given to somebody."""

LONGEST_LINE = 50
"""So many are in line; others look now and again whether there is room."""

Time = Annotated[datetime, msgspec.Meta(tz=True)]


class Holder(msgspec.Struct, frozen=True):
    """Who has a place, since when and until when, by which token; `owner` says in words who that is."""

    id: str
    token: int
    since: Time
    until: Time
    owner: str = ""


class Waiter(msgspec.Struct, frozen=True):
    """Who stands in line; `until` is when its place there ends."""

    id: str
    until: Time


class LockRequest(msgspec.Struct, frozen=True):
    """The wish for one of so many places, for so long at a time."""

    id: str
    ttl: timedelta
    places: int = 1
    owner: str = ""


class LockState(msgspec.Struct, frozen=True):
    """All that is known of a lock. `places` was asked for last; `freed_at` is when a place last became free."""

    places: int = 1
    last_token: int = 0
    holders: tuple[Holder, ...] = ()
    line: tuple[Waiter, ...] = ()
    freed_at: Time | None = None

    def holder(self, holder_id: str) -> Holder | None:
        """Return the entry of a holder."""
        return next((each for each in self.holders if each.id == holder_id), None)

    def rank(self, holder_id: str) -> int:
        """Return how many are before one in line, in which it may not be yet."""
        ids = [each.id for each in self.line]
        return ids.index(holder_id) if holder_id in ids else len(ids)

    def waits(self, holder_id: str) -> bool:
        """Tell whether one stands in line."""
        return any(each.id == holder_id for each in self.line)


def read_lock_state(record: Record | None, now: datetime) -> LockState:
    """Return what a record says now, without those whose time is over. Of one that means nothing, nothing is known.

    Even then tokens grow: see `next_token`. Who has a place in line for too long is not known either: the clock was
    set back, and the dead would stand there until it is where it was.
    """
    roll = LockState() if record is None else read_body(record, LockState) or LockState()
    holders = tuple(each for each in roll.holders if now < each.until <= now + LONGEST)
    line = tuple(each for each in roll.line if now < each.until <= now + 2 * PLACE_KEPT)
    ends = [each.until for each in roll.holders if each.until <= now]
    freed_at = max([*ends, *([roll.freed_at] if roll.freed_at is not None else [])], default=None)
    return replace(roll, holders=holders, line=line, freed_at=freed_at)


def next_token(roll: LockState, now: datetime) -> int:
    """Return the next token: the store's time in microseconds, but always more than the last one.

    A mere count would begin again where the store has lost its last writes, as a promoted replica may have.
    """
    return max(roll.last_token + 1, to_micros(now))


def granted(roll: LockState, bid: LockRequest, now: datetime) -> LockState | None:
    """Return the roll with the bidder as a holder, for its `ttl` from now; None where it has to wait."""
    own = roll.holder(bid.id)
    if own is not None:
        return renewed(roll, bid.id, now + bid.ttl)
    free = bid.places - len(roll.holders)
    if free < 1:
        return None
    behind = roll.rank(bid.id) - free + 1
    if behind > 0 and roll.freed_at is not None and now < roll.freed_at + behind.bit_length() * PRECEDENCE:
        return None
    holder = Holder(bid.id, next_token(roll, now), now, now + bid.ttl, bid.owner)
    passed, rest = roll.line[: max(behind, 0)], roll.line[max(behind, 0) :]
    line = (*(replace(each, until=min(each.until, now + PASSED_KEPT)) for each in passed), *rest)
    return replace(
        roll,
        places=bid.places,
        last_token=holder.token,
        holders=(*roll.holders, holder),
        line=tuple(each for each in line if each.id != bid.id),
    )


def in_line(roll: LockState, bid: LockRequest, now: datetime) -> LockState | None:
    """Return the roll with the bidder in line; None where that need not be written, or the line is too long."""
    until = now + PLACE_KEPT
    if roll.waits(bid.id):
        if any(each.id == bid.id and each.until - now > PLACE_KEPT / 2 for each in roll.line):
            return None
        line = tuple(replace(each, until=until) if each.id == bid.id else each for each in roll.line)
    elif len(roll.line) < LONGEST_LINE:
        line = (*roll.line, Waiter(bid.id, until))
    else:
        return None
    return replace(roll, line=line)


def renewed(roll: LockState, holder_id: str, until: datetime) -> LockState | None:
    """Return the roll with a holder that stays until then; None where it is none any more."""
    if roll.holder(holder_id) is None:
        return None
    holders = tuple(replace(each, until=until) if each.id == holder_id else each for each in roll.holders)
    return replace(roll, holders=holders)


def without(roll: LockState, holder_id: str, now: datetime) -> LockState:
    """Return the roll without one who holds or waits."""
    freed_at = now if roll.holder(holder_id) is not None else roll.freed_at
    holders = tuple(each for each in roll.holders if each.id != holder_id)
    line = tuple(each for each in roll.line if each.id != holder_id)
    return replace(roll, holders=holders, line=line, freed_at=freed_at)


def unused(roll: LockState, now: datetime) -> bool:
    """Tell whether a lock may be forgotten: nobody wants it, and it was last given long ago.

    Its next token is greater all the same, unless the clock is set back by as much as that.
    """
    return not roll.holders and not roll.line and 0 < roll.last_token < to_micros(now - REMEMBERED)


SHORTEST_TTL = 0.1
LONGEST_TTL = LONGEST.total_seconds() / 2
MOST_PLACES = 1000
"""So many holders one semaphore has at most: they are all in one record, which each change writes."""


def refuse_bad_lock(name: Any, places: Any, ttl: Any, timeout: Any) -> None:
    """Raise ConfigurationError that names all that is wrong."""
    refuse_any(_problems(name, places, as_seconds(ttl), as_seconds(timeout)))


def read_timeout(timeout: Any) -> float | None:
    """Return seconds to wait, None for ever. Raises ConfigurationError."""
    seconds = as_seconds(timeout)
    refuse_any(_timeout_problems(seconds))
    return None if seconds is None else float(seconds)


def _problems(name: Any, places: Any, ttl: Any, timeout: Any) -> Iterator[str]:
    yield from name_problems("lock", name)
    if not is_int(places) or not 1 <= places <= MOST_PLACES:
        yield f"a semaphore must have from 1 to {MOST_PLACES} places, not {places!r:.80}"
    if not is_finite(ttl) or not SHORTEST_TTL <= ttl <= LONGEST_TTL:
        yield (
            f"ttl must be from {SHORTEST_TTL} to {LONGEST_TTL:.0f} seconds, not {ttl!r:.80}: a lock is renewed as"
            " long as its holder lives, so some 30 seconds do for a block of any length"
        )
    yield from _timeout_problems(timeout)


def _timeout_problems(timeout: Any) -> Iterator[str]:
    if timeout is not None and not (is_finite(timeout) and timeout >= 0):
        yield f"timeout must be seconds, 0 to try once, or None to wait for ever, not {timeout!r:.80}"


# The time is always read before the record. So what is granted ends by the store no earlier than its holder believes,
# who counts from before it asked; and nobody is taken for gone too soon.

TRIES = 100
"""How often a change is tried that others come before."""

TRIES_AT_ONCE = 5
"""Likewise, of one who may as well look again a little later."""


class Look(msgspec.Struct, frozen=True):
    """What one look at a lock brought: its token, or how many are before one in line.

    `freed_in` is when the next holder's time is over, unless it renews.
    """

    token: int | None = None
    rank: int = 0
    freed_in: timedelta | None = None


@procedure
def take(verbs: Store, kind: Kind, name: str, bid: LockRequest, *, waits: bool = False) -> Verbs[Look]:
    """Take a place, or have it for its `ttl` again; where none is to be had, stand in line if it `waits`."""
    for _ in range(TRIES_AT_ONCE if waits else TRIES):
        now, record, roll = yield from _read(verbs, kind, name)
        mine = granted(roll, bid, now)
        fresh = mine or (in_line(roll, bid, now) if waits else None)
        if fresh is not None:
            (made,) = yield verbs.change_records([writing(kind, name, fresh, before=record)])
            if not made:
                continue
            roll = fresh
        holder = roll.holder(bid.id)
        freed_in = min((each.until - now for each in roll.holders), default=None)
        return Look(None if holder is None else holder.token, roll.rank(bid.id), freed_in)
    if not waits:
        raise _crowded(name)
    return Look()


@procedure
def renew(verbs: Store, kind: Kind, held: Mapping[str, Mapping[str, timedelta]]) -> Verbs[Mapping[str, bool]]:
    """Let holders stay for their `ttl` from now: names of locks, of each the ids of holders and their `ttl`.

    Returns for each id whether it stays. One whose change somebody else came before is left out: ask again.
    """
    asked: DueRecords = yield verbs.due_records(kind, timedelta(), 0)
    records: tuple[Record, ...] = yield verbs.records(kind, tuple(held))
    found = {record.name: record for record in records}
    stays: dict[str, bool] = {}
    changes: list[Change] = []
    for name, holders in held.items():
        roll = read_lock_state(found.get(name), asked.now)
        known = False
        for holder, ttl in holders.items():
            longer = renewed(roll, holder, asked.now + ttl)
            stays[holder] = longer is not None
            if longer is not None:
                roll, known = longer, True
        if known:
            changes.append(writing(kind, name, roll, before=found[name]))
    if changes:
        made: tuple[bool, ...] = yield verbs.change_records(changes)
        beaten = {change.name for change, done in zip(changes, made, strict=True) if not done}
        for name in beaten:
            for holder in held[name]:
                if stays[holder]:
                    del stays[holder]
    return stays


@procedure
def give_back(verbs: Store, kind: Kind, name: str, holder: str, *, forgets: bool = False) -> Verbs[bool]:
    """Let others have a place at once, or leave the line; tell whether the place was still held.

    With `forgets` the record goes when nobody is left in it, and with it the last token.
    """
    for _ in range(TRIES):
        now, record, roll = yield from _read(verbs, kind, name)
        held = roll.holder(holder) is not None
        if record is None or not (held or roll.waits(holder)):
            return held
        rest = without(roll, holder, now)
        over = forgets and not rest.holders and not rest.line
        (made,) = yield verbs.change_records(
            [forgetting(record) if over else writing(kind, name, rest, before=record)]
        )
        if made:
            return held
    raise _crowded(name)


@procedure
def free(verbs: Store, name: str) -> Verbs[LockState | None]:
    """Take a lock from all who hold it, as a person wishes; return what it was, None where there is none."""
    for _ in range(TRIES):
        now, record, roll = yield from _read(verbs, Kind.LOCK, name)
        if record is None or not roll.holders:
            return None if record is None else roll
        (made,) = yield verbs.change_records(
            [writing(Kind.LOCK, name, replace(roll, holders=(), freed_at=now), before=record)]
        )
        if made:
            return roll
    raise _crowded(name)


@procedure
def draw_token(verbs: Store, name: str) -> Verbs[int]:
    """Return the next token of a lock that is held by other means than a place.

    Raises LockStateError while somebody has a place: the two do not know of each other.
    """
    for _ in range(TRIES):
        now, record, roll = yield from _read(verbs, Kind.LOCK, name)
        if roll.holders:
            raise LockStateError(
                f"lock {name!r} is held by {roll.holders[0].owner}, without session=True: use one of the two"
                " for a name"
            )
        token = next_token(roll, now)
        fresh = replace(roll, last_token=token)
        (made,) = yield verbs.change_records([writing(Kind.LOCK, name, fresh, before=record)])
        if made:
            return token
    raise _crowded(name)


@procedure
def look_at_all(
    verbs: Store, names: Sequence[str] | None = None
) -> Verbs[tuple[datetime, Mapping[str, LockState]]]:
    """Return the store's time and the locks that there are, by name; or those of the given names."""
    asked: DueRecords = yield verbs.due_records(Kind.LOCK, timedelta(), 0)
    records: Iterable[Record] = yield verbs.records(Kind.LOCK, names)
    return asked.now, {record.name: read_lock_state(record, asked.now) for record in records}


@procedure
def forget_unused(verbs: Store, limit: int) -> Verbs[int]:
    """Forget locks that nobody has used for long, so many at most; return how many there were."""
    asked: DueRecords = yield verbs.due_records(Kind.LOCK, timedelta(), 0)
    records: tuple[Record, ...] = yield verbs.records(Kind.LOCK, None)
    old = [record for record in records if unused(read_lock_state(record, asked.now), asked.now)][:limit]
    if old:
        yield verbs.change_records([forgetting(record) for record in old])
    return len(old)


def _read(verbs: Store, kind: Kind, name: str) -> Verbs[tuple[datetime, Record | None, LockState]]:
    asked: DueRecords = yield verbs.due_records(kind, timedelta(), 0)
    records: tuple[Record, ...] = yield verbs.records(kind, (name,))
    record = records[0] if records else None
    return asked.now, record, read_lock_state(record, asked.now)


def _crowded(name: str) -> StoreUnavailableError:
    return StoreUnavailableError(
        f"lock {name!r} is changed by so many at once that this one found no turn: try again"
    )
