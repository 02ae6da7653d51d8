"""A drain runs what is due, as a worker would, and time passes when the test says so."""

import asyncio
import logging
import sqlite3
import threading
from contextlib import closing, suppress
from typing import Annotated

import pytest

from standfast import (
    ConfigurationError,
    Context,
    Discard,
    Fail,
    JobStateError,
    Retry,
    Secret,
    Snooze,
    State,
    current_context,
)
from standfast.events import JobProgressed
from standfast.testing import StandfastKit
from standfast.worker import execution


def outcomes(runs):
    return [(run.task, run.attempt, run.outcome) for run in runs]


def test_due_jobs_run_in_the_order_of_the_store(app, kit):
    seen = []

    @app.task
    def note(word: str) -> None:
        seen.append(word)

    note.enqueue("second")
    note.enqueue("third")
    note.options(priority=5).enqueue("first")
    assert outcomes(kit.drain()) == [("note", 1, "complete")] * 3
    assert seen == ["first", "second", "third"]


def test_a_drain_reports_results_and_errors(app, kit):
    @app.task
    async def halve(number: int) -> float:
        if number % 2:
            raise ValueError("it is odd")
        return number / 2

    handles = [halve.enqueue(4), halve.enqueue(3)]
    even, odd = kit.drain()
    assert (even.job_id, even.result, even.error) == (handles[0].id, 2.0, None)
    assert (odd.job_id, odd.result, odd.error) == (handles[1].id, None, "ValueError: it is odd")


def test_a_result_that_would_be_read_back_changed_fails_its_run(app, kit):
    @app.task
    def count() -> int:
        return "many"

    handle = count.enqueue()
    [run] = kit.drain()
    assert (run.outcome, run.result) == ("die", None)
    assert run.error.startswith("ResultEncodingError: the result, of type str, does not fit the return annotation")
    assert handle.status() is State.DEAD


def test_what_handlers_enqueue_runs_too(app, kit):
    @app.task
    def leaf() -> None: ...

    @app.task
    async def root() -> None:
        await leaf.aenqueue()
        leaf.enqueue()

    root.enqueue()
    assert [run.task for run in kit.drain()] == ["root", "leaf", "leaf"]
    assert kit.drain() == []


def test_a_delayed_job_runs_when_its_time_has_come(app, kit):
    @app.task
    def later() -> None: ...

    handle = later.options(delay=60).enqueue()
    assert kit.drain() == []
    kit.advance(59.9)
    assert kit.drain() == []
    kit.advance(0.1)
    assert len(kit.drain()) == 1
    assert handle.status() is State.COMPLETED


def test_a_failure_is_tried_again_by_its_policy(app, kit):
    @app.task(max_attempts=3, backoff=30)
    def flaky() -> None:
        raise ConnectionError("down")

    handle = flaky.enqueue()
    assert outcomes(kit.drain()) == [("flaky", 1, "retry")]
    assert kit.drain() == []
    kit.advance(30)
    assert outcomes(kit.drain()) == [("flaky", 2, "retry")]
    before = kit.clock.now()
    assert outcomes(kit.drain_all()) == [("flaky", 3, "die")]
    assert (kit.clock.now() - before).total_seconds() == 30
    assert handle.status() is State.DEAD


def test_drain_all_goes_through_all_that_waits_for_its_time(app, kit):
    seen = []

    @app.task
    def note(word: str) -> None:
        seen.append((word, kit.clock.now() - began))

    began = kit.clock.now()
    for delay in (86_400, 3600, 0):
        note.options(delay=delay).enqueue(f"{delay}")
    kit.drain_all()
    assert [(word, span.total_seconds()) for word, span in seen] == [("0", 0), ("3600", 3600), ("86400", 86_400)]


@pytest.mark.parametrize("with_middleware", [False, True])
def test_raising_raises_what_the_handler_raised(app, kit, with_middleware):
    """The exception itself, with a note of whose it is; what became of the job is recorded all the same."""
    error = ConnectionError("down")

    if with_middleware:

        @app.middleware
        async def around(_: Context, call_next):
            return await call_next()

    @app.task
    def plain() -> None:
        raise error

    @app.task
    async def on_loop() -> None:
        raise error

    for task in (plain, on_loop):
        handle = task.enqueue()
        with pytest.raises(ConnectionError) as raised:
            kit.drain(raising=True)
        assert raised.value is error
        assert any(handle.id in note for note in error.__notes__)
        assert handle.job().attempt == 1


def test_raising_raises_what_middleware_made_of_it(app, kit):
    @app.middleware
    async def around(_: Context, call_next):
        try:
            return await call_next()
        except KeyError as error:
            raise PermissionError("not yours") from error

    @app.task
    def broken() -> None:
        raise KeyError

    broken.enqueue()
    with pytest.raises(PermissionError, match="not yours"):
        kit.drain(raising=True)


def test_raising_leaves_alone_what_is_no_failure(app, kit):
    @app.task
    def sleepy() -> None:
        raise Snooze(60)

    @app.middleware
    async def forgiving(_: Context, call_next):
        try:
            return await call_next()
        except KeyError:
            return "forgiven"

    @app.task
    def forgiven() -> str:
        raise KeyError

    sleepy.enqueue()
    forgiven.enqueue()
    assert [run.outcome for run in kit.drain(raising=True)] == ["snooze", "complete"]


def test_raising_tells_of_failures_that_are_no_exceptions(app, kit):
    @app.task(timeout=0.01)
    async def slow() -> None:
        await asyncio.sleep(60)

    @app.task
    async def unsure() -> Retry:
        return Retry("not now")

    slow.enqueue()
    with pytest.raises(AssertionError, match=r"slow.*timeout of 0.01 s"):
        kit.drain(raising=True)
    unsure.enqueue()
    with pytest.raises(AssertionError, match=r"unsure.*not now"):
        kit.drain(raising=True)


@pytest.mark.parametrize("kind", ["on_loop", "in_thread", "within"])
def test_raising_raises_what_is_ignored_after_a_transaction(app, quick_path, kind):
    """The job is completed with the first rows alone, so a test that goes on would not notice that others lack."""
    path = quick_path / "shop.db"

    def write(ctx: Context) -> None:
        with closing(sqlite3.connect(path)) as shop:
            for account in (1, 2):
                with ctx.transaction(shop):
                    shop.execute("INSERT INTO booking VALUES (?)", (account,))

    async def awrite(ctx: Context) -> None:
        write(ctx)

    @app.task
    async def changes_its_mind(ctx: Context) -> None:
        with closing(sqlite3.connect(path)) as shop, ctx.transaction(shop):
            shop.execute("INSERT INTO booking VALUES (3)")
        raise Snooze(60)

    if kind == "within":

        @app.middleware
        async def around(_: Context, call_next):
            return await call_next()

    book = app.task(awrite if kind == "on_loop" else write, name="book")
    with StandfastKit(app, url=f"sqlite:///{path}") as kit, closing(sqlite3.connect(path)) as shop:
        shop.execute("CREATE TABLE booking (account)")
        first, second = book.enqueue(), book.enqueue()
        with pytest.raises(JobStateError, match="completed by an earlier transaction") as raised:
            kit.drain(raising=True)
        assert any(first.id in note and "transaction" in note for note in raised.value.__notes__)
        assert [run.outcome for run in kit.drain()] == ["complete"]
        assert {first.status(), second.status()} == {State.COMPLETED}
        changes_its_mind.enqueue()
        with pytest.raises(AssertionError, match=r"changes_its_mind.*completed by its transaction.*snooze"):
            kit.drain(raising=True)
        assert shop.execute("SELECT account FROM booking ORDER BY 1").fetchall() == [(1,), (1,), (3,)]


@pytest.mark.parametrize("kind", ["on_loop", "in_thread", "in_a_group"])
@pytest.mark.parametrize(
    ("outcome", "ends"), [(Snooze(60), "snooze"), (Discard("gone"), "cancel"), (Fail(), "die")]
)
def test_an_outcome_passes_whatever_catches_exceptions(app, kit, kind, outcome, ends):
    """`except Exception` is about what went wrong, and an outcome is what the handler says."""

    @app.middleware
    async def counting(_: Context, call_next):
        with suppress(Exception):
            return await call_next()

    def work() -> str:
        try:
            raise outcome  # noqa: TRY301 - as people write it
        except Exception:  # noqa: BLE001 - as people write it
            return "swallowed"

    async def on_loop() -> str:
        return work()

    async def in_a_group() -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(on_loop())
            group.create_task(asyncio.sleep(60))

    app.task({"on_loop": on_loop, "in_thread": work, "in_a_group": in_a_group}[kind], name="work").enqueue()
    assert [run.outcome for run in kit.drain()] == [ends]


def test_plain_functions_run_in_threads(app, kit):
    @app.task
    def where() -> bool:
        return threading.current_thread() is threading.main_thread()

    where.enqueue()
    assert [run.result for run in kit.drain()] == [False]


def test_middleware_lifespans_and_log_tails_are_those_of_a_worker(app, kit):
    seen = []

    @app.lifespan
    async def life(_):
        seen.append("up")
        yield
        seen.append("down")

    @app.middleware
    async def around(ctx: Context, call_next):
        seen.append(f"around {ctx.task}")
        return await call_next()

    @app.task
    def work(token: Annotated[str, Secret]) -> None:
        logging.getLogger("shop").warning("using %s", token)

    handle = work.enqueue("swordfish")
    kit.drain()
    assert seen == ["up", "around work", "down"]
    [attempt] = app.call(app.verbs.history(handle.id))
    assert "using ••••" in attempt.log
    assert not any(type(handler).__name__ == "TailHandler" for handler in logging.getLogger("shop").handlers)


def test_a_job_that_is_too_late_expires(app, kit):
    @app.task(start_within=60, on_late="expire")
    def urgent() -> None: ...

    handle = urgent.enqueue()
    kit.advance(61)
    assert [run.outcome for run in kit.drain()] == ["cancel"]
    assert handle.job().reason == "expired"


def test_a_paused_queue_gives_nothing(app, kit):
    @app.task(queue="mail")
    def send() -> None: ...

    send.enqueue()
    app.call(app.verbs.pause("mail"))
    assert kit.drain_all() == []
    app.call(app.verbs.resume("mail"))
    assert len(kit.drain()) == 1


def test_a_handler_sees_its_cancellation_at_once(app, kit):
    seen = []

    @app.task
    def long(ctx: Context) -> None:
        seen.append(ctx.cancelled)
        app.handle(ctx.job_id).cancel()
        seen.append(ctx.cancelled)
        ctx.raise_if_cancelled()

    handle = long.enqueue()
    assert [run.outcome for run in kit.drain()] == ["cancel"]
    assert seen == [False, True]
    assert handle.status() is State.CANCELLED


def test_progress_is_told_word_for_word(app, kit):
    @app.task
    def count(ctx: Context) -> None:
        for number in range(3):
            ctx.progress(number, 3)

    handle = count.enqueue()
    kit.drain()
    assert [event.progress.done for event in kit.events if isinstance(event, JobProgressed)] == [0, 1, 2]
    assert [step.done for step in handle.progress()] == [2]


def test_async_tests_await(app, kit):
    """On the running loop, and the blocking way is refused there with the remedy."""
    loops = []

    @app.task(max_attempts=2, backoff=60)
    async def where() -> None:
        loops.append(asyncio.get_running_loop())
        raise ConnectionError

    async def test():
        await where.aenqueue()
        with pytest.raises(RuntimeError, match=r"await kit\.adrain"):
            kit.drain()
        assert [run.outcome for run in await kit.adrain()] == ["retry"]
        assert [run.outcome for run in await kit.adrain_all()] == ["die"]
        assert set(loops) == {asyncio.get_running_loop()}

    asyncio.run(test())


def test_a_cancelled_drain_gives_the_job_back(app, kit):
    ended = []

    @app.task
    async def endless() -> None:
        try:
            await asyncio.sleep(3600)
        finally:
            ended.append(True)

    handle = endless.enqueue()

    async def test():
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await kit.adrain()
        assert ended == [True]

    asyncio.run(test())
    job = handle.job()
    assert (job.state, job.attempt) == (State.READY, 0)


@pytest.mark.parametrize("drain", ["drain", "drain_all"])
def test_what_has_no_end_is_an_error(app, kit, drain):
    @app.task
    def again() -> None:
        raise Snooze(0 if drain == "drain" else 60)

    again.enqueue()
    with pytest.raises(AssertionError, match="11 of them of again, and there is no end"):
        getattr(kit, drain)(limit=10)


def test_a_task_that_is_declared_later_takes_what_waits_for_it(app, kit):
    def work() -> None: ...

    task = app.task(work)
    handle = task.enqueue()
    del app._tasks["work"]
    assert [run.outcome for run in kit.drain()] == ["block"]
    app.task(work)
    assert [run.outcome for run in kit.drain()] == ["complete"]
    assert handle.status() is State.COMPLETED


def test_a_handler_that_cannot_be_stopped_fails_the_test(app, kit, monkeypatch):
    monkeypatch.setattr(execution, "STUCK_AFTER", 0.3)
    release = threading.Event()

    @app.task(timeout=0.3)
    def deaf() -> None:
        release.wait()

    handle = deaf.enqueue()
    with pytest.raises(AssertionError, match=r"cannot be stopped: it ignores its timeout(.|\n)*release.wait"):
        kit.drain()
    release.set()
    assert handle.job().crashes == 1


def test_the_thread_keeps_the_event_loop_that_it_had(kit):
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    try:
        kit.drain()
        assert asyncio.get_event_loop() is loop
    finally:
        asyncio.set_event_loop(None)
        loop.close()


@pytest.mark.parametrize("kind", ["on_loop", "in_thread"])
@pytest.mark.parametrize("within", [False, True], ids=["alone", "within middleware"])
def test_the_context_is_to_be_had_from_any_depth(app, quick_path, kind, within):
    """The same object that a parameter receives, so a cursor is one thing; outside a job there is none."""
    seen = []

    if within:

        @app.middleware
        async def around(ctx: Context, call_next):
            seen.append(ctx)
            return await call_next()

    def deep() -> str:
        ctx = current_context()
        assert ctx is current_context()
        seen.append(ctx)
        ctx.progress(1, 2)
        ctx.cursor.save(7)
        ctx.save_file("a.txt", b"a")
        return f"{ctx.task} {ctx.attempt} {ctx.job_id}"

    def bare() -> str:
        return deep()

    def given(ctx: Context) -> str:
        seen.append(ctx)
        assert ctx.step("only", lambda: 5) == 5
        return deep()

    async def abare() -> str:
        await asyncio.sleep(0)
        ctx = current_context()
        seen.append(ctx)
        await ctx.asave_file("a.txt", b"a")
        ctx.cursor.save(7)
        return f"{ctx.task} {ctx.attempt} {ctx.job_id}"

    async def agiven(ctx: Context) -> str:
        seen.append(ctx)
        return await abare()

    path = quick_path / "jobs.db"
    with StandfastKit(app, url=f"sqlite:///{path}") as kit:
        for function in (abare, agiven) if kind == "on_loop" else (bare, given):
            seen.clear()
            handle = app.task(function).enqueue()
            assert [run.result for run in kit.drain(raising=True)] == [f"{function.__name__} 1 {handle.id}"]
            assert len({id(ctx) for ctx in seen}) == 1
            assert set(handle.files()) == {"a.txt"}
        with pytest.raises(ConfigurationError, match=r"current_context\(\).*no job runs here"):
            current_context()
