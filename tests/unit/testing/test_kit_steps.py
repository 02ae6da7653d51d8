"""A test can run a handler that waits, send it the signal, and run it again; steps are done once in between."""

import asyncio
import logging
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import timedelta
from pathlib import Path

import pytest

from standfast import (
    ArgumentsError,
    Context,
    Exponential,
    Fail,
    JobNotFoundError,
    JobStateError,
    Retries,
    Standfast,
    WaitTimeoutError,
)
from standfast.events import JobSnoozed
from standfast.model.job import JobAction
from standfast.stores.contract import change_job
from standfast.testing import StandfastKit


@pytest.fixture
def app():
    return Standfast("memory://")


@pytest.fixture
def kit(app):
    with StandfastKit(app) as kit:
        yield kit


@pytest.fixture(params=["sync", "async"])
def buy(request, app):
    """A handler that charges, waits for an approval, and ships; `done` says what was done."""
    done = []

    if request.param == "sync":

        @app.task(name="buy")
        def buy(ctx: Context, order: int) -> str:
            ctx.step("charge", done.append, f"charged {order}")
            try:
                who = ctx.wait_for("approved", timeout=3600)
            except WaitTimeoutError:
                ctx.step("refund", done.append, f"refunded {order}")
                return "nobody"
            ctx.sleep_until(60)
            ctx.step("ship", done.append, f"shipped {order}")
            return who

    else:

        @app.task(name="buy")
        async def buy(ctx: Context, order: int) -> str:
            await ctx.astep("charge", done.append, f"charged {order}")
            try:
                who = await ctx.await_for("approved", timeout=timedelta(hours=1))
            except WaitTimeoutError:
                await ctx.astep("refund", done.append, f"refunded {order}")
                return "nobody"
            await ctx.asleep_until(60)
            await ctx.astep("ship", done.append, f"shipped {order}")
            return who

    buy.done = done
    return buy


def test_a_handler_that_waits_goes_on_when_the_signal_comes(app, kit, buy):
    """Run, signal, run: nothing is done twice, and no attempt is charged."""
    handle = buy.enqueue(7)
    assert [run.outcome for run in kit.drain()] == ["snooze"]
    assert kit.drain() == []
    assert (handle.job().state, handle.job().reason) == ("scheduled", "signal:approved")
    app.signal(handle, "approved", "ada")
    assert [run.outcome for run in kit.drain()] == ["snooze"]
    assert handle.job().reason == "sleep"
    kit.advance(60)
    assert [(run.outcome, run.attempt, run.result) for run in kit.drain()] == [("complete", 1, "ada")]
    assert buy.done == ["charged 7", "shipped 7"]
    assert [event.reason for event in kit.events if isinstance(event, JobSnoozed)] == ["signal:approved", "sleep"]


def test_a_signal_that_does_not_come_in_time(kit, buy):
    """The clock of the test decides."""
    handle = buy.enqueue(7)
    kit.drain()
    kit.advance(3599)
    assert kit.drain() == []
    kit.advance(1)
    kit.drain()
    assert handle.result() == "nobody"
    assert buy.done == ["charged 7", "refunded 7"]


def test_drain_all_passes_times_and_waits_for_nobody_for_ever(app, kit):
    """A wait without a timeout stays; the clock does not run a hundred years ahead."""

    @app.task
    def wait(ctx: Context) -> None:
        ctx.sleep_until(timedelta(days=2))
        ctx.wait_for("never")

    handle, began = wait.enqueue(), kit.clock.now()
    kit.drain_all()
    assert kit.clock.now() - began == timedelta(days=2)
    assert handle.job().reason == "signal:never"
    handle.signal("never")
    kit.drain_all()
    assert handle.status() == "completed"


async def test_signals_from_async_code(app, kit, buy):
    handle = await buy.aenqueue(7)
    await kit.adrain()
    await app.asignal(handle.id, "approved", "bob")
    await kit.adrain()
    kit.advance(60)
    await kit.adrain()
    assert await handle.aresult() == "bob"


def test_a_job_with_one_attempt_waits_as_well(app, kit):
    """It ended its run by itself, and so runs again."""

    @app.task(max_attempts=1)
    def once(ctx: Context) -> int:
        return ctx.wait_for("go")

    handle = once.enqueue()
    kit.drain()
    handle.signal("go", 5)
    kit.drain()
    assert handle.result() == 5


def test_a_suspension_passes_middleware(app, kit):
    """Middleware sees it go by, and `except Exception` there does not catch it."""
    seen = []

    @app.middleware
    async def watch(_, call_next):
        try:
            return await call_next()
        except Exception as error:  # noqa: BLE001 - that is the point
            seen.append(error)

    @app.task
    def wait(ctx: Context) -> str:
        return ctx.wait_for("go")

    handle = wait.enqueue()
    kit.drain()
    handle.signal("go", "on")
    kit.drain()
    assert handle.result() == "on"
    assert seen == []


@pytest.mark.parametrize("kind", ["sync", "async", "thread"])
def test_a_handler_that_swallows_its_suspension_waits_all_the_same(app, kit, caplog, kind):
    """What came after it did so without the signal, so its job is not completed by that; and somebody is told."""

    @app.task(name="sync")
    def swallow(ctx: Context) -> str:
        with suppress(BaseException):
            return ctx.wait_for("go")
        return "unasked"

    @app.task(name="async")
    async def aswallow(ctx: Context) -> str:
        [answer] = await asyncio.gather(ctx.await_for("go"), return_exceptions=True)
        return answer if isinstance(answer, str) else "unasked"

    @app.task(name="thread")
    def in_thread(ctx: Context) -> str:
        with ThreadPoolExecutor(1) as pool:
            waiting = pool.submit(ctx.wait_for, "go")
        return waiting.result() if waiting.exception() is None else "unasked"

    handle = app.tasks[kind].enqueue()
    kit.drain()
    assert (handle.job().state, handle.job().reason) == ("scheduled", "signal:go")
    assert "waits for signal 'go', and its handler went on" in caplog.text
    handle.signal("go", "asked")
    kit.drain()
    assert handle.result() == "asked"


@pytest.mark.parametrize("ends", ["returns", "raises"])
def test_a_handler_that_swallows_the_refusal_of_a_step_is_not_done(app, kit, ends):
    """`except Exception` around a step is common, and would hide that the step was neither done nor found."""
    name = ["charge"]

    @app.task
    def buy(ctx: Context) -> None:
        try:
            ctx.step(name[0], int)
        except Exception:  # noqa: BLE001 - that is the point
            if ends == "raises":
                raise OSError("something went wrong") from None
            return
        ctx.wait_for("go")

    handle = buy.enqueue()
    kit.drain()
    name[0] = "pay"
    handle.signal("go")
    kit.drain()
    assert handle.job().state == "dead"
    assert "has done step 'charge', and this code comes first to step 'pay'" in handle.job().error


def test_a_changed_step_is_deadly_and_a_fixed_deploy_goes_on(app, kit):
    """No attempt is wasted on it, whatever the policy says; retried with the old name, the job goes on."""
    name, done = ["charge"], []

    @app.task(max_attempts=9, discard_on=Exception)
    def buy(ctx: Context) -> None:
        ctx.step(name[0], done.append, "charged")
        ctx.wait_for("go")

    handle = buy.enqueue()
    kit.drain()
    name[0] = "pay"
    handle.signal("go")
    kit.drain()
    assert handle.job().state == "dead"
    assert "has done step 'charge', and this code comes first to step 'pay'" in handle.job().error
    name[0] = "charge"
    app.call(change_job(app.verbs, JobAction.RETRY, handle.id))
    kit.drain()
    assert handle.status() == "completed"
    assert done == ["charged"]


def test_steps_that_are_left_over_are_logged(app, kit, caplog):
    """Only by the run that completes the job."""
    names = [["a", "b"]]

    @app.task
    def work(ctx: Context) -> None:
        for name in names[0]:
            ctx.step(name, int)
        ctx.wait_for("go")

    handle = work.enqueue()
    kit.drain()
    names[0] = ["a"]
    with caplog.at_level(logging.WARNING):
        handle.signal("go")
        kit.drain()
    assert "completed without asking for steps that it did before: b; were they removed" in caplog.text


@pytest.mark.parametrize("what", ["astep", "asleep_until", "await_for"])
def test_a_call_that_nobody_awaits_is_deadly_and_named_by_its_line(app, kit, what):
    """The job would complete without its step, or take a coroutine for an approval."""
    calls = {"astep": ("charge", int), "asleep_until": (60,), "await_for": ("approved",)}

    @app.task
    async def buy(ctx: Context) -> str:
        await ctx.astep("ask", int)
        answer = getattr(ctx, what)(*calls[what])  # the line
        return "shipped" if answer else "refused"

    with Path(__file__).open() as lines:
        line = next(number for number, line in enumerate(lines, 1) if line.endswith("# the line\n"))
    handle = buy.enqueue()
    kit.drain()
    job = handle.job()
    assert job.state == "dead"
    assert f"in test_kit_steps.py, line {line}, was not awaited, and nothing of it was done" in job.error
    assert f"ctx.{what}(" in job.error


def test_a_failure_after_a_call_that_nobody_awaits_is_told_of_with_its_line(app, kit, caplog):
    """A coroutine that was taken for an answer fails in ways that do not say so."""

    @app.task(max_attempts=2)
    async def buy(ctx: Context) -> str:
        answer = ctx.await_for("approved")
        return answer["by"]

    handle = buy.enqueue()
    kit.drain()
    assert handle.job().error.startswith("TypeError: 'coroutine' object is not subscriptable")
    (told,) = caplog.messages
    assert told.startswith("ctx.await_for('approved') in test_kit_steps.py, line ")


def test_steps_that_were_cancelled_before_they_began_are_not_forgotten_ones(app, kit):
    """A group that fails cancels the others, and its handler may go on without them."""

    @app.task
    async def work(ctx: Context) -> str:
        async def away() -> None:
            raise OSError("away")

        with suppress(BaseExceptionGroup):
            async with asyncio.TaskGroup() as group:
                group.create_task(away())
                await asyncio.sleep(0)
                group.create_task(ctx.astep("late", int))
        return "without it"

    handle = work.enqueue()
    kit.drain()
    assert handle.result() == "without it"


def test_a_signal_with_nearly_the_name_that_is_waited_for_is_told_of(app, kit, caplog):
    """It is kept all the same; one with another name may be for a later wait, and nothing is said of it."""

    @app.task
    def buy(ctx: Context) -> None:
        ctx.wait_for("approved")

    handle = buy.enqueue()
    kit.drain()
    handle.signal("paid")
    assert caplog.messages == []
    handle.signal("aproved")
    assert caplog.messages == [
        f"job {handle.id} was sent signal 'aproved', and waits for signal 'approved': was that meant?"
    ]
    handle.signal("approved")
    kit.drain()
    assert handle.status() == "completed"


def test_a_step_is_tried_again_without_a_wait_and_then_fails_its_attempt(app, kit):
    """The clock of a test stands still: the backoff of a step takes no time."""
    tries = []

    def call() -> None:
        tries.append(1)
        raise OSError("away")

    @app.task(max_attempts=2, backoff=30)
    def work(ctx: Context) -> None:
        ctx.step("call", call, retry=Retries(3, Exponential(base=100)))

    handle = work.enqueue()
    kit.drain()
    assert (len(tries), handle.job().attempt) == (3, 1)
    kit.drain_all()
    assert (len(tries), handle.job().state) == (6, "dead")


def test_a_step_that_is_left_behind_is_outlasted(app, kit):
    """`gather` raises what the first raised, and lets the others run: the next attempt must not run them again."""
    done = []

    @app.task
    async def work(ctx: Context) -> None:
        async def slow() -> None:
            done.append("begun")
            await asyncio.sleep(0.2)
            done.append("over")

        async def fail_once() -> None:
            if ctx.attempt == 1:
                raise OSError("away")

        await asyncio.gather(ctx.astep("slow", slow), ctx.astep("fail", fail_once))

    handle = work.enqueue()
    kit.drain_all()
    assert (handle.job().attempt, handle.status(), done) == (1, "completed", ["begun", "over"])


def test_an_outcome_inside_a_step_is_the_outcome_of_the_attempt(app, kit):
    def give_up() -> None:
        raise Fail("no such order")

    @app.task
    def work(ctx: Context) -> None:
        ctx.step("look", give_up, retry=5)

    handle = work.enqueue()
    kit.drain()
    assert handle.job().error == "Fail: no such order"


@pytest.mark.parametrize("when", ["before", "inside", "after"])
def test_a_crash_beside_a_step(app, kit, when):
    """Before it and inside of it, it runs again; after it, it does not."""
    done = []

    @app.task
    def work(ctx: Context) -> None:
        def act() -> None:
            done.append(ctx.idempotency_key)
            ctx.fault_point("inside")

        ctx.fault_point("before")
        ctx.step("act", act)
        ctx.fault_point("after")

    work.enqueue()
    with kit.crash_after(when):
        kit.drain_all()
    assert len(done) == (2 if when == "inside" else 1)
    assert len(set(done)) == 1


def test_a_step_commits_with_rows_of_the_apps_own(app, tmp_path):
    """On a SQLite file: a crash before the commit has done nothing, one after it all, and no row is there twice."""
    file = tmp_path / "shop.db"

    @app.task
    def work(ctx: Context) -> int:
        own = sqlite3.connect(file)
        try:

            def insert() -> int:
                own.execute("INSERT INTO booking VALUES (1)")
                ctx.fault_point("inside")
                return 7

            booked = ctx.step("book", insert, tx=own)
            ctx.fault_point("after")
            return booked
        finally:
            own.close()

    with StandfastKit(app, url=f"sqlite:///{file}") as kit:
        app.prepare()
        with sqlite3.connect(file) as own:
            own.execute("CREATE TABLE booking (n INTEGER)")
        for point in ("inside", "after"):
            handle = work.enqueue()
            with kit.crash_after(point):
                kit.drain_all()
            assert handle.result() == 7
        with sqlite3.connect(file) as own:
            assert own.execute("SELECT count(*) FROM booking").fetchone() == (2,)


def test_a_signal_to_nobody_is_refused(app, kit, buy):
    """An unknown job, one that is over, and what cannot be sent, each with what is wrong."""
    handle = buy.enqueue(7)
    kit.drain()
    with pytest.raises(JobNotFoundError):
        app.signal("0197b1c2-7d1e-7c3a-9f60-5a4b3c2d1e0f", "approved")
    for name, data, words in [
        ("a:b", None, "without ':'"),
        ("", None, "a signal's name"),
        ("approved", object(), "cannot be sent"),
        ("approved", float("nan"), "not finite"),
        ("approved", "x" * 300_000, "at most 262,144 are stored"),
    ]:
        with pytest.raises(ArgumentsError, match=words):
            handle.signal(name, data)
    with pytest.raises(ArgumentsError, match="a job is meant by itself, its handle or its id, not by 7"):
        app.signal(7, "approved")
    handle.cancel()
    with pytest.raises(JobStateError, match=r"is over, and takes no signal 'approved' any more"):
        app.signal(handle.job(), "approved")
