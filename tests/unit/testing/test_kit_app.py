"""A kit puts an app on a store of the test's own, and puts everything back."""

import asyncio
import sqlite3
from datetime import timedelta

import pytest

from standfast import ConfigurationError, Context, KeyTakenError, Standfast, State
from standfast.model.clock import SystemClock
from standfast.stores.contract import count_states
from standfast.stores.memory.store import MemoryBackend
from standfast.stores.waiter import Waiter
from standfast.testing import StandfastKit
from standfast.testing.clock import FakeClock


@pytest.fixture
def app(tmp_path):
    """Give an app as users have it: declared once, on a file."""
    app = Standfast(f"sqlite:///{tmp_path / 'own.db'}")

    @app.task
    def add(a: int, b: int) -> int:
        return a + b

    yield app
    app.close()


def states(app):
    return {state: count for state, count in app.call(count_states(app.verbs)).items() if count}


def test_the_app_lives_in_memory_for_the_block_alone(app, tmp_path):
    add = app.tasks["add"]
    with StandfastKit(app) as kit:
        handle = add.enqueue(1, 2)
        kit.drain()
        assert handle.result() == 3
        assert app.clock is kit.clock
    assert not (tmp_path / "own.db").exists()
    assert isinstance(app.clock, SystemClock)
    assert states(app) == {}


def test_an_open_store_stays_open_and_untouched(app):
    add = app.tasks["add"]
    ours = add.enqueue(1, 2)
    backend = app.backend
    with StandfastKit(app) as kit:
        assert states(app) == {}
        add.enqueue(3, 4)
        kit.drain()
    assert app.backend is backend
    assert ours.status() is State.READY
    assert states(app) == {State.READY: 1}


def test_an_app_that_closes_itself_does_not_fall_back_on_its_own_store(app, tmp_path):
    """`with app:` in the code under test ends there and not the test's store."""
    with StandfastKit(app) as kit:
        with app:
            handle = app.tasks["add"].enqueue(1, 2)
        kit.drain()
        assert handle.result() == 3
    assert not (tmp_path / "own.db").exists()


def test_everything_is_put_back_after_a_failure_too(app):
    with pytest.raises(ZeroDivisionError), StandfastKit(app):
        1 / 0  # noqa: B018
    assert isinstance(app.clock, SystemClock)


def test_a_kit_within_a_kit_has_jobs_of_its_own(app):
    with StandfastKit(app) as outer:
        app.tasks["add"].enqueue(1, 2)
        with StandfastKit(app) as inner:
            assert inner.enqueued() == []
        assert len(outer.enqueued()) == 1


def test_every_way_to_enqueue_works(app):
    add = app.tasks["add"]

    async def from_async_code():
        return [await add.aenqueue(1, 1), *await add.aenqueue_many([{"a": 2, "b": 2}])]

    with StandfastKit(app) as kit:
        handles = [add.enqueue(0, 0), *add.enqueue_many([{"a": 3, "b": 3}]), *asyncio.run(from_async_code())]
        kit.drain()
        assert [handle.result() for handle in handles] == [0, 6, 2, 4]


def test_keys_work(app):
    add = app.tasks["add"]
    with StandfastKit(app) as kit:
        first = add.options(key="k").enqueue(1, 2)
        assert add.options(key="k").enqueue(3, 4) == first
        with pytest.raises(KeyTakenError):
            add.options(key="k", on_conflict="raise").enqueue(3, 4)
        assert len(kit.drain()) == 1


def test_the_clock_starts_now_or_where_it_is_told_and_stands_still(app):
    """Code under test that says `at=datetime.now() + …` means what it says."""
    with StandfastKit(app) as kit:
        now = kit.clock.now()
        assert abs(now - SystemClock().now()) < timedelta(minutes=1)
        assert kit.clock.now() == now
        kit.advance(timedelta(hours=1))
        assert kit.clock.now() == now + timedelta(hours=1)
    later = now + timedelta(days=400)
    assert StandfastKit(app, start=later).clock.now() == later


def test_memory_refuses_transactions_clearly(app):
    @app.task
    def book(ctx: Context) -> None:
        with ctx.transaction(sqlite3.connect(":memory:")):
            pass

    with StandfastKit(app) as kit:
        with pytest.raises(ConfigurationError, match="sqlite:///"):
            app.tasks["add"].options(tx=sqlite3.connect(":memory:")).enqueue(1, 2)
        book.enqueue()
        with pytest.raises(ConfigurationError, match="sqlite:///"):
            kit.drain(raising=True)


def test_on_a_file_transactions_can_be_tested(app, tmp_path):
    """A job enqueued in a transaction exists once that commits, and one that rolls back leaves none."""
    path = tmp_path / "shop.db"
    with StandfastKit(app, url=f"sqlite:///{path}") as kit:
        app.prepare()
        shop = sqlite3.connect(path, isolation_level=None)
        for ending in ("ROLLBACK", "COMMIT"):
            shop.execute("BEGIN IMMEDIATE")
            app.tasks["add"].options(tx=shop).enqueue(1, 2)
            shop.execute(ending)
        shop.close()
        assert [run.result for run in kit.drain()] == [3]


def test_a_kit_that_was_not_entered_says_so(app):
    with pytest.raises(RuntimeError, match="with StandfastKit"):
        StandfastKit(app).drain()


def test_events_are_kept_and_passed_on(app):
    heard = []
    app.events.subscribe(heard.append)
    with StandfastKit(app) as kit:
        app.tasks["add"].enqueue(1, 2)
        kit.drain()
        assert [type(event).__name__ for event in kit.events] == ["JobStarted", "JobCompleted"]
    assert heard == kit.events


def test_the_app_is_put_back_also_where_closing_fails(app):
    class Stuck(Waiter):
        def close(self) -> None:
            super().close()
            raise OSError("stuck")

    own, store = app.clock, MemoryBackend()
    waiter = Stuck(store)
    with pytest.raises(OSError, match="stuck"), app.elsewhere(store, waiter, FakeClock()):
        assert app.waiter is waiter
    assert app.clock is own
    assert app.backend is not store
