"""Orders to the supervisors of workers."""

from collections.abc import Mapping

from standfast.dashboard.access.user import Role
from standfast.dashboard.desk import Desk
from standfast.dashboard.operation import acts
from standfast.dashboard.reading.workers import find_worker
from standfast.dashboard.refusals import NotThereError
from standfast.dashboard.shapes.words import WithId
from standfast.dashboard.shapes.workers import RecycleAsked, WorkerDone
from standfast.phrases import Phrase
from standfast.supervisor.drainer import ORDER as DRAIN
from standfast.supervisor.orders import give_order
from standfast.supervisor.recycling import ORDER as RECYCLE

DUMP = "dump"
"""What an order to take a picture of a worker says."""


@acts("workers.recycle", "/workers/{id}/recycle", Role.OPERATOR)
async def recycle_worker(desk: Desk, asked: RecycleAsked) -> WorkerDone:
    """Have a worker replaced by a fresh one, without a gap; what it runs may end first."""
    return await _order(desk, RECYCLE, asked.id, {"force": "yes"} if asked.force else {})


@acts("workers.drain", "/workers/{id}/drain", Role.ADMIN)
async def drain_worker(desk: Desk, asked: WithId) -> WorkerDone:
    """Have a worker end what it runs and leave for good; a supervisor that has no other then ends."""
    return await _order(desk, DRAIN, asked.id, {})


@acts("workers.dump", "/workers/{id}/dump", Role.OPERATOR)
async def dump_worker(desk: Desk, asked: WithId) -> WorkerDone:
    """Have a picture taken of what a worker does: it becomes the incident whose id is that of the order."""
    return await _order(desk, DUMP, asked.id, {})


async def _order(desk: Desk, what: str, worker_id: str, details: Mapping[str, str]) -> WorkerDone:
    worker = await find_worker(desk, worker_id)
    if not worker.is_live:
        raise NotThereError(Phrase("refusal.silent_worker", worker=worker_id, silent=worker.beat_age))
    order = await desk.ask(give_order(desk.verbs, what, worker.info.id, details))
    desk.note(after=Phrase("noted.order", order=order.id))
    return WorkerDone(id=worker.info.id, order=order.id)
