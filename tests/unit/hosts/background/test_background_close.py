"""The end of an app is the end of its background: all are told, waited for, and named where they go on."""

import asyncio
import logging
import threading
from contextlib import suppress

import pytest

from forking import run_forking
from standfast import BackgroundCancelledError, BackgroundClosedError, BackgroundState, Interrupted, Life, Standfast
from standfast.testing import StandfastKit

LONG = 30.0
LOGGER = "standfast.hosts.background.group"


@pytest.fixture
def app(tmp_path):
    """Give an app with a short grace."""
    return Standfast(f"sqlite:///{tmp_path}/jobs.db", background_limit=4, grace=0.05)


def lines(caplog):
    """Return what the background has said."""
    return [record.getMessage() for record in caplog.records if record.name == LOGGER]


def test_a_close_tells_and_waits(tmp_path, caplog):
    """What heeds the word ends in its own way, before the close returns, and nothing is said."""
    app = Standfast(f"sqlite:///{tmp_path}/jobs.db", grace=LONG)
    begun, tidied = threading.Barrier(3), []

    def thread(life: Life):
        begun.wait(LONG)
        try:
            life.sleep(LONG)
        finally:
            tidied.append("thread")

    async def coroutine(life: Life):
        await asyncio.to_thread(begun.wait, LONG)
        with suppress(Interrupted):
            await life.asleep(LONG)
        tidied.append("coroutine")
        return "whole"

    works = [app.background(thread), app.background(coroutine)]
    begun.wait(LONG)
    app.close()
    assert sorted(tidied) == ["coroutine", "thread"]
    assert [work.state for work in works] == [BackgroundState.CANCELLED, BackgroundState.COMPLETED]
    assert works[1].result(0) == "whole"
    assert lines(caplog) == []


def test_what_does_not_end_is_named_in_one_line(app, caplog):
    """A thread goes on and is not waited for again; a coroutine is cancelled after the grace."""
    go, begun = threading.Event(), threading.Event()

    def stubborn():
        begun.set()
        go.wait(LONG)

    async def sleeper():
        await asyncio.sleep(LONG)

    stuck, slept = app.background.options(name="stubborn")(stubborn), app.background(sleeper)
    assert begun.wait(LONG)
    app.close()
    assert slept.state is BackgroundState.CANCELLED
    assert stuck.state is BackgroundState.RUNNING
    [line] = lines(caplog)
    assert line.startswith("work in the background did not end within 50 ms: stubborn (")
    app.close()
    assert len(lines(caplog)) == 1
    go.set()
    assert stuck.ended(LONG)


def test_what_waits_never_begins(tmp_path, caplog):
    """It is cancelled, and named."""
    app = Standfast(f"sqlite:///{tmp_path}/jobs.db", background_limit=1, grace=LONG)
    begun = threading.Event()

    def first(life: Life):
        begun.set()
        life.sleep(LONG)

    app.background(first)
    assert begun.wait(LONG)
    called = []
    waiting = app.background.options(name="second")(called.append, 1)
    app.close()
    with pytest.raises(BackgroundCancelledError, match="before it began"):
        waiting.result(0)
    assert called == []
    assert lines(caplog) == ["work in the background never began: second"]


def test_after_the_close_nothing_begins(app):
    """Until the app is entered again; that its store can be used again is no reason."""
    app.close()
    with pytest.raises(BackgroundClosedError, match="the app was closed"):
        app.background(print)
    with app:
        assert app.background(int, "7").result(LONG) == 7
    with pytest.raises(BackgroundClosedError):
        app.background(print)


def test_work_that_closes_its_app_does_not_wait_for_itself(tmp_path):
    """Nor does that end its loop under it."""
    app = Standfast(f"sqlite:///{tmp_path}/jobs.db", grace=LONG)

    async def aclose():
        await app.aclose()
        return "closed"

    assert app.background(app.close).result(5) is None
    app.background.open()
    assert app.background(aclose).result(5) == "closed"


async def test_a_close_on_the_loop_cancels_what_runs_there(app, caplog):
    """It cannot wait for it, and says what could."""
    begun = asyncio.Event()

    async def endless():
        begun.set()
        await asyncio.sleep(LONG)

    work = app.background(endless)
    await begun.wait()
    app.close()
    assert await work.aended(5)
    assert work.state is BackgroundState.CANCELLED
    [line] = lines(caplog)
    assert "`await app.aclose()` waits" in line
    assert "endless" in line


def test_work_whose_loop_is_gone_is_over(app, caplog):
    """Nobody can wait for it: neither a close nor its handle."""

    async def endless():
        await asyncio.sleep(LONG)

    async def main():
        return app.background(endless)

    ended = asyncio.run(main())
    assert ended.state is BackgroundState.CANCELLED
    loop = asyncio.new_event_loop()
    left = loop.run_until_complete(main())
    loop.close()
    app.close()
    assert left.state is BackgroundState.CANCELLED
    assert lines(caplog) == []


def test_a_close_ends_what_begins_meanwhile(tmp_path):
    """From many threads at once: whatever was accepted has an end, and the rest is refused."""
    app = Standfast(f"sqlite:///{tmp_path}/jobs.db", background_limit=3, grace=LONG)
    works, refused, full = [], [], threading.Event()

    def sleep(life: Life):
        life.sleep(LONG)

    async def asleep(life: Life):
        await life.asleep(LONG)

    def begin_many(fn):
        while True:
            try:
                works.append(app.background(fn))
            except BackgroundClosedError as error:
                refused.append(error)
                return
            if len(works) > 20:
                full.set()

    threads = [threading.Thread(target=begin_many, args=(fn,)) for fn in (sleep, asleep, sleep)]
    for thread in threads:
        thread.start()
    assert full.wait(LONG)
    app.close()
    for thread in threads:
        thread.join(LONG)
    assert len(refused) == 3
    assert all(work.ended(5) for work in works)
    assert {work.state for work in works} == {BackgroundState.CANCELLED}
    assert app.backgrounds == ()


def test_a_burst_runs_within_the_limit(tmp_path):
    """Begun and cancelled from several threads: never more than the limit at a time, and each ends once."""
    app = Standfast(f"sqlite:///{tmp_path}/jobs.db", background_limit=3, grace=LONG)
    lock, running, most, ran = threading.Lock(), [0], [0], []

    def count(number):
        with lock:
            running[0] += 1
            most[0] = max(most[0], running[0])
        ran.append(number)
        with lock:
            running[0] -= 1
        return number

    async def acount(number):
        return count(number)

    def begin(first):
        for number in range(first, first + 50):
            work = app.background(acount if number % 3 else count, number)
            works.append(work)

    works = []
    threads = [threading.Thread(target=begin, args=(first,)) for first in (0, 50, 100, 150)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LONG)
    assert sorted(work.result(LONG) for work in works) == list(range(200))
    assert sorted(ran) == list(range(200))
    assert most[0] <= 3
    named = [thread.name for thread in threading.enumerate() if thread.name.startswith("standfast-background-")]
    app.close()
    assert len([name for name in named if name != "standfast-background-loop"]) <= 3 + 3  # and those of other tests


def test_a_forked_process_has_none_of_it(tmp_path):
    """No work, no thread that it could wait for; but it may begin some of its own, and its parent goes on."""
    run_forking(
        """
import asyncio, sys, threading
from standfast import BackgroundCancelledError, Standfast, Life

app = Standfast(f"sqlite:///{sys.argv[1]}/jobs.db", background_limit=2, grace=20)
begun = threading.Barrier(3)

def sleep(life: Life):
    begun.wait(20)
    life.sleep(20)
    return 1

async def asleep(life: Life):
    await asyncio.to_thread(begun.wait, 20)
    await life.asleep(20)

works = [app.background(sleep), app.background(asleep)]
waiting = app.background(int, "7")
begun.wait(20)

def act():
    assert app.backgrounds == ()
    for work in [*works, waiting]:
        assert work.ended(0) and work.state == "cancelled", work
    assert [app.background(int, text).result(20) for text in ("1", "2", "3")] == [1, 2, 3]
    async def one(): return 1
    assert app.background(one).result(20) == 1
    app.close()

assert well(fork(act))
assert len(app.backgrounds) == 3
waiting.cancel()
app.close()
assert well(fork(lambda: app.background(int, "5").result(20)))
assert [work.state for work in works] == ["cancelled", "cancelled"]
""",
        tmp_path,
    )


def test_a_kit_ends_what_its_test_began(app):
    """The app goes on after it, with what it had before."""
    begun = threading.Event()

    def sleep(life: Life):
        begun.set()
        life.sleep(LONG)

    with StandfastKit(app):
        work = app.background(sleep)
        assert begun.wait(LONG)
    assert work.state is BackgroundState.CANCELLED
    assert app.background(int, "1").result(LONG) == 1
    app.close()


def test_failures_at_the_close_are_said(app, caplog):
    """One that goes on after the close and then fails is in the log at least."""
    go, begun = threading.Event(), threading.Event()

    def fail():
        begun.set()
        go.wait(LONG)
        raise ValueError("too late")

    work = app.background(fail)
    assert begun.wait(LONG)
    app.close()
    go.set()
    assert work.ended(LONG)
    said = [record for record in caplog.records if "too late" in record.getMessage()]
    assert [record.levelno for record in said] == [logging.ERROR]
