"""Orders: who has the worker carries them out, once; what nobody takes is forgotten, and nobody spins."""

import asyncio
from datetime import timedelta
from random import Random

import pytest
from household import Household, Moody

from standfast.events import Events
from standfast.model.records import Change, Kind
from standfast.stores.values import BeatAnswer
from standfast.stores.verb import arun_procedure
from standfast.supervisor.locks import take_permit
from standfast.supervisor.orders import (
    LASTS,
    CarryOut,
    Order,
    Orders,
    RefusedError,
    forget_order,
    give_order,
    look_at_order,
)
from standfast.worker.storecalls import StoreCalls

pytestmark = pytest.mark.virtual_time


class Desk:
    """A supervisor that has one worker, and beats when it is told to."""

    def __init__(self, backend: Moody, worker: str, **handlers: CarryOut) -> None:
        self.backend = backend
        self.done: list[Order] = []
        calls = StoreCalls(backend, backend.clock, Events(), Random(1), 5.0)
        self.orders = Orders(calls, lambda each: each == worker, {"dump": self._note, **handlers})
        self.running = asyncio.ensure_future(self.orders.run())

    async def beat(self) -> None:
        """Beat once, and let what comes of it happen."""
        answer: BeatAnswer = self.backend.run(self.backend.verbs.beat([]))
        self.orders.heed(answer)
        await asyncio.sleep(1)

    async def _note(self, order: Order) -> None:
        self.done.append(order)


def waiting(backend: Moody) -> int:
    """Return how many orders are in the store."""
    return len(backend.run(backend.verbs.records(Kind.ORDER)))


async def look(backend: Moody, order: Order) -> Order | None:
    return await arun_procedure(backend.arun, look_at_order(backend.verbs, order.id))


async def give(backend: Moody, what: str, worker: str, **more) -> Order:
    return await arun_procedure(backend.arun, give_order(backend.verbs, what, worker, **more))


async def test_who_has_the_worker_carries_it_out_once() -> None:
    """Two supervisors see the order; one has the worker, takes it at its beat, and not again at the next."""
    house = Household()
    ours, other = Desk(house.backend, "ours"), Desk(house.backend, "other")
    order = await give(house.backend, "dump", "ours", details={"why": "curious"})
    await other.beat()
    assert await look(house.backend, order) == order
    for _ in range(3):
        await ours.beat()
        await other.beat()
    assert (ours.done, other.done) == ([order], [])
    assert waiting(house.backend) == 0


async def test_of_two_that_think_it_is_theirs_one_does_it() -> None:
    """A taken order is forgotten by comparison of versions: who comes second has nothing to carry out."""
    house = Household()
    house.backend.latency = 0.1
    one, two = Desk(house.backend, "ours"), Desk(house.backend, "ours")
    order = await give(house.backend, "dump", "ours")
    await asyncio.gather(one.beat(), two.beat())
    assert one.done + two.done == [order]


async def test_what_nobody_takes_is_forgotten_after_a_minute_without_haste() -> None:
    """It costs one look a beat while it waits; then whoever sees it forgets it, and looks no more."""
    house = Household()
    desk = Desk(house.backend, "ours")
    await give(house.backend, "dump", "gone")
    looks = []
    for _ in range(6):
        before = len(house.backend.calls_of("due_records"))
        await desk.beat()
        await asyncio.sleep(LASTS.total_seconds() / 5)
        looks.append(len(house.backend.calls_of("due_records")) - before)
    assert looks == [1] * 6
    await desk.beat()
    assert waiting(house.backend) == 0
    before = len(house.backend.called)
    await desk.beat()
    assert len(house.backend.called) == before
    assert desk.done == []


async def test_who_gave_an_order_hears_why_it_is_refused() -> None:
    """It stands in the order, which nobody takes again, and which is forgotten in the end."""

    async def refuse(order: Order) -> None:
        refused.append(order)
        raise RefusedError("no")

    house, refused = Household(), []
    desk = Desk(house.backend, "ours", drain=refuse)
    order = await give(house.backend, "drain", "ours")
    for _ in range(3):
        await desk.beat()
    assert (await look(house.backend, order)).refused == "no"
    assert refused == [order]
    await asyncio.sleep(2 * LASTS.total_seconds())
    await desk.beat()
    assert waiting(house.backend) == 0


async def test_what_is_due_later_is_no_reason_to_look() -> None:
    """Most records are schedules, and their time is to come."""
    house = Household()
    desk = Desk(house.backend, "ours")
    later = house.clock.now() + timedelta(seconds=60)
    house.backend.run(house.verbs.change_records([Change(Kind.SCHEDULE, "x", 0, "t", b"", due_at=later)]))
    await desk.beat()
    assert house.backend.calls_of("due_records") == []


async def test_an_order_comes_too_late() -> None:
    """Who was away for a minute does not do what nobody waits for any more."""
    house = Household()
    desk = Desk(house.backend, "ours")
    await give(house.backend, "dump", "ours", lasts=timedelta(seconds=5))
    await asyncio.sleep(6)
    await desk.beat()
    assert desk.done == []
    assert waiting(house.backend) == 0


async def test_orders_that_cannot_be_read_or_are_unknown_wait_for_others() -> None:
    """Another release may know them; they hinder no other order, and are forgotten in the end."""
    house = Household()
    desk = Desk(house.backend, "ours")
    unreadable = Change(Kind.ORDER, "x", 0, "t", b"\xff", due_at=house.clock.now())
    house.backend.run(house.verbs.change_records([unreadable]))
    await give(house.backend, "dance", "ours")
    order = await give(house.backend, "dump", "ours")
    await desk.beat()
    assert desk.done == [order]
    assert waiting(house.backend) == 2
    await asyncio.sleep(LASTS.total_seconds() + 1)
    await desk.beat()
    assert waiting(house.backend) == 0


async def test_one_that_fails_or_takes_long_hinders_no_other(caplog) -> None:
    """Orders are carried out side by side, and a failure is told."""

    async def fail(order: Order) -> None:
        raise RuntimeError(order.worker)

    async def last(_: Order) -> None:
        await asyncio.sleep(1000)

    house = Household()
    desk = Desk(house.backend, "ours", fail=fail, last=last)
    for what in ("fail", "last", "dump"):
        await give(house.backend, what, "ours")
    await desk.beat()
    assert [order.what for order in desk.done] == ["dump"]
    assert not desk.running.done()
    assert "the order to fail worker ours could not be carried out" in caplog.text


async def test_an_outage_delays_orders() -> None:
    """A look that the store does not answer is repeated with the next beat."""
    house = Household()
    desk = Desk(house.backend, "ours")
    order = await give(house.backend, "dump", "ours")
    house.backend.away = True
    await desk.beat()
    house.backend.away = False
    assert desk.done == []
    await desk.beat()
    assert desk.done == [order]


async def test_who_dies_over_an_order_leaves_it_taken() -> None:
    """It is not begun by anybody else, and forgotten when it should have been done."""

    async def last(_: Order) -> None:
        await asyncio.sleep(1000)

    house = Household()
    dying, heir = Desk(house.backend, "ours", last=last), Desk(house.backend, "ours", last=last)
    order = await give(house.backend, "last", "ours")
    await dying.beat()
    dying.running.cancel()
    seen = await look(house.backend, order)
    assert seen is not None
    assert seen.taken
    await heir.beat()
    assert (await look(house.backend, order)) == seen
    await asyncio.sleep(2 * LASTS.total_seconds())
    await heir.beat()
    assert waiting(house.backend) == 0


async def test_taking_an_order_back() -> None:
    """Who gave it and waits no more forgets it, and then nobody carries it out."""
    house = Household()
    desk = Desk(house.backend, "ours")
    order = await give(house.backend, "dump", "ours")
    for _ in range(2):
        await arun_procedure(house.backend.arun, forget_order(house.verbs, order.id))
    await desk.beat()
    assert desk.done == []
    assert await look(house.backend, order) is None


NONSENSE = {
    "deep": b"[" * 5000 + b"]" * 5000,
    "not_utf8": b'{"id": "\xff"}',
    "naive": b'{"id": "a", "what": "dump", "worker": "ours", "until": "2026-01-01T00:00:00"}',
    "far": b'{"id": "a", "what": "dump", "worker": "ours", "until": "9999-12-31T23:59:59Z"}',
    "other": b"garbage",
}


@pytest.mark.parametrize("body", NONSENSE.values(), ids=NONSENSE)
async def test_nonsense_in_the_store_is_in_nobodys_way_and_forgotten(body) -> None:
    """Whoever can write to the store could otherwise bring down every supervisor."""
    house = Household()
    desk = Desk(house.backend, "ours")
    change = Change(Kind.ORDER, "nonsense", 0, "token", body, due_at=house.clock.now())
    house.backend.run(house.backend.verbs.change_records([change]))
    order = await give(house.backend, "dump", "ours")
    await desk.beat()
    assert desk.done == [order]
    await asyncio.sleep(LASTS.total_seconds())
    await desk.beat()
    assert waiting(house.backend) == 0
    assert not desk.running.done()


@pytest.mark.parametrize("body", NONSENSE.values(), ids=NONSENSE)
async def test_a_permit_that_cannot_be_read_is_nobodys(body) -> None:
    house = Household()
    change = Change(Kind.PERMIT, "recycle", 0, "token", body)
    house.backend.run(house.backend.verbs.change_records([change]))
    taken = take_permit(house.backend.verbs, "recycle", "ours", timedelta(seconds=5))
    assert await arun_procedure(house.backend.arun, taken)
