"""A step is done once per job, answers from the store after that, and a change of the code is never passed over."""

import asyncio
import re
import threading
from dataclasses import dataclass
from datetime import timedelta
from functools import partial

import pytest
from desk import Desk

from standfast import (
    ConfigurationError,
    Constant,
    Custom,
    Fail,
    Interrupted,
    LostClaimError,
    Retries,
    StepChangedError,
    StepError,
    StoreUnavailableError,
)
from standfast.model.memos import MEMO_LIMIT, MEMOS_LIMIT

AT_ONCE = Custom(lambda _: 0)


@dataclass
class Receipt:
    number: int
    paid: bool


@pytest.fixture
def desk():
    return Desk()


def run_step(ctx, is_async, *args, **options):
    return asyncio.run(ctx.astep(*args, **options)) if is_async else ctx.step(*args, **options)


def test_a_step_that_is_done_answers_from_the_store(desk):
    """Its function runs once, however many attempts ask for it, and the memos are read once in each."""
    calls = []

    def charge(order, *, cents):
        calls.append((order, cents))
        return order * 10

    for _ in range(3):
        assert desk.context().step("charge", charge, 7, cents=50) == 70
    assert calls == [(7, 50)]
    assert desk.reads == 3


def test_a_result_comes_back_as_what_the_function_says_it_returns(desk):
    """In the first run already it is what later ones get."""

    def charge() -> Receipt:
        return Receipt(7, paid=True)

    def pair():
        return (1, 2)

    for _ in range(2):
        ctx = desk.context()
        assert ctx.step("charge", charge) == Receipt(7, paid=True)
        assert ctx.step("partly", partial(charge)) == Receipt(7, paid=True)
        assert ctx.step("pair", pair) == [1, 2]


def test_the_result_is_in_the_store_before_the_step_returns(desk):
    """What the store has not confirmed was not done."""
    desk.refusal = LostClaimError("another's")
    with pytest.raises(LostClaimError):
        desk.context().step("charge", lambda: 1, retry=5)
    assert desk.memos == {}


def test_a_step_has_a_key_of_its_own_that_stays_in_every_attempt(desk):
    """It is the job's outside of steps, another in each step, and safe to be sent in a header."""
    keys = []

    def note(ctx):
        keys.append(ctx.idempotency_key)
        raise OSError("away")

    for _ in range(2):
        ctx = desk.context()
        for name in ("charge", "späte mail"):
            with pytest.raises(OSError, match="away"):
                ctx.step(name, note, ctx)
        assert ctx.idempotency_key == "standfast-j1"
    assert keys[:2] == keys[2:] == ["standfast-j1-charge", "standfast-j1-sp%C3%A4te%20mail"]


async def test_steps_at_the_same_time_have_keys_of_their_own(desk):
    """In coroutines and in the threads of plain functions."""
    ctx, meet = desk.context(), threading.Barrier(2)

    async def note():
        await asyncio.sleep(0)
        return ctx.idempotency_key

    def plain():
        meet.wait(10)
        return ctx.idempotency_key

    steps = [ctx.astep("a", note), ctx.astep("b", note), ctx.astep("c", plain), ctx.astep("d", plain)]
    assert await asyncio.gather(*steps) == [f"standfast-j1-{name}" for name in "abcd"]


def test_a_failed_step_is_tried_again_in_place(desk):
    """As often as its policy says; what it raises last is raised, and nothing is remembered of it."""
    tries = []

    def flaky(enough):
        tries.append(1)
        if len(tries) < enough:
            raise OSError("away")
        return "there"

    ctx = desk.context()
    assert ctx.step("call", flaky, 3, retry=Retries(3, AT_ONCE)) == "there"
    tries.clear()
    with pytest.raises(OSError, match="away"):
        ctx.step("other", flaky, 9, retry=Retries(4, AT_ONCE))
    assert len(tries) == 4
    assert "step:other" not in desk.memos


def test_the_jitter_between_tries_is_of_the_workers_own_source(desk):
    """So that a world that is played again is the same."""
    attempt, sources = desk.attempt(), []

    class Told(Constant):
        def delay(self, _, random):
            sources.append(random)
            return timedelta()

    with pytest.raises(ZeroDivisionError):
        attempt.context.step("call", divmod, 1, 0, retry=Retries(2, Told(0)))
    assert sources == [attempt.random]


def test_only_what_the_policy_names_is_tried_again(desk):
    """And never what the handler says itself, as by an outcome."""
    tries = []

    def fail(error):
        tries.append(error)
        raise error

    for name, error in (("a", ValueError()), ("b", Fail("no")), ("c", LostClaimError("lost"))):
        with pytest.raises(type(error)):
            desk.context().step(name, fail, error, retry=Retries(3, AT_ONCE, on=OSError))
        with pytest.raises(type(error)):
            desk.context().step(name, fail, error, retry=1)
    with pytest.raises(Fail):
        desk.context().step("d", fail, Fail("no"), retry=Retries(3, AT_ONCE))
    assert len(tries) == 7


@pytest.mark.parametrize("is_async", [False, True])
def test_a_wait_between_two_tries_ends_with_the_attempt(desk, is_async):
    """A job that is cancelled, or whose worker stops, does not sit through its backoff."""
    attempt = desk.attempt()

    def fail():
        attempt.cancelled = True
        raise OSError

    retry = Retries(2, Constant(3600))
    with pytest.raises(Interrupted):
        run_step(attempt.context, is_async, "call", fail, retry=retry)


async def test_a_coroutine_is_cancelled_at_its_timeout(desk):
    """Each try has its time, and a timeout of its own making is not ours."""
    tries = []

    async def hang():
        tries.append(1)
        await asyncio.sleep(3600)

    async def own():
        raise TimeoutError("theirs")

    with pytest.raises(TimeoutError, match=r"step 'hang' ran longer than its timeout of 0.01 s"):
        await desk.context().astep("hang", hang, timeout=0.01, retry=Retries(2, AT_ONCE))
    assert len(tries) == 2
    with pytest.raises(TimeoutError, match="theirs"):
        await desk.context().astep("own", own, timeout=60)


def test_a_plain_function_is_told_of_its_timeout(desk):
    """What it raises after that is a timeout; what it returns counts, for it was done."""
    attempt = desk.attempt()
    ctx = attempt.context

    def heeds():
        while True:
            ctx.raise_if_cancelled()

    def finishes():
        while not ctx.cancelled:
            pass
        return "done"

    with pytest.raises(TimeoutError, match="ran longer than its timeout"):
        ctx.step("heeds", heeds, timeout=timedelta(milliseconds=10))
    assert ctx.step("finishes", finishes, timeout=0.01) == "done"
    assert not ctx.cancelled
    attempt.cancelled = True
    with pytest.raises(Interrupted):
        ctx.step("stopped", heeds, timeout=0.01)


async def test_a_cancelled_coroutine_keeps_what_its_thread_has_done(desk):
    """Nobody can stop the function, so its result is written before the cancellation goes on."""
    ctx, began, go_on = desk.context(), threading.Event(), threading.Event()

    def work():
        began.set()
        go_on.wait(10)
        return 1

    step = asyncio.create_task(ctx.astep("work", work))
    await asyncio.to_thread(began.wait, 10)
    step.cancel()
    await asyncio.sleep(0)
    go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await step
    assert "step:work" in desk.memos


def test_a_name_twice_in_a_run_is_refused(desk):
    """The second would be given the result of the first."""
    ctx = desk.context()
    ctx.step("mail", lambda: 1)
    with pytest.raises(StepError, match=r"step 'mail' is there twice in one run.*f'mail-\{number\}'"):
        ctx.step("mail", lambda: 2)
    with pytest.raises(StepError, match="twice"):  # whatever the handler makes of it
        ctx.step("close", lambda: 3)


def test_a_changed_version_is_refused(desk):
    """A result of other code does not stand for this one."""
    desk.context().step("charge", lambda: 1)
    with pytest.raises(StepChangedError, match=r"'charge' was done by version 1 .* the code has version 2"):
        desk.context().step("charge", lambda: 2, version=2)
    assert desk.context().step("charge", lambda: 2, version=1) == 1


@pytest.mark.parametrize("is_async", [False, True])
def test_a_renamed_step_is_refused_before_it_runs(desk, is_async):
    """What was done under the old name would be done again."""
    desk.context().step("charge", lambda: 1)
    ctx, ran = desk.context(), []
    with pytest.raises(StepChangedError, match=r"has done step 'charge', and this code comes first to step 'pay'"):
        run_step(ctx, is_async, "pay", ran.append, 1)
    assert ran == []
    with pytest.raises(StepChangedError):  # a handler that catches it does not get further
        ctx.step("refund", ran.append, 2)
    assert ran == []


def test_steps_of_items_that_a_loop_leaves_out_are_no_renamed_ones(desk):
    """The next attempt goes on after them, and a step after the loop is still guarded."""
    mailed = []

    def mail(ctx, *, fails_at=None, last="close"):
        for user in ctx.resume(range(5), every=1):
            if user == fails_at:
                raise ConnectionError
            ctx.step(f"mail-{user}", mailed.append, user)
        ctx.step(last, mailed.append, last)
        ctx.step("after", mailed.append, "after")

    with pytest.raises(ConnectionError):
        mail(desk.context(), fails_at=3)
    mail(desk.context())
    assert mailed == [0, 1, 2, 3, 4, "close", "after"]
    with pytest.raises(
        StepChangedError, match="has done steps 'after', 'close', and this code comes first to step 'shut'"
    ):
        mail(desk.context(), last="shut")


def test_steps_that_nobody_asked_for_are_told_at_the_end(desk):
    """A step that was removed does no harm, but somebody should know."""
    desk.context().step("old", lambda: 1)
    attempt = desk.attempt()
    assert attempt.durable.left_over == []
    attempt = desk.attempt()
    attempt.context.step("old", lambda: 1)
    attempt.context.step("new", lambda: 1)
    attempt = desk.attempt()
    attempt.context.step("old", lambda: 1)
    assert attempt.durable.left_over == ["new"]


async def test_steps_at_the_same_time_raise_no_false_alarm(desk):
    """One that was done in the run before may be asked for after one that was not."""

    async def failing():
        raise OSError

    async def nothing():
        return None

    async def branch(ctx, name, work):
        await asyncio.sleep(0)
        await ctx.astep(f"{name}1", nothing)
        await ctx.astep(f"{name}2", work)

    for work in (failing, nothing):
        ctx = desk.context()
        gathered = await asyncio.gather(
            branch(ctx, "a", work), branch(ctx, "b", nothing), return_exceptions=work is failing
        )
    assert gathered == [None, None]
    assert sorted(desk.memos) == ["step:a1", "step:a2", "step:b1", "step:b2"]


def test_steps_in_threads_of_the_handlers_own_raise_no_false_alarm(desk):
    """They too are given time to ask."""
    desk.context().step("b", lambda: 1)
    ctx = desk.context()
    late = threading.Timer(0.05, ctx.step, ("b", lambda: 1))
    late.start()
    assert ctx.step("a", lambda: 2) == 2
    late.join()


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (
            object(),
            r"step 'make' ran, and its result cannot be kept: .*cannot be stored as JSON.*retrying the job does it",
        ),
        (
            "x" * MEMO_LIMIT,
            r"step 'make' ran, and its result cannot be kept: it takes 262,\d+ bytes and at most 262,144",
        ),
    ],
)
def test_a_result_that_cannot_be_kept_is_told(desk, value, words):
    """The effect has happened: that is said too."""
    with pytest.raises(StepError, match=words):
        desk.context().step("make", lambda: value, retry=3)
    assert desk.memos == {}


def test_a_result_that_does_not_fit_its_annotation_is_kept(desk):
    """Corrected code goes on from it."""

    def lies() -> int:
        return "text"

    with pytest.raises(StepError, match=r"done and its result is kept.*correct the annotation"):
        desk.context().step("make", lies)
    assert desk.context().step("make", lambda: 0) == "text"


def test_too_many_memos_are_refused_before_the_function_runs(desk):
    """A step too many would not be kept."""
    desk.memos = {f"wait:w:{number}": b"{}" for number in range(MEMOS_LIMIT)}
    ran = []
    with pytest.raises(StepError, match="has 1,000 steps"):
        desk.context().step("more", ran.append, 1)
    assert ran == []


def test_signals_take_no_room_from_steps(desk):
    """Whoever sends many must not be able to kill the job."""
    for number in range(MEMOS_LIMIT):
        desk.memos[f"signal:go:{number:04}"] = b"1"
    assert desk.context().step("more", lambda: 1) == 1


def test_steps_do_not_nest(desk):
    """The inner one would not be asked for once the outer one is done."""
    ctx = desk.context()
    with pytest.raises(StepError, match=r"ctx.step\('inner', …\) is inside step 'outer'"):
        ctx.step("outer", lambda: ctx.step("inner", lambda: 1))


async def test_a_blocking_step_on_the_event_loop_is_refused(desk):
    """It would wait for what only the loop can bring."""
    with pytest.raises(StepError, match=r"would block the event loop: write `await ctx.astep"):
        desk.context().step("charge", lambda: 1)


async def coroutine():
    return None


@pytest.mark.parametrize(
    ("name", "fn", "options", "words"),
    [
        ("", len, {}, "name must be 1 to 128 printable characters, not ''"),
        ("a\n", len, {}, "printable"),
        (7, len, {}, "not 7"),
        ("a", None, {}, "must have a function, not NoneType: give it uncalled, and its arguments after it"),
        ("a", coroutine, {}, r"step 'a' is async: write `await ctx.astep"),
        ("a", len, {"timeout": 0}, "timeout of step 'a' must be a timedelta or seconds above 0, not 0"),
        ("a", len, {"timeout": "1"}, "timeout"),
        ("a", len, {"version": 0}, "version of step 'a' must be an integer, 1 or more, not 0"),
        ("a", len, {"retry": 0}, r"retry of step 'a' must be how often it is tried, or such as Retries"),
        ("a", len, {"retry": "often"}, "retry of step 'a'"),
    ],
)
def test_what_cannot_be_a_step_is_refused(desk, name, fn, options, words):
    """With the parameter and what it must be, before anything runs."""
    with pytest.raises(StepError, match=words):
        desk.context().step(name, fn, **options)
    assert desk.memos == {}


def test_an_option_that_a_step_does_not_have_is_hinted_at(desk):
    """It went to the function, which knows nothing of it; what the function itself takes is no slip."""

    def charge(order, *, timeouts=0):
        return order + timeouts

    with pytest.raises(TypeError, match="unexpected keyword argument 'retries'") as raised:
        desk.context().step("charge", charge, 7, retries=3)
    assert raised.value.__notes__ == [
        "if retries was meant for the step, not for its function: did you mean retry?"
    ]
    assert desk.context().step("charge", charge, 7, timeouts=1) == 8


def test_errors_of_python_name_calls_as_they_are_written(desk):
    """Nobody has written LongHandler."""
    ctx = desk.context()
    with pytest.raises(TypeError, match=r"^ctx\.step\(\) missing 1 required positional argument: 'fn'"):
        ctx.step("charge")
    with pytest.raises(TypeError, match=r"^ctx\.wait_for\(\) missing"):
        ctx.wait_for()
    with pytest.raises(TypeError, match=r"^ctx\.resume\(\) missing"):
        ctx.resume()


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda ctx: ctx.resume([], evry=1), "ctx.resume has no option 'evry'; did you mean every?"),
        (lambda ctx: ctx.wait_for("a", timout=1), "ctx.wait_for has no option 'timout'; did you mean timeout?"),
        (lambda ctx: ctx.await_for("a", timout=1), "ctx.await_for has no option 'timout'; did you mean timeout?"),
    ],
)
def test_a_misspelt_option_is_refused_with_the_one_that_is_meant(desk, call, words):
    with pytest.raises(ConfigurationError, match=re.escape(words)):
        call(desk.context())


class Transaction:
    """A transaction that writes the memo; its commit may fail after it came through, or before."""

    def __init__(self, error: Exception | None = None, *, committed: bool = True) -> None:
        self.error, self.committed = error, committed
        self.begun = 0

    def __enter__(self):
        self.begun += 1
        return self

    def __exit__(self, kind, error, trace):
        if error is not None:
            return
        if self.committed:
            self.desk.memos[self.memo.name] = self.memo.body
        if self.error is not None and self.begun == 1:
            raise self.error


@pytest.mark.parametrize(("committed", "runs"), [(True, 1), (False, 2)])
def test_a_commit_whose_answer_was_lost_is_not_repeated(desk, committed, runs):
    """Before the next try the store is asked."""
    ran, transaction = [], Transaction(StoreUnavailableError("the line broke"), committed=committed)
    desk.context().step("book", ran.append, 1, tx=transaction, retry=Retries(2, AT_ONCE))
    assert len(ran) == runs


def test_what_cannot_be_kept_is_undone_with_its_transaction(desk):
    """So nothing has happened, and that is what is said."""
    with pytest.raises(StepError, match="What it wrote in its transaction is undone"):
        desk.context().step("book", object, tx=Transaction())
    assert desk.memos == {}
