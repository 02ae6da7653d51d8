"""Workers, and what they have in hand."""

import msgspec

from standfast.core.incident import Trouble
from standfast.dashboard.desk import Desk
from standfast.dashboard.operation import reads
from standfast.dashboard.reading.rows import job_row
from standfast.dashboard.reading.shared_looks import all_workers, store_now
from standfast.dashboard.refusals import NotThereError
from standfast.dashboard.shapes.words import NothingAsked, WithId
from standfast.dashboard.shapes.workers import OrderSeen, WorkerRow, WorkerSeen, WorkersSeen
from standfast.incidents.book import list_incidents
from standfast.phrases import Phrase
from standfast.store.protocol import JobFilter, Worker, ask_time
from standfast.supervisor.orders import Order, orders_about

_MOST_JOBS = 200
_MOST_PICTURES = 10
_MOST_ORDERS = 10


def worker_row(worker: Worker) -> WorkerRow:
    """Return a worker."""
    info, vitals = worker.info, worker.vitals
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
        vitals=None if vitals is None else msgspec.structs.asdict(vitals),
    )


@reads("workers.list", "/workers")
async def list_workers(desk: Desk, asked: NothingAsked) -> WorkersSeen:  # noqa: ARG001 - there is nothing to ask
    """List the registered workers, oldest first."""
    now = await store_now(desk)
    workers = await all_workers(desk)
    return WorkersSeen(now=now, workers=tuple(map(worker_row, workers)))


@reads("workers.show", "/workers/{id}")
async def show_worker(desk: Desk, asked: WithId) -> WorkerSeen:
    """Show a worker, the jobs it has in hand, the pictures that were taken of it, and what became of orders."""
    worker = await find_worker(desk, asked.id)
    which = JobFilter(worker=worker.info.id, limit=_MOST_JOBS)
    jobs = await desk.ask(desk.verbs.list_jobs(which))
    incidents = await desk.ask(list_incidents(desk.verbs))
    orders = await desk.ask(orders_about(desk.verbs, worker.info.id))
    pictures = [each.id for each in incidents if _shows(each.trouble, each.worker, worker.info.id)]
    return WorkerSeen(
        now=(await desk.ask(ask_time(desk.verbs))).now,
        row=worker_row(worker),
        jobs=tuple(map(job_row, jobs)),
        pictures=tuple(pictures[:_MOST_PICTURES]),
        orders=tuple(map(_order_seen, orders[:_MOST_ORDERS])),
    )


async def find_worker(desk: Desk, worker_id: str) -> Worker:
    """Return a registered worker. Raises NotThereError."""
    for worker in await desk.ask(desk.verbs.workers()):
        if worker.info.id == worker_id:
            return worker
    raise NotThereError(Phrase("refusal.no_worker", worker=worker_id))


def _shows(trouble: Trouble, pictured: str, worker: str) -> bool:
    return trouble is Trouble.SNAPSHOT and pictured == worker


def _order_seen(order: Order) -> OrderSeen:
    return OrderSeen(id=order.id, what=order.what, taken=order.taken, refused=order.refused or None)
