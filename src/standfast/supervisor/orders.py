"""Orders: what a person asks of the supervisor that has a certain worker. Each is a record, due at once.

    given ─► taken, by the supervisor that has the worker ─► carried out: forgotten
       │                ├─► refused: that is written down in it, for who gave it
       └────────────────┴─► its time is over: forgotten by whoever sees it, or by who gave it

A beat tells every supervisor that something is due. Each then looks once and no more until its next beat, however
long an order stays: one that is not its own is not its business. So an order is taken within one `beat_every`.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from datetime import datetime, timedelta
from itertools import compress
from typing import Annotated
from uuid import uuid4

import msgspec
from msgspec.structs import replace

from standfast.errors import StoreError
from standfast.model.concurrency import Wakeup
from standfast.model.ids import new_job_id
from standfast.model.records import Change, Kind, Record, read_body
from standfast.stores.contract import Store
from standfast.stores.values import BeatAnswer, DueRecords
from standfast.stores.verb import Verbs, arun_procedure, procedure
from standfast.worker.storecalls import StoreCalls

log = logging.getLogger(__name__)

DRAIN = "drain"  # let a worker leave, and start none in its place
KILL = "kill"  # end a cancelled job with the process of its own in which it runs
RECYCLE = "recycle"  # replace a worker
LASTS = timedelta(minutes=1)  # how long an order waits for somebody to take it
LONGEST = timedelta(days=1)  # no order waits for so long: one that says so is nonsense
AT_ONCE = 1000  # how many orders one look sees


class Order(msgspec.Struct, frozen=True):
    """Do this (`what`) with that worker, if that can begin before `until` by the store's time.

    `taken`: a supervisor is about it; `refused`: it will not, for this reason.
    """

    id: str
    what: str
    worker: str
    until: Annotated[datetime, msgspec.Meta(tz=True)]
    details: Mapping[str, str] = {}
    taken: bool = False
    refused: str = ""


class RefusedError(Exception):
    """An order cannot be carried out, for a reason that who gave it is to hear."""


CarryOut = Callable[[Order], Awaitable[None]]


@procedure
def give_order(
    verbs: Store, what: str, worker: str, details: Mapping[str, str] | None = None, lasts: timedelta = LASTS
) -> Verbs[Order]:
    """Write an order down for the supervisor of a worker."""
    asked: DueRecords = yield verbs.due_records(Kind.ORDER, timedelta(), 0)
    order = Order(new_job_id(), what, worker, asked.now + lasts, details or {})
    body = msgspec.json.encode(order)
    yield verbs.change_records([Change(Kind.ORDER, order.id, 0, str(uuid4()), body, due_at=asked.now)])
    return order


@procedure
def look_at_order(verbs: Store, order_id: str) -> Verbs[Order | None]:
    """Return an order as it stands; None once it was carried out, or its time is over."""
    records: tuple[Record, ...] = yield verbs.records(Kind.ORDER, (order_id,))
    return read_body(records[0], Order) if records else None


@procedure
def orders_about(verbs: Store, worker: str) -> Verbs[list[Order]]:
    """Return the orders about a worker that stand, or were refused a moment ago, the newest first."""
    records: tuple[Record, ...] = yield verbs.records(Kind.ORDER)
    orders = [order for record in records if (order := read_body(record, Order)) is not None]
    return sorted((order for order in orders if order.worker == worker), key=lambda order: order.id, reverse=True)


@procedure
def forget_order(verbs: Store, order_id: str) -> Verbs[None]:
    """Forget an order, taken or not."""
    records: tuple[Record, ...] = yield verbs.records(Kind.ORDER, (order_id,))
    if records:
        yield verbs.change_records([_forgetting(record) for record in records])


@procedure
def refuse_order(verbs: Store, order_id: str, why: str) -> Verbs[None]:
    """Write down why an order that was taken is not carried out."""
    records: tuple[Record, ...] = yield verbs.records(Kind.ORDER, (order_id,))
    for record in records:
        order = read_body(record, Order)
        if order is not None:
            yield verbs.change_records([_writing(record, replace(order, refused=why))])


@procedure
def take_orders(verbs: Store, is_ours: Callable[[Order], bool]) -> Verbs[list[Order]]:
    """Take the orders that are ours, each once and for good, and forget those whose time is over."""
    due: DueRecords = yield verbs.due_records(Kind.ORDER, timedelta(), AT_ONCE)
    ours: list[Order] = []
    changes: list[Change] = []
    over: list[Change] = []
    for record in due.records:
        order = _read(record, due.now)
        until = due.now if record.due_at is None else record.due_at + LASTS
        if due.now > (until if order is None else order.until):
            over.append(_forgetting(record))
        elif order is not None and is_ours(order):
            ours.append(order)
            changes.append(_writing(record, replace(order, taken=True)))
    if not changes and not over:
        return []
    done: tuple[bool, ...] = yield verbs.change_records([*changes, *over])
    return list(compress(ours, done))


def _read(record: Record, now: datetime) -> Order | None:
    """Return an order; None for one of another release, whose supervisors may know what it means, or nonsense."""
    order = read_body(record, Order)
    return None if order is None or order.until > now + LONGEST else order


def _writing(record: Record, order: Order) -> Change:
    """Return the change of one that is taken. It is due again when whoever took it should have been done."""
    body, due_at = msgspec.json.encode(order), order.until + LASTS
    return Change(Kind.ORDER, record.name, record.version, str(uuid4()), body, due_at=due_at, after=record.token)


def _forgetting(record: Record) -> Change:
    return Change(Kind.ORDER, record.name, record.version, str(uuid4()), None, after=record.token)


class Orders:
    """The orders for the workers of one supervisor; `handlers` carry them out, by what they say."""

    def __init__(
        self, calls: StoreCalls, has_worker: Callable[[str], bool], handlers: Mapping[str, CarryOut]
    ) -> None:
        self._calls = calls
        self._has_worker = has_worker
        self._handlers = handlers
        self._wakeup = Wakeup()

    def heed(self, answer: BeatAnswer) -> None:
        """Learn from a beat that there may be orders."""
        if answer.record_due_at is not None and answer.record_due_at <= answer.now:
            self._wakeup.call()

    async def run(self) -> None:
        """Take orders when a beat tells of them, and carry them out side by side."""
        async with asyncio.TaskGroup() as group:
            while True:
                await self._wakeup.rest(None)
                for order in await self._taken():
                    group.create_task(self._carry_out(order))

    async def _taken(self) -> list[Order]:
        try:
            return await arun_procedure(self._calls.once, take_orders(self._calls.verbs, self._is_ours))
        except StoreError:
            return []  # the next beat tells of them again

    def _is_ours(self, order: Order) -> bool:
        return order.what in self._handlers and self._has_worker(order.worker)

    async def _carry_out(self, order: Order) -> None:
        last = forget_order(self._calls.verbs, order.id)
        try:
            await self._handlers[order.what](order)
        except RefusedError as refusal:
            log.warning("the order to %s worker %s is refused: %s", order.what, order.worker, refusal)
            last = refuse_order(self._calls.verbs, order.id, str(refusal))
        except Exception:
            log.exception("the order to %s worker %s could not be carried out", order.what, order.worker)
        with suppress(StoreError):  # else it is forgotten when it is due again
            await arun_procedure(self._calls.once, last)
