"""A wait ends the handler, keeps its place over any number of runs, and gives each signal to one wait, in order."""

import asyncio
from contextlib import suppress
from datetime import UTC, datetime, timedelta, timezone

import pytest
from desk import START, Desk

from standfast import StepError, WaitTimeoutError
from standfast.model.memos import FOR_EVER
from standfast.model.outcomes import Suspended, meant_by

EAST = timezone(timedelta(hours=1))


@pytest.fixture
def desk():
    return Desk()


@pytest.mark.parametrize("until", [60, 60.0, timedelta(minutes=1), START + timedelta(minutes=1)])
def test_a_sleep_lasts_until_the_time_that_its_first_run_fixed(desk, until):
    """However late the next run comes to it."""
    with pytest.raises(Suspended) as suspended:
        desk.context().sleep_until(until)
    assert (suspended.value.delay, suspended.value.reason) == (timedelta(minutes=1), "sleep")
    desk.pass_time(59)
    with pytest.raises(Suspended) as suspended:
        desk.context().sleep_until(until)
    assert suspended.value.delay == timedelta(seconds=1)
    desk.pass_time(1)
    desk.context().sleep_until(until)


def test_each_sleep_of_a_run_is_one_of_its_own(desk):
    """The second begins when the first is over."""

    def sleep_twice(ctx):
        ctx.sleep_until(10)
        ctx.sleep_until(10)

    for _ in range(2):
        with pytest.raises(Suspended):
            sleep_twice(desk.context())
        desk.pass_time(10)
    sleep_twice(desk.context())


def test_a_wait_in_a_loop_that_resumes_belongs_to_its_item(desk):
    """A later run leaves out what is done, and still no item has the answer of another."""
    answers = {}

    def pay(ctx):
        for payment in ctx.resume(["rent", "wages", "yacht"], every=1):
            answers[payment] = ctx.wait_for("approved")

    for number, payment in enumerate(["rent", "wages", "yacht"], start=1):
        with pytest.raises(Suspended):
            pay(desk.context())
        assert payment not in answers
        desk.signal("approved", str(number).encode())
    pay(desk.context())
    assert answers == {"rent": 1, "wages": 2, "yacht": 3}


def test_a_signal_that_is_there_is_taken_at_once(desk):
    """Each wait takes one, in the order in which they were sent, and keeps it in later runs."""
    desk.signal("approved", b'{"by":"ada"}')
    desk.signal("approved", b'"second"')
    desk.signal("other", b"1")
    for _ in range(2):
        ctx = desk.context()
        assert ctx.wait_for("approved") == {"by": "ada"}
        assert ctx.wait_for("approved") == "second"
    with pytest.raises(Suspended) as suspended:
        ctx.wait_for("approved")
    assert (suspended.value.delay, suspended.value.reason) == (FOR_EVER, "signal:approved")


async def test_a_signal_is_taken_once_even_if_the_taking_was_given_up(desk):
    """What was sent to the store comes there, so the next wait must not take the signal as well."""
    desk.signal("approved", b"1")
    desk.slow = True
    ctx = desk.context()
    taking = asyncio.ensure_future(ctx.await_for("approved"))
    await desk.asked.wait()
    taking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await taking
    desk.slow = False
    with pytest.raises(Suspended):
        await ctx.await_for("approved")


def test_memos_are_read_again_before_a_job_is_suspended(desk):
    """A signal that came while the handler ran is not slept over."""
    ctx = desk.context()
    ctx.step("ask", lambda: desk.signal("approved"))
    assert ctx.wait_for("approved") is None


def test_a_wait_times_out_once_and_for_all(desk):
    """A signal that comes later is for the next wait."""
    with pytest.raises(Suspended) as suspended:
        desk.context().wait_for("approved", timeout=60)
    assert suspended.value.delay == timedelta(seconds=60)
    desk.pass_time(60)
    with pytest.raises(WaitTimeoutError, match="no signal 'approved' came to job j1"):
        desk.context().wait_for("approved", timeout=60)
    desk.signal("approved", b"1")
    ctx = desk.context()
    with pytest.raises(TimeoutError):
        ctx.wait_for("approved", timeout=timedelta(hours=1))
    assert ctx.wait_for("approved") == 1


def test_a_signal_that_came_in_time_counts_however_late_the_job_runs(desk):
    """It is there when the time is over, and goes first."""
    with pytest.raises(Suspended):
        desk.context().wait_for("approved", timeout=60)
    desk.signal("approved", b"1")
    desk.pass_time(3600)
    assert desk.context().wait_for("approved", timeout=60) == 1


def test_a_timeout_of_nothing_only_looks(desk):
    with pytest.raises(WaitTimeoutError):
        desk.context().wait_for("approved", timeout=0)


async def test_waits_of_async_handlers(desk):
    """The same, awaited."""
    with pytest.raises(Suspended):
        await desk.context().asleep_until(1)
    desk.pass_time(1)
    await desk.context().asleep_until(1)
    with pytest.raises(Suspended):
        await desk.context().await_for("approved")
    desk.signal("approved", b"7")
    assert await desk.context().await_for("approved") == 7


async def test_a_suspension_goes_through_groups_of_tasks(desk):
    """It is found in what they raise, if that is all they raise."""
    ctx = desk.context()
    with pytest.raises(BaseExceptionGroup) as raised:
        async with asyncio.TaskGroup() as group:
            group.create_task(ctx.await_for("approved"))
    assert meant_by(raised.value, Suspended).reason == "signal:approved"
    assert meant_by(BaseExceptionGroup("", [Suspended(timedelta(), ""), OSError()]), Suspended) is None
    assert meant_by(OSError(), Suspended) is None


def test_no_handler_swallows_a_suspension_by_accident(desk):
    """`except Exception` does not catch it."""
    with pytest.raises(Suspended), suppress(Exception):
        desk.context().sleep_until(1)


async def test_waits_and_steps_do_not_overlap(desk):
    """A job waits for one thing, and not while a step of it runs."""
    ctx = desk.context()
    waits = await asyncio.gather(ctx.await_for("a"), ctx.await_for("b"), return_exceptions=True)
    assert {type(each) for each in waits} == {Suspended, StepError}
    ctx, runs, go_on = desk.context(), asyncio.Event(), asyncio.Event()

    async def long() -> None:
        runs.set()
        await go_on.wait()

    step = asyncio.create_task(ctx.astep("long", long))
    await runs.wait()
    with pytest.raises(StepError, match="a step of it still runs"):
        await ctx.asleep_until(1)
    go_on.set()
    await step


@pytest.mark.parametrize("first", ["step", "wait"])
async def test_a_step_and_a_wait_that_begin_together_are_refused(desk, first):
    """Else the wait would end the handler while the step runs, and the step be done again."""
    ctx, ran = desk.context(), []

    async def work():
        await asyncio.sleep(0.01)
        ran.append(1)

    both = [ctx.astep("work", work), ctx.await_for("approved")]
    with pytest.raises(StepError):
        await asyncio.gather(*(both if first == "step" else reversed(both)))
    await asyncio.sleep(0.05)
    assert (len(ran), "step:work" in desk.memos) in {(0, False), (1, True)}
    assert "wait:approved:1" not in desk.memos or not ran


def test_nothing_is_done_in_a_run_that_is_suspended(desk):
    """A `finally`, or an `except` of everything, is passed in every run that waits, and not only in the last."""
    ctx, done = desk.context(), []

    def handler():
        try:
            ctx.wait_for("approved")
        finally:
            ctx.step("tidy", done.append, 1)

    with pytest.raises(Suspended):
        handler()
    with pytest.raises(Suspended):
        ctx.sleep_until(0)
    assert (done, set(desk.memos)) == ([], {"wait:approved:1"})


def test_a_wait_inside_a_step_is_refused(desk):
    """The step would be done again from its top."""
    ctx = desk.context()
    with pytest.raises(StepError, match=r"ctx.wait_for\('approved'\) is inside step 'ask'"):
        ctx.step("ask", ctx.wait_for, "approved")
    with pytest.raises(StepError, match=r"ctx.sleep_until\(…\) is inside step 'nap'"):
        ctx.step("nap", ctx.sleep_until, 1)


async def test_a_blocking_wait_on_the_event_loop_is_refused(desk):
    with pytest.raises(StepError, match=r"write `await ctx.await_for"):
        desk.context().wait_for("approved")


@pytest.mark.parametrize(
    ("until", "words"),
    [
        (datetime(2030, 1, 1), "must have a time zone"),  # noqa: DTZ001 - that is what is wrong with it
        (-1, "from 0 to a hundred years, not -1"),
        (float("nan"), "not nan"),
        ("tomorrow", "takes a datetime, a timedelta or seconds"),
        (timedelta(days=99_999), "a hundred years"),
        (datetime.max.replace(tzinfo=UTC), "a hundred years, not datetime"),
    ],
)
def test_a_time_that_means_nothing_is_refused(desk, until, words):
    with pytest.raises(StepError, match=words):
        desk.context().sleep_until(until)


@pytest.mark.parametrize("until", [datetime(2029, 1, 1, tzinfo=UTC), datetime.min.replace(tzinfo=EAST)])
def test_a_time_that_is_past_is_now(desk, until):
    desk.context().sleep_until(until)


@pytest.mark.parametrize(
    ("name", "timeout", "words"),
    [
        ("", None, "a signal's name must be 1 to 100 printable characters without ':', not ''"),
        ("a:b", None, "without ':'"),
        (None, None, "not None"),
        ("sleep", None, "choose another"),
        ("ok", -1, "timeout of the wait for 'ok' must be"),
        ("ok", "soon", "not 'soon'"),
    ],
)
def test_a_wait_that_means_nothing_is_refused(desk, name, timeout, words):
    with pytest.raises(StepError, match=words):
        desk.context().wait_for(name, timeout=timeout)
