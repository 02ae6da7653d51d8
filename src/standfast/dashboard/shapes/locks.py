"""Locks and semaphores."""

from datetime import datetime

from standfast.dashboard.shapes.words import Told


class HolderSeen(Told, frozen=True, kw_only=True):
    """Who has a place, since when and until when."""

    owner: str
    token: int
    since: datetime
    until: datetime


class LockSeen(Told, frozen=True, kw_only=True):
    """A lock. `session` names the session of the database server that has it, where one does."""

    name: str
    places: int
    holders: tuple[HolderSeen, ...]
    session: str | None
    waiting: int
    last_token: int


class LocksSeen(Told, frozen=True, kw_only=True):
    """Every lock that was held in the last 30 days, by name."""

    now: datetime
    locks: tuple[LockSeen, ...]


class LockDone(Told, frozen=True, kw_only=True):
    """A lock, and from whom it was taken."""

    name: str
    released: tuple[HolderSeen, ...]
