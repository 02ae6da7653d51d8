"""Queues that are paused and go on."""

from datetime import datetime

from standfast.dashboard.access.user import Role
from standfast.dashboard.desk import Desk
from standfast.dashboard.operation import acts
from standfast.dashboard.shapes.queues import QueueDone
from standfast.dashboard.shapes.words import QueueNamed
from standfast.phrases import Phrase
from standfast.policy.problems import queue_problems, refuse_any


@acts("queues.pause", "/queues/{name}/pause", Role.OPERATOR)
async def pause_queue(desk: Desk, asked: QueueNamed) -> QueueDone:
    """Let nothing of a queue start until it goes on; what runs, runs on."""
    refuse_any(queue_problems(asked.name))
    desk.note(before=_told(await _paused_at(desk, asked.name)))
    await desk.ask(desk.verbs.pause(asked.name))
    return await _done(desk, asked.name)


@acts("queues.resume", "/queues/{name}/resume", Role.OPERATOR)
async def resume_queue(desk: Desk, asked: QueueNamed) -> QueueDone:
    """Let a queue go on."""
    refuse_any(queue_problems(asked.name))
    desk.note(before=_told(await _paused_at(desk, asked.name)))
    await desk.ask(desk.verbs.resume(asked.name))
    return await _done(desk, asked.name)


async def _done(desk: Desk, name: str) -> QueueDone:
    paused_at = await _paused_at(desk, name)
    desk.note(after=_told(paused_at))
    return QueueDone(name=name, paused_at=paused_at)


async def _paused_at(desk: Desk, name: str) -> datetime | None:
    queues = await desk.ask(desk.verbs.queues())
    return next((queue.paused_at for queue in queues if queue.name == name), None)


def _told(paused_at: datetime | None) -> Phrase:
    if paused_at is None:
        return Phrase("noted.open")
    return Phrase("noted.paused", since=paused_at.isoformat(timespec="seconds"))
