"""What an attempt logs is kept with it: the last lines, whoever wrote them, and nobody else's."""

import asyncio
import logging
import re
import threading
from collections.abc import Callable, Iterator
from io import StringIO
from pathlib import Path
from typing import Annotated

import pytest
from stage import Stage, play, working

from standfast import Context, Secret, Standfast
from standfast.model.states import State
from standfast.observe.logs.job_log import (
    LONGEST_LINE,
    MOST_CHARACTERS,
    MOST_LINES,
    TRACE_LINES,
    LogRing,
    keep_log_tails,
    read_ring,
    starter_noted,
)

log = logging.getLogger("shop")


@pytest.fixture(autouse=True)
def kept() -> Iterator[None]:
    """Keep the tails for one test, as the child does for its life."""
    root = logging.getLogger()
    before = root.handlers[:]
    end = keep_log_tails(root)
    log.setLevel(logging.INFO)
    yield
    end()
    root.handlers[:] = before
    log.setLevel(logging.NOTSET)


@pytest.fixture
def own() -> Iterator[tuple[logging.Logger, StringIO]]:
    """Have a logger with a handler of its own, and what that writes."""
    logger, written = logging.getLogger("library"), StringIO()
    handler = logging.StreamHandler(written)
    handler.setFormatter(logging.Formatter("%(message)s"))
    logger.addHandler(handler)
    yield logger, written
    logger.removeHandler(handler)
    logger.propagate = True


def app_with(handler, **policy) -> Standfast:
    app = Standfast("memory://")
    app.task(name="work", **policy)(handler)
    return app


def run_one(handler, *args, **policy) -> str | None:
    """Run one job of this handler with these arguments; return the log of its first attempt."""
    found: list[str | None] = []

    async def scenario() -> None:
        stage = Stage(app_with(handler, **policy))
        handle = stage.app.tasks["work"].enqueue(*args)
        async with working(stage):
            await stage.settled(handle)
        found.append(stage.history(handle)[0].log)

    play(scenario, virtual=False)
    return found[0]


async def chatter() -> None:
    log.info("packing %d boxes", 3)
    log.debug("nobody asked for this")
    log.warning("two\nlines")


def chatter_in_thread() -> None:
    asyncio.run(chatter())


@pytest.mark.parametrize("handler", [chatter, chatter_in_thread])
def test_lines_of_an_attempt_are_kept_in_order(handler) -> None:
    """With time, level and logger; what the logger does not let through does not count."""
    text = run_one(handler)
    assert text is not None
    first, second, third = text.splitlines()
    assert re.fullmatch(r"\d\d:\d\d:\d\d\.\d{3} INFO shop: packing 3 boxes", first)
    assert re.fullmatch(r"\d\d:\d\d:\d\d\.\d{3} WARNING shop: two", second)
    assert third == "lines"


def test_an_attempt_that_says_nothing_has_no_log() -> None:
    """Not even an empty one."""

    async def silent() -> None:
        logging.getLogger("shop").debug("below the level")

    assert run_one(silent) is None


def test_the_context_logs_the_same_way() -> None:
    """`ctx.log` is one of the loggers."""

    async def talk(ctx: Context) -> None:
        ctx.log.warning("by the context")

    assert str(run_one(talk)).endswith("WARNING standfast.job: by the context")


def test_a_failed_attempt_keeps_its_log_too_and_exceptions_are_shortened() -> None:
    """The last lines of a traceback say most."""

    def deep(depth: int) -> None:
        if depth:
            deep(depth - 1)
        raise ValueError("too deep")

    async def fail() -> None:
        try:
            deep(10)
        except ValueError:
            log.exception("that went wrong")
        raise ConnectionError("for good")

    lines = str(run_one(fail, max_attempts=1)).splitlines()
    assert lines[0].endswith("ERROR shop: that went wrong")
    assert lines[-1] == "ValueError: too deep"
    assert len(lines) == 1 + TRACE_LINES


def test_only_the_end_is_kept() -> None:
    """So many lines, so many characters, and no line without end."""

    async def flood() -> None:
        for number in range(10_000):
            log.info("line %d", number)

    async def shout() -> None:
        for number in range(20):
            log.info("%d %s", number, "x" * 5_000)

    lines = str(run_one(flood)).splitlines()
    assert len(lines) == MOST_LINES
    assert lines[-1].endswith("line 9999")
    text = str(run_one(shout))
    assert MOST_CHARACTERS - LONGEST_LINE <= len(text) <= MOST_CHARACTERS
    assert re.match(r"\d\d:", text), "it begins with a whole line"


def test_a_record_that_cannot_be_formatted_harms_nobody(monkeypatch) -> None:
    """Wrong arguments, text that no store holds: something readable is kept."""
    monkeypatch.setattr(logging, "raiseExceptions", False)

    async def mumble() -> None:
        log.info("%d boxes", "three")
        log.info("caf\udce9 \0")

    first, second = str(run_one(mumble)).splitlines()
    assert first.endswith("%d boxes")
    assert second.endswith("caf\\udce9 \\x00")


def test_attempts_at_the_same_time_keep_their_own() -> None:
    """Two coroutines and two threads log in turn; none has a line of the others. Their tasks count."""

    async def scenario() -> None:
        app = Standfast("memory://")
        barrier = threading.Barrier(2)
        met = asyncio.Event()

        async def helper(name: str) -> None:
            log.info("helper of %s", name)

        @app.task
        async def on_loop(name: str) -> None:
            log.info("%s before", name)
            if name == "a":
                await met.wait()
            met.set()
            await asyncio.ensure_future(helper(name))

        @app.task
        def in_thread(name: str) -> None:
            barrier.wait(10)
            log.info("%s before", name)
            barrier.wait(10)
            log.info("helper of %s", name)

        stage = Stage(app)
        handles = {name: on_loop.enqueue(name) for name in "ab"}
        handles |= {name: in_thread.enqueue(name) for name in "cd"}
        async with working(stage):
            for handle in handles.values():
                assert (await stage.settled(handle)).state is State.COMPLETED
        for name, handle in handles.items():
            words = [line.partition("shop: ")[2] for line in str(stage.history(handle)[0].log).splitlines()]
            assert words == [f"{name} before", f"helper of {name}"]

    play(scenario, virtual=False)


def test_other_handlers_learn_which_job_a_record_is_about() -> None:
    """A formatter may show the job, whichever logger was used; records of no job are left as they are."""
    seen: list[logging.LogRecord] = []

    class Listener(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            seen.append(record)

    async def talk(ctx: Context) -> None:
        log.warning(ctx.job_id)

    listener = Listener()
    logging.getLogger().addHandler(listener)
    run_one(talk)
    log.warning("of no job")
    (about_job,) = [record for record in seen if hasattr(record, "job_id")]
    assert about_job.job_id == about_job.getMessage()
    assert (about_job.task, about_job.queue, about_job.attempt) == ("work", "default", 1)
    assert [record.getMessage() for record in seen if record.name == "shop"][-1] == "of no job"


@pytest.mark.parametrize("propagate", [True, False])
@pytest.mark.parametrize("in_thread", [True, False])
def test_secrets_are_kept_from_handlers_of_every_logger(own, in_thread: bool, propagate: bool) -> None:
    """Also from those that do not sit at the root, and where nothing reaches the root."""
    logger, written = own
    logger.propagate = propagate

    def leak(token: str) -> None:
        try:
            {}[token]
        except KeyError:
            logger.exception("no %s", token)
        logger.warning({"auth": token})
        logger.warning("%d", token)

    async def on_loop(token: Annotated[str, Secret]) -> None:
        leak(token)

    def off_loop(token: Annotated[str, Secret]) -> None:
        leak(token)

    run_one(off_loop if in_thread else on_loop, "tok-12345")
    assert "tok-12345" not in written.getvalue()
    lines = written.getvalue().splitlines()
    assert lines[0] == "no ••••"
    assert lines[-3:] == ["KeyError: '••••'", "{'auth': '••••'}", "%d ('••••',)"]


@pytest.mark.parametrize("nested", [False, True])
def test_a_thread_of_a_handler_has_its_log_and_its_secrets(own, nested: bool) -> None:
    """Also one that such a thread starts."""
    logger, written = own

    def leak(token: str) -> None:
        logger.warning("connecting with %s", token)

    def run(work, *args) -> None:
        thread = threading.Thread(target=work, args=args)
        thread.start()
        thread.join()

    def handler(token: Annotated[str, Secret]) -> None:
        run(run, leak, token) if nested else run(leak, token)

    text = run_one(handler, "tok-12345")
    assert written.getvalue() == "connecting with ••••\n"
    assert text is not None
    assert text.endswith("WARNING library: connecting with ••••")


def test_a_thread_that_outlives_its_attempt_keeps_the_secrets_only(own, tmp_path: Path) -> None:
    """What it logs afterwards is without them, on every handler and in the ring; the arguments are let go."""
    logger, written = own
    ring = LogRing(tmp_path / "log")
    logger.addHandler(ring)
    over, threads = threading.Event(), []

    def later(find: Callable[[], str]) -> None:
        over.wait()
        logger.warning("still with %s", find())

    def handler(token: Annotated[str, Secret]) -> None:
        threads.append(threading.Thread(target=later, args=(lambda: token,)))
        threads[0].start()

    assert run_one(handler, "tok-12345") is None
    starter = starter_noted(threads[0])
    assert starter is not None
    assert b"tok-12345" not in starter.claim.payload
    over.set()
    threads[0].join()
    logger.removeHandler(ring)
    assert written.getvalue() == "still with ••••\n"
    assert read_ring(tmp_path / "log").startswith("[work ")
    assert read_ring(tmp_path / "log").endswith("still with ••••")


def test_records_are_left_alone_where_there_are_no_secrets(own) -> None:
    """Of a job without secrets, and of no job: message and arguments stay apart."""
    seen: list[logging.LogRecord] = []
    logger, _ = own
    logger.handlers[0].addFilter(lambda record: seen.append(record) is None)

    def talk(token: str) -> None:
        logger.warning("no %s", token)

    run_one(talk, "tok-12345")
    talk("tok-12345")
    assert [(record.msg, record.args) for record in seen] == [("no %s", ("tok-12345",))] * 2


def test_a_record_that_cannot_say_itself_does_not_fail_the_attempt(own) -> None:
    """Its secrets cannot be looked for: only its class is told."""

    class Mute:
        def __str__(self) -> str:
            raise ValueError("mute")

        __repr__ = __str__

    async def talk(token: Annotated[str, Secret]) -> str:
        own[0].warning(Mute(), extra={"more": Mute()})
        own[0].warning("after %s", token)

    assert "after ••••" in str(run_one(talk, "tok-12345", max_attempts=1))
    assert "<Mute>" in own[1].getvalue()


def test_the_way_records_are_made_is_put_back() -> None:
    """A factory of the app's own is asked as before; one that came later and is around ours stays."""
    root, before = logging.getLogger(), logging.getLogRecordFactory()
    try:
        made: list[str] = []

        def of_the_app(*args, **more) -> logging.LogRecord:
            made.append(args[0])
            return before(*args, **more)

        logging.setLogRecordFactory(of_the_app)
        end = keep_log_tails(root)
        log.warning("one")
        end()
        assert logging.getLogRecordFactory() is of_the_app
        assert made == ["shop"]
        end = keep_log_tails(root)
        around = logging.getLogRecordFactory()

        def later(*args, **more) -> logging.LogRecord:
            return around(*args, **more)

        logging.setLogRecordFactory(later)
        end()
        assert logging.getLogRecordFactory() is later
    finally:
        logging.setLogRecordFactory(before)
