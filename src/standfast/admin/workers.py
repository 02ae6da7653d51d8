"""Workers."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Annotated

import msgspec
from msgspec.structs import asdict

from standfast.admin.executor import OperationContext, all_workers, store_now
from standfast.admin.fields import AnswerStruct, NothingAsked, WithId, the_one
from standfast.admin.job_search import JobRow, job_row
from standfast.admin.operation import NotThereError, Role, acts, reads
from standfast.model.incidents import Trouble
from standfast.model.phrases import Phrase
from standfast.observe.incidents import list_incidents
from standfast.stores.contract import ask_time
from standfast.stores.values import JobFilter, Vitals, Worker
from standfast.supervisor.orders import DRAIN, LASTS, RECYCLE, Order, give_order, orders_about


class WorkerRow(AnswerStruct, frozen=True, kw_only=True):
    """A worker. Spans are in seconds; `vitals` is what it last told of itself (memory in bytes, load …)."""

    id: str
    supervisor: str
    host: str
    pid: int
    queues: tuple[str, ...] | None
    concurrency: int
    lease: float
    started_at: datetime
    beat_age: float
    live: bool
    condemned: bool
    held: int
    running: int
    vitals: Vitals | None = None


class WorkersSeen(AnswerStruct, frozen=True, kw_only=True):
    """The registered workers, oldest first."""

    now: datetime
    workers: tuple[WorkerRow, ...]


class OrderSeen(AnswerStruct, frozen=True, kw_only=True):
    """An order about a worker: `taken` by its supervisor, which is about it, or `refused`, with the reason."""

    id: str
    what: str
    taken: bool
    refused: str | None


class WorkerSeen(WorkerRow, frozen=True, kw_only=True):
    """A worker, the jobs it has, the last pictures that were taken of it (incidents), and what was just ordered.

    An order that is carried out is gone; one that was refused is there for about two minutes.
    """

    now: datetime
    jobs: tuple[JobRow, ...]
    pictures: tuple[str, ...]
    orders: tuple[OrderSeen, ...] = ()


class RecycleAsked(WithId, frozen=True, kw_only=True):
    """Which worker to replace; with `force` also inside a window in which the app forbids it."""

    force: bool = False


class DumpAsked(WithId, frozen=True, kw_only=True):
    """Of which worker to take a picture, and for how many seconds its supervisor may be waited for."""

    timeout: Annotated[float, msgspec.Meta(ge=1, le=3600)] = LASTS.total_seconds()


class WorkerDone(AnswerStruct, frozen=True, kw_only=True):
    """A worker, and the order given to its supervisor. A picture becomes the incident of the order's id."""

    id: str
    order: str


# Workers, and what they have in hand.

_MOST_JOBS = 200
_MOST_PICTURES = 10
_MOST_ORDERS = 10


def worker_row(worker: Worker) -> WorkerRow:
    """Return a worker."""
    info = worker.info
    return WorkerRow(
        id=info.id,
        supervisor=info.supervisor,
        host=info.host,
        pid=info.pid,
        queues=info.queues,
        concurrency=info.concurrency,
        lease=info.lease.total_seconds(),
        started_at=worker.started_at,
        beat_age=worker.beat_age.total_seconds(),
        live=worker.is_live,
        condemned=worker.condemned,
        held=worker.held,
        running=worker.running,
        vitals=worker.vitals,
    )


@reads("workers.list", "/workers")
async def list_workers(desk: OperationContext, asked: NothingAsked) -> WorkersSeen:  # noqa: ARG001 - there is nothing to ask
    """List the registered workers, oldest first."""
    now = await store_now(desk)
    workers = await all_workers(desk)
    return WorkersSeen(now=now, workers=tuple(map(worker_row, workers)))


@reads("workers.show", "/workers/{id}")
async def show_worker(desk: OperationContext, asked: WithId) -> WorkerSeen:
    """Show a worker, the jobs it has in hand, the pictures that were taken of it, and what became of orders."""
    worker = await find_worker(desk, asked.id)
    which = JobFilter(worker=worker.info.id, limit=_MOST_JOBS)
    jobs = (await desk.ask(desk.verbs.list_jobs(which))).jobs
    incidents = await desk.ask(list_incidents(desk.verbs))
    orders = await desk.ask(orders_about(desk.verbs, worker.info.id))
    pictures = [each.id for each in incidents if _shows(each.trouble, each.worker, worker.info.id)]
    return WorkerSeen(
        now=(await desk.ask(ask_time(desk.verbs))).now,
        **asdict(worker_row(worker)),
        jobs=tuple(map(job_row, jobs)),
        pictures=tuple(pictures[:_MOST_PICTURES]),
        orders=tuple(map(_order_seen, orders[:_MOST_ORDERS])),
    )


async def find_worker(desk: OperationContext, worker_id: str) -> Worker:
    """Return the registered worker with this id, or the only one whose id begins or ends so.

    Raises NotThereError.
    """
    workers = {worker.info.id: worker for worker in await desk.ask(desk.verbs.workers())}
    if (found := the_one(worker_id, workers, shortest=1, begins=True)) is None:
        raise NotThereError(Phrase("refusal.no_worker", worker=worker_id))
    return workers[found]


def _shows(trouble: Trouble, pictured: str, worker: str) -> bool:
    return trouble is Trouble.SNAPSHOT and pictured == worker


def _order_seen(order: Order) -> OrderSeen:
    return OrderSeen(id=order.id, what=order.what, taken=order.taken, refused=order.refused or None)


# Orders to the supervisors of workers.

DUMP = "dump"
"""What an order to take a picture of a worker says."""


@acts("workers.recycle", "/workers/{id}/recycle", Role.OPERATOR)
async def recycle_worker(desk: OperationContext, asked: RecycleAsked) -> WorkerDone:
    """Have a worker replaced by a fresh one, without a gap; what it runs may end first."""
    return await _order(desk, RECYCLE, asked.id, {"force": "yes"} if asked.force else {})


@acts("workers.drain", "/workers/{id}/drain", Role.ADMIN)
async def drain_worker(desk: OperationContext, asked: WithId) -> WorkerDone:
    """Have a worker end what it runs and leave for good; a supervisor that has no other then ends."""
    return await _order(desk, DRAIN, asked.id)


@acts("workers.dump", "/workers/{id}/dump", Role.OPERATOR)
async def dump_worker(desk: OperationContext, asked: DumpAsked) -> WorkerDone:
    """Have a picture taken of what a worker does: it becomes the incident whose id is that of the order."""
    return await _order(desk, DUMP, asked.id, lasts=timedelta(seconds=asked.timeout))


async def _order(
    desk: OperationContext,
    what: str,
    worker_id: str,
    details: Mapping[str, str] | None = None,
    lasts: timedelta = LASTS,
) -> WorkerDone:
    worker = await find_worker(desk, worker_id)
    if not worker.is_live:
        raise NotThereError(Phrase("refusal.silent_worker", worker=worker.info.id, silent=worker.beat_age))
    order = await desk.ask(give_order(desk.verbs, what, worker.info.id, details, lasts))
    desk.note(after=Phrase("noted.order", order=order.id))
    return WorkerDone(id=worker.info.id, order=order.id)
