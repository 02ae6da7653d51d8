"""Lines of logs say which job they are of, whichever library writes them, and where in its trace."""

import io
import json
import logging
import threading
from datetime import UTC, datetime
from typing import Annotated

import pytest
import structlog

from standfast import Context, Secret
from standfast.observe.logs.console import RecordHandler
from standfast.observe.logs.job_log import JobFields, add_job_fields, job_fields
from standfast.observe.logs.json_lines import JsonLines
from standfast.testing.clock import FakeClock

UNFIT = "ValueError: invalid literal for int() with base 10: '••••'"
FIELDS = {"job_id", "task", "queue", "attempt", "trace_id", "span_id"}


@pytest.fixture
def written():
    return io.StringIO()


@pytest.fixture
def said(written):
    """Give a logger of structlog that writes JSON."""
    return structlog.wrap_logger(
        structlog.WriteLogger(written), processors=[add_job_fields, structlog.processors.JSONRenderer()]
    )


def lines_in(written):
    return [json.loads(line) for line in written.getvalue().splitlines()]


def test_structlog_names_the_job_on_the_loop_in_threads_and_in_steps(stage, said, written):
    """Wherever the handler's code runs, and with the span in which it is; what a call gives itself stays."""

    @stage.app.task(queue="mail")
    async def on_loop(ctx: Context) -> None:
        said.info("loop", task="mine")
        await ctx.astep("inside", lambda: said.info("step"))

    @stage.app.task
    def in_thread() -> None:
        said.info("thread")
        own = threading.Thread(target=lambda: said.info("own thread"))
        own.start()
        own.join()

    handles = []
    for task in (on_loop, in_thread):
        handles.append(task.enqueue())
        stage.kit.drain()
    said.info("outside")
    loop, step, thread, own, outside = lines_in(written)
    assert outside == {"event": "outside"}
    assert all(line.keys() == FIELDS | {"event"} for line in (loop, step, thread, own))
    assert (loop["task"], loop["queue"], loop["attempt"]) == ("mine", "mail", 1)
    assert [line["job_id"] for line in (loop, step, thread, own)] == [each.id for each in handles for _ in (1, 2)]
    spans = [stage.only(name) for name in ("run on_loop", "step inside", "run in_thread", "run in_thread")]
    assert [line["span_id"] for line in (loop, step, thread, own)] == [f"{s.context.span_id:016x}" for s in spans]
    assert [line["trace_id"] for line in (loop, step, thread, own)] == [f"{s.context.trace_id:032x}" for s in spans]


def test_structlog_tells_no_secret_of_the_job(stage, said, written):
    @stage.app.task
    def use(token: Annotated[str, Secret]) -> None:
        said.info(f"used {token}", given=[token], count=3, plain=["a"])

    use.enqueue("correct-horse")
    stage.kit.drain()
    (line,) = lines_in(written)
    assert "correct-horse" not in written.getvalue()
    assert (line["event"], line["count"], line["plain"]) == ("used ••••", 3, ["a"])


def test_structlog_tells_no_secret_of_the_job_in_tracebacks(stage, written):
    """Whatever renders them comes after us, and may show what functions had at hand."""
    renders = [add_job_fields, structlog.processors.dict_tracebacks, structlog.processors.JSONRenderer()]
    said = structlog.wrap_logger(structlog.WriteLogger(written), processors=renders)

    @stage.app.task
    def use(token: Annotated[str, Secret]) -> None:
        try:
            int(token)
        except ValueError as error:
            said.error("one", exc_info=True)
            said.error("two", exc_info=error)
            said.error("three", exc_info=(ValueError, error, error.__traceback__))
        said.error("four", exc_info=True)

    use.enqueue("correct-horse")
    stage.kit.drain()
    *told, four = lines_in(written)
    assert "correct-horse" not in written.getvalue()
    assert [line["exception"].splitlines()[-1] for line in told] == [UNFIT] * 3
    assert "exception" not in four


def test_a_handler_of_ones_own_names_the_job_by_the_filter(stage):
    """Also one of a logger that passes nothing on; `extra` of a call, as `ctx.log` gives, does no harm."""
    records = []
    logger = logging.getLogger("shop.apart")
    handler = logging.Handler()
    handler.emit = records.append
    handler.addFilter(JobFields())
    logger.addHandler(handler)
    logger.propagate = False

    @stage.app.task
    def work() -> None:
        logger.warning("one", extra={"task": "mine"})

    try:
        handle = work.enqueue()
        stage.kit.drain()
        logger.warning("two")
    finally:
        logger.removeHandler(handler)
        logger.propagate = True
    one, two = records
    assert (one.job_id, one.task) == (handle.id, "mine")
    assert not hasattr(two, "job_id")
    assert job_fields() == {}


class Bridge:
    """structlog over the standard library's logging, as its documentation sets it up."""

    def __init__(self, processor):
        self.lines = []
        ours = JsonLines(FakeClock(datetime(2026, 5, 4, tzinfo=UTC)), {"pid": 1})
        self._handler = RecordHandler(ours.of_record, lambda line: self.lines.append(json.loads(line)))
        self._logger = logging.getLogger("shop.bridge")
        self._logger.setLevel(logging.INFO)
        self.log = structlog.wrap_logger(
            self._logger, processors=[processor], wrapper_class=structlog.stdlib.BoundLogger
        )

    def __enter__(self):
        self._logger.addHandler(self._handler)
        return self

    def __exit__(self, *_):
        self._logger.removeHandler(self._handler)


@pytest.mark.parametrize(
    "last", [structlog.stdlib.ProcessorFormatter.wrap_for_formatter, structlog.stdlib.render_to_log_kwargs]
)
def test_what_structlog_hands_to_logging_is_flat_in_our_lines(last):
    """Both ways of its bridge: the event is the message, and what it holds are fields."""
    with Bridge(last) as bridge:
        bridge.log.info("order placed", order=42, who={"id": 7})
        try:
            int("x")
        except ValueError:
            bridge.log.exception("it failed", order=43)
    placed, failed = bridge.lines
    assert (placed["message"], placed["order"], placed["who"]) == ("order placed", 42, {"id": 7})
    assert placed.keys() == {"time", "level", "event", "message", "logger", "order", "who", "pid"}
    assert (failed["message"], failed["order"]) == ("it failed", 43)
    assert "ValueError: invalid literal" in failed["traceback"]
