"""What is asked of the store about locks, each in a few verbs: take, renew, give back, look, forget.

The time is always read before the record. So what is granted ends by the store no earlier than its holder believes,
who counts from before it asked; and nobody is taken for gone too soon.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from uuid import uuid4

import msgspec

from standfast.core.record import Change, Kind, Record
from standfast.errors import LockStateError, StoreUnavailableError
from standfast.locks.roll import Bid, Roll, freed, granted, in_line, next_token, read_roll, renewed, unused, without
from standfast.store.errand import Verbs, errand
from standfast.store.protocol import DueRecords, Store

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


@errand
def take(verbs: Store, kind: Kind, name: str, bid: Bid, *, waits: bool = False) -> Verbs[Look]:
    """Take a place, or have it for its `ttl` again; where none is to be had, stand in line if it `waits`."""
    for _ in range(TRIES_AT_ONCE if waits else TRIES):
        now, record, roll = yield from _read(verbs, kind, name)
        mine = granted(roll, bid, now)
        fresh = mine or (in_line(roll, bid, now) if waits else None)
        if fresh is not None:
            (made,) = yield verbs.change_records([_change(kind, name, record, fresh)])
            if not made:
                continue
            roll = fresh
        holder = roll.holder(bid.id)
        freed_in = min((each.until - now for each in roll.holders), default=None)
        return Look(None if holder is None else holder.token, roll.rank(bid.id), freed_in)
    if not waits:
        raise _crowded(name)
    return Look()


@errand
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
        roll = read_roll(found.get(name), asked.now)
        known = False
        for holder, ttl in holders.items():
            longer = renewed(roll, holder, asked.now + ttl)
            stays[holder] = longer is not None
            if longer is not None:
                roll, known = longer, True
        if known:
            changes.append(_change(kind, name, found[name], roll))
    if changes:
        made: tuple[bool, ...] = yield verbs.change_records(changes)
        beaten = {change.name for change, done in zip(changes, made, strict=True) if not done}
        for name in beaten:
            for holder in held[name]:
                if stays[holder]:
                    del stays[holder]
    return stays


@errand
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
        (made,) = yield verbs.change_records([_change(kind, name, record, None if over else rest)])
        if made:
            return held
    raise _crowded(name)


@errand
def free(verbs: Store, name: str) -> Verbs[Roll | None]:
    """Take a lock from all who hold it, as a person wishes; return what it was, None where there is none."""
    for _ in range(TRIES):
        now, record, roll = yield from _read(verbs, Kind.LOCK, name)
        if record is None or not roll.holders:
            return None if record is None else roll
        (made,) = yield verbs.change_records([_change(Kind.LOCK, name, record, freed(roll, now))])
        if made:
            return roll
    raise _crowded(name)


@errand
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
        fresh = msgspec.structs.replace(roll, last_token=token)
        (made,) = yield verbs.change_records([_change(Kind.LOCK, name, record, fresh)])
        if made:
            return token
    raise _crowded(name)


@errand
def look_at_all(verbs: Store, names: Sequence[str] | None = None) -> Verbs[tuple[datetime, Mapping[str, Roll]]]:
    """Return the store's time and the locks that there are, by name; or those of the given names."""
    asked: DueRecords = yield verbs.due_records(Kind.LOCK, timedelta(), 0)
    records: Iterable[Record] = yield verbs.records(Kind.LOCK, names)
    return asked.now, {record.name: read_roll(record, asked.now) for record in records}


@errand
def forget_unused(verbs: Store, limit: int) -> Verbs[int]:
    """Forget locks that nobody has used for long, so many at most; return how many there were."""
    asked: DueRecords = yield verbs.due_records(Kind.LOCK, timedelta(), 0)
    records: tuple[Record, ...] = yield verbs.records(Kind.LOCK, None)
    old = [record for record in records if unused(read_roll(record, asked.now), asked.now)][:limit]
    if old:
        yield verbs.change_records([_change(Kind.LOCK, record.name, record, None) for record in old])
    return len(old)


def _read(verbs: Store, kind: Kind, name: str) -> Verbs[tuple[datetime, Record | None, Roll]]:
    asked: DueRecords = yield verbs.due_records(kind, timedelta(), 0)
    records: tuple[Record, ...] = yield verbs.records(kind, (name,))
    record = records[0] if records else None
    return asked.now, record, read_roll(record, asked.now)


def _change(kind: Kind, name: str, record: Record | None, roll: Roll | None) -> Change:
    body = None if roll is None else msgspec.json.encode(roll)
    seen, after = (0, None) if record is None else (record.version, record.token)
    return Change(kind, name, seen, str(uuid4()), body, after=after)


def _crowded(name: str) -> StoreUnavailableError:
    return StoreUnavailableError(
        f"lock {name!r} is changed by so many at once that this one found no turn: try again"
    )
