"""Locks and semaphores."""

from collections.abc import Mapping

from standfast.dashboard.desk import Desk
from standfast.dashboard.operation import reads
from standfast.dashboard.shapes.locks import HolderSeen, LockSeen, LocksSeen
from standfast.dashboard.shapes.words import NothingAsked
from standfast.locks.errands import look_at_all
from standfast.locks.roll import Roll
from standfast.locks.session import HasSessions


def lock_seen(name: str, roll: Roll, session: str | None) -> LockSeen:
    """Return a lock, and who has it."""
    return LockSeen(
        name=name,
        places=roll.places,
        holders=holders_seen(roll),
        session=session,
        waiting=len(roll.line),
        last_token=roll.last_token,
    )


def holders_seen(roll: Roll) -> tuple[HolderSeen, ...]:
    """Return who has a lock."""
    return tuple(
        HolderSeen(owner=each.owner, token=each.token, since=each.since, until=each.until) for each in roll.holders
    )


@reads("locks.list", "/locks")
async def list_locks(desk: Desk, asked: NothingAsked) -> LocksSeen:  # noqa: ARG001 - there is nothing to ask
    """List every lock that was held in the last 30 days, by name."""
    now, rolls = await desk.ask(look_at_all(desk.verbs))
    sessions = await held_by_sessions(desk, tuple(rolls))
    locks = tuple(lock_seen(name, roll, sessions.get(name)) for name, roll in rolls.items())
    return LocksSeen(now=now, locks=locks)


async def all_locks(desk: Desk) -> tuple[LockSeen, ...]:
    """Return the locks that somebody holds by a record of the store."""
    _, rolls = await desk.ask(look_at_all(desk.verbs))
    return tuple(lock_seen(name, roll, None) for name, roll in rolls.items() if roll.holders)


async def held_by_sessions(desk: Desk, names: tuple[str, ...]) -> Mapping[str, str]:
    """Return which locks are held by a session of the database server, by name, and in words who has them."""
    backend = desk.office.backend
    return await desk.ask(backend.session_holders(names)) if names and isinstance(backend, HasSessions) else {}
