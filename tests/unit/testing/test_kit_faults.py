"""A test lets handlers die or fail where they named a point, and learns what the next attempt makes of it."""

import sqlite3

import pytest

from standfast import Context, State
from standfast.events import WorkerCrashed
from standfast.testing import StandfastKit

KINDS = pytest.mark.parametrize("kind", ["plain", "on_loop"])


class Shop:
    """Handlers, and what they came to do."""

    def __init__(self, app):
        self.done = []

        @app.task(max_attempts=5, backoff=10)
        def plain(ctx: Context) -> None:
            self.work(ctx)

        @app.task(max_attempts=5, backoff=10)
        async def on_loop(ctx: Context) -> None:
            self.work(ctx)

    def work(self, ctx):
        try:
            self.done.append("charge")
            ctx.fault_point("charge")
            self.done.append("mail")
        except Exception:  # noqa: BLE001 - it is what careless handlers do
            self.done.append("swallowed")
        finally:
            self.done.append("tidy")


@pytest.fixture
def shop(app):
    return Shop(app)


@KINDS
def test_an_attempt_dies_at_the_point_and_runs_again(app, kit, shop, kind):
    """Nothing after the point runs but `finally`; the job is charged as after a real crash, and goes on."""
    handle = app.tasks[kind].enqueue()
    with kit.crash_after("charge"):
        [run] = kit.drain()
    assert shop.done == ["charge", "tidy"]
    assert (run.outcome, run.error) == ("crashed", "killed by its test at the fault point 'charge'")
    job = kit.job(handle)
    assert (job.state, job.attempt, job.crashes, job.group) == (State.READY, 1, 1, 1)
    assert [run.outcome for run in kit.drain()] == ["complete"]
    assert shop.done == ["charge", "tidy", "charge", "mail", "tidy"]
    dead, alive = app.call(app.verbs.history(handle.id))
    assert dead.worker != alive.worker
    assert sum(isinstance(event, WorkerCrashed) for event in kit.events) == 1


@pytest.mark.usefixtures("shop")
def test_a_crash_ends_the_drain_and_leaves_the_others_alone(app, kit):
    """What had not started waits for the next drain, and nothing is charged for it."""
    first, second = app.tasks["plain"].enqueue(), app.tasks["plain"].enqueue()
    kit.crash_after("charge")
    assert [run.job_id for run in kit.drain()] == [first.id]
    assert (kit.job(second).attempt, kit.job(second).fence) == (0, 0)
    assert {run.outcome for run in kit.drain()} == {"complete"}


@KINDS
def test_a_job_that_always_crashes_is_dead_after_three(app, kit, shop, kind):
    handle = app.tasks[kind].enqueue()
    with kit.crash_after("charge", times=3):
        assert [run.outcome for run in kit.drain_all()] == ["crashed"] * 3
    assert kit.job(handle).state is State.DEAD
    assert shop.done == ["charge", "tidy"] * 3


def test_a_job_that_must_not_start_twice_does_not(app, kit):
    done = []

    @app.task(max_attempts=1)
    def once(ctx: Context) -> None:
        done.append(1)
        ctx.fault_point("paid")

    handle = once.enqueue()
    with kit.crash_after("paid"):
        kit.drain_all()
    assert (kit.job(handle).state, done) == (State.DEAD, [1])


@KINDS
def test_an_ordinary_exception_is_raised_so_many_times(app, kit, kind):
    done = []

    async def on_loop(ctx: Context) -> None:
        ctx.fault_point("charge")
        done.append(ctx.attempt)

    def plain(ctx: Context) -> None:
        ctx.fault_point("charge")
        done.append(ctx.attempt)

    app.task(max_attempts=5, backoff=10)({"on_loop": on_loop, "plain": plain}[kind]).enqueue()
    with kit.fail_at("charge", ConnectionError("down"), times=2):
        runs = kit.drain_all()
    assert [run.outcome for run in runs] == ["retry", "retry", "complete"]
    assert [run.error for run in runs] == ["ConnectionError: down"] * 2 + [None]
    assert done == [3]


@pytest.mark.usefixtures("shop")
def test_a_point_that_was_not_reached_fails_the_test(app, kit):
    """It names the points that were, so that a misspelt one is found."""
    app.tasks["plain"].enqueue()
    words = "'chrage' should have struck once and struck never; points reached: 'charge' once"
    with pytest.raises(AssertionError, match=words), kit.crash_after("chrage"):
        kit.drain()


@pytest.mark.usefixtures("shop")
def test_a_fault_is_gone_after_its_block(app, kit):
    app.tasks["plain"].enqueue()
    missed = pytest.raises(AssertionError, match="2 times and struck never; points reached: none")
    with missed, kit.crash_after("charge", times=2):
        pass
    assert [run.outcome for run in kit.drain()] == ["complete"]


def test_a_failing_block_keeps_its_own_error(kit):
    with pytest.raises(ZeroDivisionError), kit.crash_after("charge"):
        1 / 0  # noqa: B018


def test_a_fault_without_a_block_must_strike_before_the_kit_ends(app):
    with pytest.raises(AssertionError, match="'charge' should have struck once"), StandfastKit(app) as kit:
        kit.crash_after("charge")


def test_a_fault_strikes_at_least_once(kit):
    with pytest.raises(ValueError, match="times must be 1 or more"):
        kit.crash_after("charge", times=0)


def test_a_transaction_is_done_once_however_the_attempt_dies(app, tmp_path):
    """Killed within it, nothing is done and the job runs again; killed after its commit, all is done for good."""
    path = tmp_path / "shop.db"
    booked = sqlite3.connect(path, isolation_level=None)
    booked.execute("CREATE TABLE booking (job)")

    @app.task
    def book(ctx: Context) -> str:
        shop = sqlite3.connect(path, isolation_level=None)
        try:
            with ctx.transaction(shop) as tx:
                shop.execute("INSERT INTO booking VALUES (?)", (ctx.job_id,))
                ctx.fault_point("within")
                tx.result = "booked"
        finally:
            shop.close()

    def count():
        return booked.execute("SELECT count(*) FROM booking").fetchone()[0]

    with StandfastKit(app, url=f"sqlite:///{path}") as kit:
        handle = book.enqueue()
        with kit.crash_after("within"):
            assert [run.outcome for run in kit.drain()] == ["crashed"]
        assert (count(), kit.job(handle).state) == (0, State.READY)
        with kit.crash_after("transaction"):
            assert [run.outcome for run in kit.drain()] == ["complete"]
        assert (count(), kit.job(handle).state) == (1, State.COMPLETED)
        assert kit.drain_all() == []
        assert handle.result() == "booked"
    booked.close()
