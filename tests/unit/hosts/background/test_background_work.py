"""Work in the background: it runs where it should, is known while it does, is bounded, and has a handle."""

import asyncio
import contextvars
import threading
from datetime import UTC, datetime
from functools import partial

import pytest

from standfast import (
    ArgumentsError,
    BackgroundCancelledError,
    BackgroundError,
    BackgroundFullError,
    BackgroundState,
    ConfigurationError,
    Context,
    Life,
    ResultTimeoutError,
    Standfast,
)
from standfast.testing import StandfastKit

LONG = 30.0


@pytest.fixture
def app(tmp_path):
    """Give an app with two places in its background, and close it."""
    with Standfast(f"sqlite:///{tmp_path}/jobs.db", background_limit=2, grace=LONG) as app:
        yield app


class Held:
    """Functions that go on until they are let go, or told to end."""

    def __init__(self):
        self.go = threading.Event()
        self.begun = threading.Semaphore(0)

    def thread(self, value=None):
        self.begun.release()
        assert self.go.wait(LONG)
        return value

    def heeding(self, life: Life):
        self.begun.release()
        life.sleep(LONG)

    async def aheeding(self, life: Life):
        self.begun.release()
        await life.asleep(LONG)

    def wait_until_begun(self, count=1):
        for _ in range(count):
            assert self.begun.acquire(timeout=LONG)


@pytest.fixture
def held():
    """Give functions that are let go at the end."""
    held = Held()
    yield held
    held.go.set()


def test_a_plain_function_runs_in_a_daemon_thread(app):
    """The caller goes on, and the handle has the result."""

    def where(a, *, b):
        return threading.current_thread().daemon, threading.current_thread() is threading.main_thread(), a + b

    work = app.background(where, 1, b=2)
    assert work.result(LONG) == (True, False, 3)
    assert work.state is BackgroundState.COMPLETED
    assert work.started_at is not None
    assert work.job is None


async def test_a_coroutine_runs_on_the_loop_that_called(app):
    """Nothing is moved to another thread."""

    async def where(value):
        await asyncio.sleep(0)
        return asyncio.get_running_loop(), value

    assert await app.background(where, 5).aresult(LONG) == (asyncio.get_running_loop(), 5)


def test_a_coroutine_that_sync_code_begins_has_a_loop_of_its_own(app):
    """Two of them share it."""

    async def where():
        return asyncio.get_running_loop(), threading.current_thread().name

    first, second = (app.background(where).result(LONG) for _ in range(2))
    assert first == second
    assert first[1] == "standfast-background-loop"


def test_context_variables_are_carried_over(app):
    """As they were at the call; what the work sets stays its own."""
    tenant = contextvars.ContextVar("tenant", default="nobody")

    def read():
        seen = tenant.get()
        tenant.set("other")
        return seen

    async def aread():
        return read()

    token = tenant.set("acme")
    try:
        works = [app.background(read), app.background(aread)]
        tenant.set("late")
        assert [work.result(LONG) for work in works] == ["acme", "acme"]
        assert tenant.get() == "late"
    finally:
        tenant.reset(token)


def test_what_runs_is_listed(app, held):
    """By name and since when; no longer once it is over."""
    before = datetime.now(UTC)
    work = app.background.options(name="warm-up")(held.thread, 7)
    held.wait_until_begun()
    [listed] = app.backgrounds
    assert (listed.name, listed.state, listed.id) == ("warm-up", BackgroundState.RUNNING, work.id)
    assert before <= listed.started_at <= datetime.now(UTC)
    assert repr(work) == f"<Background warm-up running {work.id}>"
    held.go.set()
    assert work.result(LONG) == 7
    assert app.backgrounds == ()


def test_a_result_is_waited_for_as_long_as_is_said(app, held):
    """The work goes on all the same."""
    work = app.background(held.thread)
    assert not work.ended(0)
    with pytest.raises(ResultTimeoutError, match=r"thread is still running after 0.01 s"):
        work.result(0.01)
    with pytest.raises(ConfigurationError, match="timeout must be a number"):
        work.result("soon")
    held.go.set()
    assert work.ended()


async def test_waiting_in_async_code_lets_the_loop_go_on(app, held):
    """And giving up cancels nothing. Blocking is refused: the work may be on this very loop."""
    work = app.background(held.thread, 3)
    assert not await work.aended(0.01)
    with pytest.raises(ResultTimeoutError):
        await work.aresult(0.01)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await work.aresult()
    with pytest.raises(BackgroundError, match="would block the event loop"):
        work.result()
    held.go.set()
    assert await work.aresult() == 3
    assert work.result() == 3


def test_what_it_raises_is_raised_by_its_result(app):
    """The very exception."""

    def fail():
        raise LookupError("nothing here")

    async def afail():
        fail()

    for work in (app.background(fail), app.background(afail)):
        with pytest.raises(LookupError, match="nothing here"):
            work.result(LONG)
        assert work.state is BackgroundState.FAILED


def test_an_exit_is_an_end_of_this_work_only(app):
    """The thread and the loop go on for others."""

    def leave():
        raise SystemExit(3)

    async def aleave():
        raise SystemExit(3)

    async def well():
        return 1

    for fn in (leave, aleave):
        with pytest.raises(SystemExit):
            app.background(fn).result(LONG)
    assert app.background(well).result(LONG) == 1


def test_a_thread_that_is_cancelled_is_told(app, held):
    """Its sleep ends at once, and with it the work."""
    work = app.background(held.heeding)
    held.wait_until_begun()
    work.cancel()
    with pytest.raises(BackgroundCancelledError, match=r"heeding was cancelled$"):
        work.result(5)
    assert work.state is BackgroundState.CANCELLED


async def test_a_coroutine_that_is_cancelled_ends_where_it_awaits(app):
    """Whether it has begun or not."""
    begun = asyncio.Event()

    async def endless():
        begun.set()
        await asyncio.sleep(LONG)

    early = app.background(endless)
    [task] = [each for each in asyncio.all_tasks() if each.get_name().startswith("background ")]
    task.cancel()  # as the end of a loop does, before its first line
    assert await early.aended(5)
    assert not begun.is_set()
    late = app.background(endless)
    await begun.wait()
    await late.acancel()
    with pytest.raises(BackgroundCancelledError):
        await late.aresult(5)
    assert early.state is late.state is BackgroundState.CANCELLED


async def test_a_coroutine_may_sleep_until_it_is_told(app, held):
    """`asleep` ends at once when the app closes, and no cancellation is needed."""
    work = app.background(held.aheeding)
    await asyncio.to_thread(held.wait_until_begun)
    await app.aclose()
    assert work.state is BackgroundState.CANCELLED


def test_a_life_says_whether_to_go_on(app):
    """And sleeps to the end where nobody cancels."""

    def look(life: Life, value: int):
        life.raise_if_cancelled()
        life.sleep(0)
        return life.cancelled, value

    def in_the_middle(value: int, life: Life | None = None, *, more: int = 1):
        return life is not None and not life.cancelled, value + more

    assert app.background(look, 4).result(LONG) == (False, 4)
    assert app.background(in_the_middle, 4).result(LONG) == (True, 5)
    assert app.background(in_the_middle, 4, more=5).result(LONG) == (True, 9)
    assert app.background(partial(look, value=6)).result(LONG) == (False, 6)


@pytest.mark.parametrize("seconds", [-1, "1", None, float("nan"), float("inf"), 1e12])
def test_a_sleep_that_is_none_is_refused(app, seconds):
    """Whatever is no span of time."""

    def sleep(life: Life):
        life.sleep(seconds)

    with pytest.raises(ArgumentsError, match="a sleep takes seconds or a timedelta"):
        app.background(sleep).result(LONG)


async def test_a_blocking_sleep_on_a_loop_is_refused(app):
    """It would stop everything there."""

    async def sleep(life: Life):
        life.sleep(1)

    with pytest.raises(ArgumentsError, match="would block the event loop: write `await asleep"):
        await app.background(sleep).aresult(LONG)


# -- full ----------------------------------------------------------------------------------------------------------


def test_what_finds_no_room_waits_for_its_turn(app, held):
    """No more than the limit run at a time, and all run in the end, in order."""
    first = [app.background(held.thread, number) for number in range(2)]
    held.wait_until_begun(2)
    order = []
    waiting = [app.background(order.append, number) for number in range(10)]
    assert [work.state for work in waiting] == [BackgroundState.WAITING] * 10
    assert [work.started_at for work in waiting] == [None] * 10
    assert app.backgrounds == (*first, *waiting)
    held.go.set()
    assert all(work.ended(LONG) for work in [*first, *waiting])
    assert sorted(order) == list(range(10))


def test_what_waits_may_be_cancelled(app, held):
    """It never begins, and takes no place."""
    for _ in range(2):
        app.background(held.thread)
    held.wait_until_begun(2)
    called = []
    work = app.background(called.append, 1)
    work.cancel()
    with pytest.raises(BackgroundCancelledError, match="before it began"):
        work.result(0)
    assert len(app.backgrounds) == 2
    held.go.set()
    assert app.background(called.append, 2).ended(LONG)
    assert called == [2]


async def test_coroutines_and_threads_share_the_limit(app, held):
    """A coroutine waits for a thread, and begins on its own loop then."""
    for _ in range(2):
        app.background(held.thread)

    async def where():
        return asyncio.get_running_loop()

    work = app.background(where)
    await asyncio.sleep(0)
    assert work.state is BackgroundState.WAITING
    held.go.set()
    assert await work.aresult(LONG) is asyncio.get_running_loop()


def test_what_finds_no_room_may_be_rejected(app, held):
    """As the call says, and nothing of it runs."""
    for _ in range(2):
        app.background.options(when_full="reject")(held.thread)
    with pytest.raises(BackgroundFullError, match="finds no room in the background"):
        app.background.options(when_full="reject")(held.thread)
    assert len(app.backgrounds) == 2


def test_what_finds_no_room_may_become_a_job(tmp_path, held):
    """The handle says so, and goes on as that of the job; with room it runs here."""
    app = Standfast(f"sqlite:///{tmp_path}/jobs.db", background_limit=1, background_when_full="enqueue")

    @app.task
    def double(number: int) -> int:
        return 2 * number

    with StandfastKit(app) as kit:
        assert app.background(double, 4).result(LONG) == 8
        app.background.options(when_full="wait")(held.thread)
        work = app.background(double, number=5)
        assert (work.state, work.name, work.id) == (BackgroundState.ENQUEUED, "double", work.job.id)
        assert not work.ended(0)
        kit.assert_enqueued(double, times=1, number=5)
        kit.drain()
        assert work.ended(0)
        assert work.result(0) == 10
        again = app.background(double, 6)
        again.cancel()
        assert kit.job(again.job).state == "cancelled"
        held.go.set()


def test_what_cannot_become_a_job_is_refused_with_room_too(app):
    """So that it is found before the day on which there is none."""

    @app.task
    def known(number: int) -> None: ...

    other = Standfast("memory://")

    @other.task
    def foreign(number: int) -> None: ...

    enqueueing = app.background.options(when_full="enqueue")
    for fn in (foreign, print):
        with pytest.raises(ArgumentsError, match="is no task of this app"):
            enqueueing(fn, 1)
    with pytest.raises(ArgumentsError, match="number"):
        enqueueing(known, object())


def test_so_many_may_wait_and_no_more(app, held, monkeypatch):
    """A line without an end is a leak."""
    monkeypatch.setattr("standfast.hosts.background.group.MOST_WAITING", 3)
    for _ in range(5):
        app.background(held.thread)
    with pytest.raises(BackgroundFullError, match="3 pieces of work wait already"):
        app.background(held.thread)


def test_a_process_without_another_thread_says_so(app, monkeypatch):
    """And no place is lost by that."""

    def refuse(_):
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", refuse)
        for _ in range(3):
            with pytest.raises(BackgroundError, match="int cannot begin: this process cannot start another thread"):
                app.background(int, "7")
    assert app.backgrounds == ()
    assert app.background(int, "7").result(LONG) == 7


# -- bad input -----------------------------------------------------------------------------------------------------


def nothing():
    """Do nothing."""


def yielding():
    yield 1


async def ayielding():
    yield 1


async def acoroutine():
    """Do nothing."""


@pytest.mark.parametrize(
    ("fn", "args", "words"),
    [
        (5, (), "takes a function and its arguments, not 5"),
        (None, (), "takes a function and its arguments, not None"),
        (nothing, (1,), "nothing cannot be called like this: too many positional arguments"),
        (partial(int, "7", 10), (3,), None),
        (yielding, (), "yielding yields"),
        (ayielding, (), "ayielding yields"),
    ],
)
def test_what_cannot_be_called_is_refused_at_the_call(app, fn, args, words):
    """Nothing runs, and nothing is in the list."""
    if words is None:
        with pytest.raises((ArgumentsError, TypeError)):
            app.background(fn, *args).result(LONG)
        return
    with pytest.raises(ArgumentsError, match=words):
        app.background(fn, *args)
    assert app.backgrounds == ()


def test_wrong_arguments_are_refused_at_the_call(app):
    """By the signature, the Life apart."""

    def fn(life: Life, a, *, b): ...

    for args, kwargs in [
        ((), {}),
        ((1,), {}),
        ((1, 2), {"b": 3}),
        ((1,), {"b": 2, "c": 3}),
        ((1,), {"b": 2, "life": 3}),
    ]:
        with pytest.raises(ArgumentsError, match="cannot be called like this"):
            app.background(fn, *args, **kwargs)


def test_a_coroutine_instead_of_its_function_is_refused(app):
    """It says what to write, and Python has nothing to complain of."""
    with pytest.raises(ArgumentsError, match=r"write app.background\(acoroutine, …\)"):
        app.background(acoroutine())


def test_a_function_that_makes_a_coroutine_fails(app):
    """Nobody would await it."""

    def make():
        return acoroutine()

    with pytest.raises(TypeError, match="returned a coroutine"):
        app.background(make).result(LONG)


def test_a_handler_that_wants_a_context_is_refused(app):
    """Only a job has one; a Life is what both have."""

    @app.task
    def handler(ctx: Context) -> None: ...

    with pytest.raises(ArgumentsError, match="takes a Context, which only a job has: annotate 'ctx' with Life"):
        app.background(handler)


def test_a_task_runs_as_its_function_does(app):
    """One that takes a Life serves as work and as a job."""

    @app.task
    def both(life: Life, number: int) -> str:
        life.raise_if_cancelled()
        return f"{type(life).__name__} {number}"

    @app.task
    async def acoro(number: int) -> int:
        return number

    assert app.background(both, 1).result(LONG) == "WorkLife 1"
    assert app.background(acoro, 1).result(LONG) == 1
    with StandfastKit(app) as kit:
        both.enqueue(number=2)
        assert [run.result for run in kit.drain()] == ["Context 2"]


@pytest.mark.parametrize("limit", [0, -1, 1.5, "two", True])
def test_a_limit_that_is_none_is_refused(limit):
    """At the declaration of the app."""
    with pytest.raises(ConfigurationError, match="must be a whole number from 1 to 10,000"):
        Standfast("memory://", background_limit=limit)


def test_a_word_for_full_that_is_none_is_refused(app):
    """As a setting and as an option."""
    with pytest.raises(ConfigurationError, match=r"background_when_full=drop .*must be wait, reject or enqueue"):
        Standfast("memory://", background_when_full="drop")
    with pytest.raises(ConfigurationError, match="when_full must be 'wait', 'reject' or 'enqueue', not 'drop'"):
        app.background.options(when_full="drop")
    with pytest.raises(ConfigurationError, match="has no option 'full'; did you mean when_full"):
        app.background.options(full="wait")
    with pytest.raises(ConfigurationError, match="name must be a text"):
        app.background.options(name=3)
