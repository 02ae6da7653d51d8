"""However many ask, the store is looked at by one at a time and once a second, and nobody waits for it for long."""

import asyncio
import gc
import logging
import threading
from datetime import UTC, datetime

import pytest

from standfast.errors import StoreUnavailableError
from standfast.observe.health.status import CachedRead, StoreStatus
from standfast.stores.values import QueueAges

SEEN = StoreStatus(ages=QueueAges(datetime.now(UTC)))


def broken(problem):
    return StoreStatus(problem=problem)


class Store:
    """Counts looks; answers when it may."""

    def __init__(self):
        self.looks = 0
        self.at_once = 0
        self.most_at_once = 0
        self.may_answer = threading.Event()
        self.may_answer.set()
        self.asked = threading.Event()
        self.error = None

    def __call__(self):
        self.looks += 1
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        self.asked.set()
        assert self.may_answer.wait(30)
        self.at_once -= 1
        if self.error is not None:
            raise self.error
        return SEEN


@pytest.fixture
def store():
    made = Store()
    yield made
    made.may_answer.set()


class Time:
    now = 0.0

    def __call__(self):
        return self.now


def test_a_second_is_one_look(store):
    time = Time()
    looks = CachedRead(store, broken, clock=time)
    assert [looks.seen() for _ in range(50)] == [SEEN] * 50
    assert store.looks == 1
    time.now = 0.99
    looks.seen()
    assert store.looks == 1
    time.now = 1.0
    looks.seen()
    assert store.looks == 2


def test_many_who_ask_at_once_share_one(store):
    store.may_answer.clear()
    looks = CachedRead(store, broken, patience=30)
    found = []
    threads = [threading.Thread(target=lambda: found.append(looks.seen())) for _ in range(20)]
    for thread in threads:
        thread.start()
    assert store.asked.wait(10)
    store.may_answer.set()
    for thread in threads:
        thread.join()
    assert found == [SEEN] * 20
    assert (store.looks, store.most_at_once) == (1, 1)


def test_a_store_that_hangs_is_told_of_in_time_and_not_asked_again(store):
    store.may_answer.clear()
    time = Time()
    looks = CachedRead(store, broken, patience=0.05, clock=time)
    assert looks.seen().problem == "does not answer"
    time.now = 100.0
    assert [looks.seen().problem for _ in range(20)] == ["does not answer"] * 20
    assert store.looks == 1
    store.may_answer.set()
    looks._last.seen.result(10)
    assert looks.seen() == SEEN
    assert store.looks == 2


async def test_waiting_on_an_event_loop_takes_no_thread_of_it(store):
    store.may_answer.clear()
    looks = CachedRead(store, broken, patience=0.05)
    before = threading.active_count()
    hung = await asyncio.gather(*(looks.aseen() for _ in range(50)))
    assert {seen.problem for seen in hung} == {"does not answer"}
    assert threading.active_count() <= before + 1
    store.may_answer.set()
    looks._last.seen.result(10)
    assert await looks.aseen() == SEEN


async def test_those_who_come_while_it_hangs_leave_nothing_behind(store):
    store.may_answer.clear()
    time = Time()
    looks = CachedRead(store, broken, clock=time)
    first = asyncio.ensure_future(looks.aseen())
    await asyncio.sleep(0)
    time.now = 100.0
    before = len(gc.get_objects())
    for _ in range(500):
        assert (await looks.aseen()).problem == "does not answer"
    gc.collect()
    assert len(gc.get_objects()) < before + 500
    store.may_answer.set()
    assert await first == SEEN


def test_a_look_that_cannot_begin_is_told_of_and_tried_again(store):
    time = Time()
    looks = CachedRead(store, broken, clock=time)
    usual = threading.stack_size(2**46)  # more than there is for any thread
    try:
        assert looks.seen().problem == "cannot be used"
    finally:
        threading.stack_size(usual)
    time.now = 1.0
    assert looks.seen() == SEEN


async def test_one_who_goes_away_does_not_end_the_look_of_others(store):
    store.may_answer.clear()
    looks = CachedRead(store, broken, patience=30)
    first, second = (asyncio.ensure_future(looks.aseen()) for _ in range(2))
    await asyncio.sleep(0)
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    store.may_answer.set()
    assert await second == SEEN


def test_what_is_wrong_is_in_the_log_once_and_not_in_the_answer(store, caplog):
    time = Time()
    looks = CachedRead(store, broken, clock=time)
    with caplog.at_level(logging.INFO):
        for error in (StoreUnavailableError("db.internal is away"), ValueError("password=hunter2"), None):
            store.error = error
            assert looks.seen().problem == (error and "cannot be used")
            time.now += 1
    assert [record.getMessage() for record in caplog.records] == [
        "health: the store cannot be asked: db.internal is away",
        "health: the store answers again",
    ]
    store.error = ValueError("password=hunter2")
    looks.seen()
    assert caplog.records[-1].getMessage() == "health: the store cannot be asked: internal error: ValueError"
