"""Locks that are taken from who holds them."""

from standfast.dashboard.access.user import Role
from standfast.dashboard.desk import Desk
from standfast.dashboard.operation import acts
from standfast.dashboard.reading.locks import held_by_sessions, holders_seen
from standfast.dashboard.refusals import NotThereError
from standfast.dashboard.shapes.locks import LockDone
from standfast.dashboard.shapes.words import Named
from standfast.errors import LockStateError
from standfast.locks.errands import free, look_at_all
from standfast.phrases import Phrase


@acts("locks.release", "/locks/{name}/release", Role.ADMIN)
async def release_lock(desk: Desk, asked: Named) -> LockDone:
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
