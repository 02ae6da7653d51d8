"""Middleware runs around each attempt, and what it does counts as the handler's."""

import asyncio
import re
import threading
import time
from contextvars import ContextVar

import pytest
from stage import Stage, play, working

from standfast import ConfigurationError, Context, Retry, Snooze, Standfast, Success
from standfast.durable.runtime import current_attempt
from standfast.model.states import State
from standfast.stores.contract import cancel_job
from standfast.worker import execution

TENANT: ContextVar[str] = ContextVar("tenant", default="nobody")


def both_kinds(app: Standfast, seen: list[str], **policy) -> None:
    """Declare the same task as a coroutine and as a function in a thread."""

    @app.task(**policy)
    async def on_loop(word: str) -> str:
        seen.append(f"handler {word} for {TENANT.get()}")
        return word

    @app.task(**policy)
    def in_thread(word: str) -> str:
        seen.append(f"handler {word} for {TENANT.get()}")
        return word


KINDS = pytest.mark.parametrize("kind", ["on_loop", "in_thread"])


def run_one(app: Standfast, kind: str, **options):
    """Run one job; return it and its history."""
    found = []

    async def scenario() -> None:
        stage = Stage(app)
        handle = app.tasks[kind].options(**options).enqueue("hello")
        async with working(stage):
            found.append(await stage.settled(handle))
        found.append(stage.history(handle))

    play(scenario, virtual=False)
    return found


@KINDS
def test_the_first_declared_is_outermost(kind: str) -> None:
    """Each runs around the next, and the innermost around the handler."""
    app, seen = Standfast("memory://"), []
    both_kinds(app, seen)

    @app.middleware
    async def outer(ctx: Context, call_next):
        seen.append(f"outer of {ctx.task}, attempt {ctx.attempt}")
        value = await call_next()
        seen.append(f"outer got {value}")
        return f"{value}!"

    @app.middleware
    async def inner(ctx: Context, call_next):
        seen.append(f"inner of {ctx.task}")
        return f"{await call_next()}?"

    job, _ = run_one(app, kind)
    assert (job.state, job.result) == (State.COMPLETED, b'"hello?!"')
    assert seen == [
        f"outer of {kind}, attempt 1",
        f"inner of {kind}",
        "handler hello for nobody",
        "outer got hello?",
    ]


@KINDS
def test_what_it_sets_in_the_context_is_seen_by_the_handler_and_by_no_other_job(kind: str) -> None:
    """A tenant or a trace set by one attempt is gone in the next, also where one starts as the other ends."""
    app, seen = Standfast("memory://", concurrency=1), []
    both_kinds(app, seen)
    names = iter(["ann", None, "bob"])

    @app.middleware
    async def tenant(_ctx: Context, call_next):
        name = next(names)
        if name is not None:
            TENANT.set(name)
        return await call_next()

    async def scenario() -> None:
        stage = Stage(app)
        async with working(stage):
            for number in range(3):
                await stage.settled(app.tasks[kind].enqueue(str(number)))

    play(scenario, virtual=False)
    assert seen == ["handler 0 for ann", "handler 1 for nobody", "handler 2 for bob"]


def test_a_job_that_starts_as_another_ends_does_not_inherit_its_context() -> None:
    """The end of one attempt may be what starts the next one: still each has a context of its own."""
    app, seen = Standfast("memory://"), []

    async def scenario() -> None:
        gate = asyncio.Event()

        @app.task
        async def occupy() -> None:
            TENANT.set("ann")
            await gate.wait()

        @app.task
        async def look() -> None:
            seen.append(TENANT.get())

        stage = Stage(app)
        async with working(stage):
            taken = [occupy.enqueue() for _ in range(stage.places)]
            waiting = look.options(delay=0.1).enqueue()
            await stage.until(lambda: stage.names_told().count("JobStarted") == len(taken))
            await stage.until(lambda: stage.job(waiting).state is State.HELD)
            await asyncio.sleep(0.3)
            gate.set()
            await stage.settled(waiting)

    play(scenario)
    assert seen == ["nobody"]


@KINDS
def test_what_it_raises_is_judged_as_the_handlers(kind: str) -> None:
    """An exception is retried, an outcome is heeded, and the handler need not run at all."""
    app, seen = Standfast("memory://"), []
    both_kinds(app, seen, max_attempts=3, backoff=0)

    @app.middleware
    async def gate(ctx: Context, call_next):
        if ctx.attempt == 1:
            raise ConnectionError("the gate is shut")
        if ctx.attempt == 2:
            return Retry("not yet", delay=0)
        return await call_next()

    job, history = run_one(app, kind)
    assert job.state is State.COMPLETED
    assert [attempt.error for attempt in history] == ["ConnectionError: the gate is shut", "Retry: not yet", None]
    assert seen == ["handler hello for nobody"]


@KINDS
def test_it_sees_what_the_handler_raises(kind: str) -> None:
    """It may turn it into something else."""
    app = Standfast("memory://")

    @app.task
    async def on_loop(word: str) -> str:
        raise LookupError(word)

    @app.task
    def in_thread(word: str) -> str:
        raise LookupError(word)

    @app.middleware
    async def forgive(_ctx: Context, call_next):
        try:
            return await call_next()
        except LookupError as error:
            return f"forgiven: {error}"

    job, _ = run_one(app, kind)
    assert job.result == b'"forgiven: hello"'


@pytest.mark.parametrize("where", ["middleware", "on_loop", "in_thread"])
def test_the_timeout_covers_it(where: str) -> None:
    """Middleware that dawdles costs the attempt, and so does a handler within middleware."""
    app = Standfast("memory://")
    ended = threading.Event()

    @app.task(timeout=0.2, max_attempts=1)
    async def on_loop(word: str) -> str:
        await asyncio.sleep(60)
        return word

    @app.task(timeout=0.2, max_attempts=1)
    def in_thread(ctx: Context, word: str) -> str:
        while not ctx.cancelled:
            time.sleep(0.01)
        time.sleep(0.1)
        ended.set()
        return word

    @app.middleware
    async def around(_ctx: Context, call_next):
        if where == "middleware":
            await asyncio.sleep(60)
        try:
            return await call_next()
        except Exception:  # noqa: BLE001 - a timeout must get past this
            return "swallowed"

    job, _ = run_one(app, "in_thread" if where == "middleware" else where)
    assert job.state is State.DEAD
    assert job.error == "TimeoutError: ran longer than its timeout of 0.2 s"
    assert ended.is_set() is (where == "in_thread"), "a thread is waited for"


@pytest.mark.parametrize("within", [False, True], ids=["alone", "within middleware"])
@pytest.mark.parametrize(
    ("ends", "counts"),
    [
        ("returns", True),
        ("returns, told", False),
        ("returns Success, told", True),
        ("raises Success", True),
        ("raises", False),
        ("snoozes", False),
    ],
)
def test_a_function_that_succeeds_just_after_its_timeout_has_done_its_work(ends, counts, within, caplog) -> None:
    """Its claim is still valid, and to run it again would do it twice; unless it was told, and may have stopped."""
    app = Standfast("memory://")

    @app.task(timeout=0.05, max_attempts=1)
    def in_thread(ctx: Context, word: str) -> str | Snooze | Success:
        while current_attempt.get().why is None:  # which no handler can see: it is told by ctx.cancelled alone
            time.sleep(0.002)
        assert "told" not in ends or ctx.cancelled
        if ends == "raises":
            raise LookupError(word)
        if ends == "raises Success":
            raise Success(word)
        return {"snoozes": Snooze(60), "returns Success, told": Success(word)}.get(ends, word)

    if within:

        @app.middleware
        async def around(_ctx: Context, call_next):
            value = await call_next()
            await asyncio.sleep(0)
            return value

    job, history = run_one(app, "in_thread")
    assert len(history) == 1
    late = "longer than its timeout of 0.05 s"
    if counts:
        assert (job.state, job.result, job.attempt) == (State.COMPLETED, b'"hello"', 0)
        assert sum(late in record.getMessage() for record in caplog.records) == 1
    else:
        assert (job.state, job.error) == (State.DEAD, f"TimeoutError: ran {late}")


def test_a_thread_that_ends_in_time_leaves_the_rest_of_its_time_to_the_middleware() -> None:
    """The timeout is for all of it together."""
    app = Standfast("memory://")

    @app.task(timeout=0.3, max_attempts=1)
    def in_thread(word: str) -> str:
        return word

    @app.middleware
    async def tidy(_ctx: Context, call_next):
        await call_next()
        await asyncio.sleep(60)

    job, _ = run_one(app, "in_thread")
    assert job.error == "TimeoutError: ran longer than its timeout of 0.3 s"


@pytest.mark.parametrize("kind", ["on_loop", "in_thread"])
def test_cancellation_reaches_the_handler_within(kind: str) -> None:
    """A coroutine is cancelled, a thread is told; both end the job as cancelled."""
    app, began = Standfast("memory://"), threading.Event()

    @app.task
    async def on_loop(word: str) -> str:
        began.set()
        await asyncio.sleep(60)
        return word

    @app.task
    def in_thread(ctx: Context, word: str) -> str:
        began.set()
        while not ctx.cancelled:
            time.sleep(0.01)
        ctx.raise_if_cancelled()
        return word

    @app.middleware
    async def around(_ctx: Context, call_next):
        return await call_next()

    async def scenario() -> None:
        stage = Stage(app)
        handle = app.tasks[kind].enqueue("hello")
        async with working(stage):
            await stage.until(began.is_set)
            stage.backend.run(cancel_job(stage.backend.verbs, handle.id))
            stage.pass_on()
            job = await stage.settled(handle)
        assert (job.state, job.reason) == (State.CANCELLED, "requested")

    play(scenario, virtual=False)


def test_middleware_that_gives_up_waiting_still_waits_for_the_thread() -> None:
    """Nothing is released, and no other attempt begins, while the code runs."""
    app, order = Standfast("memory://"), []

    @app.task(max_attempts=1)
    def in_thread(word: str) -> str:
        time.sleep(0.3)
        order.append("thread ended")
        return word

    @app.middleware
    async def impatient(_ctx: Context, call_next):
        try:
            return await asyncio.wait_for(call_next(), 0.05)
        except TimeoutError:
            order.append("given up")
            return "late"

    job, _ = run_one(app, "in_thread")
    assert (job.state, job.result) == (State.COMPLETED, b'"late"')
    assert order == ["thread ended", "given up"]


def test_a_stuck_thread_within_middleware_is_told_of_with_its_own_stack(monkeypatch) -> None:
    """The supervisor learns where the thread is, not that someone awaits it."""
    monkeypatch.setattr(execution, "STUCK_AFTER", 0.1)
    app, free = Standfast("memory://"), threading.Event()
    told = []

    @app.task(timeout=0.1, max_attempts=1)
    def in_thread(word: str) -> str:
        free.wait(10)
        return word

    @app.middleware
    async def around(_ctx: Context, call_next):
        return await call_next()

    async def scenario() -> None:
        stage = Stage(app)
        stage.worker._attempts.stuck = lambda _control, *words: told.append(words)
        handle = in_thread.enqueue("hello")
        async with working(stage):
            await stage.until(lambda: told)
            free.set()
            await stage.settled(handle)

    play(scenario, virtual=False)
    [(why, stack)] = told
    assert "free.wait(10)" in stack
    assert re.fullmatch(r"it ignores its timeout of 0\.1 s, at \S*test_middleware\.py:\d+ in in_thread", why)


def not_async(ctx, call_next): ...


async def takes_nothing(): ...


@pytest.mark.parametrize("wrong", [not_async, takes_nothing, 7])
def test_what_cannot_be_middleware_is_refused_at_once(wrong) -> None:
    """With the way to write it."""
    with pytest.raises(ConfigurationError, match=r"cannot be middleware: write it as `async def .*ctx, call_next"):
        Standfast("memory://").middleware(wrong)


async def no_yield(app): ...


@pytest.mark.parametrize("wrong", [not_async, no_yield, 7])
def test_what_cannot_be_a_lifespan_is_refused_at_once(wrong) -> None:
    """With the way to write it."""
    with pytest.raises(ConfigurationError, match=r"cannot be a lifespan: write it as `async def .*\(app\)`"):
        Standfast("memory://").lifespan(wrong)
