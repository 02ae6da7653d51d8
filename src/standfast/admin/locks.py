"""Locks and semaphores."""

from collections.abc import Mapping
from datetime import datetime

from standfast.admin.executor import OperationContext
from standfast.admin.fields import AnswerStruct, Named, NothingAsked
from standfast.admin.operation import NotThereError, Role, acts, reads
from standfast.durable.lockstate import LockState, free, look_at_all
from standfast.durable.sessionlock import HasSessions
from standfast.errors import LockStateError
from standfast.model.phrases import Phrase


class HolderSeen(AnswerStruct, frozen=True, kw_only=True):
    """Who has a place, since when and until when."""

    owner: str
    token: int
    since: datetime
    until: datetime


class LockSeen(AnswerStruct, frozen=True, kw_only=True):
    """A lock. `session` names the session of the database server that has it, where one does."""

    name: str
    places: int
    holders: tuple[HolderSeen, ...]
    session: str | None
    waiting: int
    last_token: int


class LocksSeen(AnswerStruct, frozen=True, kw_only=True):
    """Every lock that was held in the last 30 days, by name."""

    now: datetime
    locks: tuple[LockSeen, ...]


class LockDone(AnswerStruct, frozen=True, kw_only=True):
    """A lock, and from whom it was taken."""

    name: str
    released: tuple[HolderSeen, ...]


# Locks and semaphores.


def lock_seen(name: str, roll: LockState, session: str | None) -> LockSeen:
    """Return a lock, and who has it."""
    return LockSeen(
        name=name,
        places=roll.places,
        holders=holders_seen(roll),
        session=session,
        waiting=len(roll.line),
        last_token=roll.last_token,
    )


def holders_seen(roll: LockState) -> tuple[HolderSeen, ...]:
    """Return who has a lock."""
    return tuple(
        HolderSeen(owner=each.owner, token=each.token, since=each.since, until=each.until) for each in roll.holders
    )


@reads("locks.list", "/locks")
async def list_locks(desk: OperationContext, asked: NothingAsked) -> LocksSeen:  # noqa: ARG001 - there is nothing to ask
    """List every lock that was held in the last 30 days, by name."""
    now, rolls = await desk.ask(look_at_all(desk.verbs))
    sessions = await held_by_sessions(desk, tuple(rolls))
    locks = tuple(lock_seen(name, roll, sessions.get(name)) for name, roll in rolls.items())
    return LocksSeen(now=now, locks=locks)


async def all_locks(desk: OperationContext) -> tuple[LockSeen, ...]:
    """Return the locks that somebody holds by a record of the store."""
    _, rolls = await desk.ask(look_at_all(desk.verbs))
    return tuple(lock_seen(name, roll, None) for name, roll in rolls.items() if roll.holders)


async def held_by_sessions(desk: OperationContext, names: tuple[str, ...]) -> Mapping[str, str]:
    """Return which locks are held by a session of the database server, by name, and in words who has them."""
    backend = desk.office.backend
    return await desk.ask(backend.session_holders(names)) if names and isinstance(backend, HasSessions) else {}


# Locks that are taken from who holds them.


@acts("locks.release", "/locks/{name}/release", Role.ADMIN)
async def release_lock(desk: OperationContext, asked: Named) -> LockDone:
    """Take a lock from all who hold it; one that lives goes on until it notices, beside the next holder."""
    _, rolls = await desk.ask(look_at_all(desk.verbs, (asked.name,)))
    if asked.name not in rolls:
        raise NotThereError(Phrase("refusal.no_lock", lock=asked.name))
    if session := (await held_by_sessions(desk, (asked.name,))).get(asked.name):
        raise LockStateError(Phrase("refusal.lock_of_session", lock=asked.name, session=session))
    was = await desk.ask(free(desk.verbs, asked.name))
    released = () if was is None else holders_seen(was)
    nobody = Phrase("noted.held_by_nobody")
    desk.note(before=", ".join(each.owner for each in released) or nobody, after=nobody)
    return LockDone(name=asked.name, released=released)
