"""Who holds the places of a lock and who waits for one, by the store's time. Pure.

A lock is a semaphore of one place. Its roll is the body of a record, so each change of it is compared and written
in one step. Who asks is given a place if one is free and it is its turn; else it may stand in line:

    asks ─► holds ─► renews … ─► gives back, or its time is over
      └─► in line ─┘ first at once, those behind it later, if those before it do not come

A place that is free belongs to the first in line. It may be dead, so those behind it may have it a little later:
after a while the second, then the next two, then the next four. So a whole line of dead ones is soon passed.
"""

from datetime import datetime, timedelta
from typing import Annotated

import msgspec
from msgspec.structs import replace

from standfast.core.record import Record, read_body
from standfast.store.times import to_micros

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


class Bid(msgspec.Struct, frozen=True):
    """The wish for one of so many places, for so long at a time."""

    id: str
    ttl: timedelta
    places: int = 1
    owner: str = ""


class Roll(msgspec.Struct, frozen=True):
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


def read_roll(record: Record | None, now: datetime) -> Roll:
    """Return what a record says now, without those whose time is over. Of one that means nothing, nothing is known.

    Even then tokens grow: see `next_token`. Who has a place in line for too long is not known either: the clock was
    set back, and the dead would stand there until it is where it was.
    """
    roll = Roll() if record is None else read_body(record, Roll) or Roll()
    holders = tuple(each for each in roll.holders if now < each.until <= now + LONGEST)
    line = tuple(each for each in roll.line if now < each.until <= now + 2 * PLACE_KEPT)
    ends = [each.until for each in roll.holders if each.until <= now]
    freed_at = max([*ends, *([roll.freed_at] if roll.freed_at is not None else [])], default=None)
    return replace(roll, holders=holders, line=line, freed_at=freed_at)


def next_token(roll: Roll, now: datetime) -> int:
    """Return the next token: the store's time in microseconds, but always more than the last one.

    A mere count would begin again where the store has lost its last writes, as a promoted replica may have.
    """
    return max(roll.last_token + 1, to_micros(now))


def granted(roll: Roll, bid: Bid, now: datetime) -> Roll | None:
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


def in_line(roll: Roll, bid: Bid, now: datetime) -> Roll | None:
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


def renewed(roll: Roll, holder_id: str, until: datetime) -> Roll | None:
    """Return the roll with a holder that stays until then; None where it is none any more."""
    if roll.holder(holder_id) is None:
        return None
    holders = tuple(replace(each, until=until) if each.id == holder_id else each for each in roll.holders)
    return replace(roll, holders=holders)


def without(roll: Roll, holder_id: str, now: datetime) -> Roll:
    """Return the roll without one who holds or waits."""
    freed_at = now if roll.holder(holder_id) is not None else roll.freed_at
    holders = tuple(each for each in roll.holders if each.id != holder_id)
    line = tuple(each for each in roll.line if each.id != holder_id)
    return replace(roll, holders=holders, line=line, freed_at=freed_at)


def unused(roll: Roll, now: datetime) -> bool:
    """Tell whether a lock may be forgotten: nobody wants it, and it was last given long ago.

    Its next token is greater all the same, unless the clock is set back by as much as that.
    """
    return not roll.holders and not roll.line and 0 < roll.last_token < to_micros(now - REMEMBERED)


def freed(roll: Roll, now: datetime) -> Roll:
    """Return the roll without any holder; those in line stay."""
    return replace(roll, holders=(), freed_at=now)
