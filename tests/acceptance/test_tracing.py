"""One trace from a request to all that comes of it, over processes, as real servers and workers export it."""

import json
import subprocess
import sys

import httpx
import pytest
from shopfloor import PATIENCE, Shop, environment, eventually

from servers.process import free_port

TRACE = "0af7651916cd43dd8448eb211c80319c"
CALLER = "b7ad6b7169203331"


@pytest.fixture
def shop(tmp_path):
    with Shop(tmp_path, source="tracing_app.py") as made:
        yield made


@pytest.fixture
def server(shop):
    """Give the address of a web server that serves the app, in a process of its own."""
    port = free_port()
    command = [sys.executable, "-m", "uvicorn", "shop:web", "--app-dir", str(shop.folder), "--port", str(port)]
    with (shop.folder / "server.log").open("wb") as out:
        process = subprocess.Popen(command, env=environment(), stdin=subprocess.DEVNULL, stdout=out, stderr=out)
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(PATIENCE)


class Span:
    """One span, as a process wrote it down."""

    def __init__(self, line):
        told = json.loads(line)
        self.name, self.kind, self.pid = told["name"], told["kind"].removeprefix("SpanKind."), told["pid"]
        self.trace = told["context"]["trace_id"].removeprefix("0x")
        self.id = told["context"]["span_id"].removeprefix("0x")
        self.parent_id = told["parent_id"] and told["parent_id"].removeprefix("0x")
        self.attributes, self.events, self.status = told["attributes"], told["events"], told["status"]
        self.begins, self.ends = told["start_time"], told["end_time"]

    def __repr__(self):
        return f"<{self.name} {self.id} under {self.parent_id}>"


def spans_of(shop):
    return [Span(line) for line in (shop.folder / "spans.jsonl").read_text().splitlines()]


def post(url, **headers):
    def answer():
        try:
            return httpx.post(url, headers=headers, timeout=PATIENCE)
        except httpx.TransportError:
            return None

    return eventually(answer, "an answer").json()["id"]


def named(spans, name):
    return sorted(
        (span for span in spans if span.name == name), key=lambda span: span.attributes["standfast.fence"]
    )


def objects_in(text):
    return [json.loads(line) for line in text.splitlines()]


@pytest.mark.parametrize("task", ["on_loop", "in_thread", "in_process"])
def test_one_trace_from_the_request_to_the_follower(shop, server, task):
    """A request, the enqueue, both attempts with their waits, two steps, a follower: one trace, right parents."""
    job_id = post(f"{server}/{task}/7", traceparent=f"00-{TRACE}-{CALLER}-01", tracestate="shop=blue")
    worker = shop.drain("--log-format", "json")
    spans = spans_of(shop)
    assert {span.trace for span in spans} == {TRACE}
    only = {span.name: span for span in spans}
    request, enqueue = only["POST /{task}"], only[f"enqueue {task}"]
    assert (request.parent_id, enqueue.parent_id) == (CALLER, request.id)
    assert (enqueue.kind, enqueue.attributes["messaging.message.id"]) == ("PRODUCER", job_id)

    waits, runs = named(spans, f"wait {task}"), named(spans, f"run {task}")
    assert [span.parent_id for span in (*waits, *runs)] == [enqueue.id] * 4
    assert [span.attributes["standfast.attempt"] for span in runs] == [1, 2]
    assert [span.attributes["standfast.outcome"] for span in runs] == ["retry", "complete"]
    assert {span.kind for span in runs} == {"CONSUMER"}
    assert all(wait.begins <= wait.ends == run.begins for wait, run in zip(waits, runs, strict=True))
    failed, succeeded = runs
    assert [event["name"] for event in failed.events] == ["exception", "retry"]
    assert failed.events[0]["attributes"]["exception.type"] == "ConnectionError"
    assert failed.status == {"status_code": "ERROR", "description": "ConnectionError: the bank is away"}
    assert succeeded.status["status_code"] == "UNSET"
    assert failed.attributes["messaging.system"] == "standfast"

    steps = [span for span in spans if span.name.startswith("step ")]
    assert [span.name for span in steps] == ["step price", "step tax"]
    assert {span.parent_id for span in steps} == {succeeded.id}
    assert sorted(span.parent_id for span in spans if span.name == "look up") == sorted(span.id for span in steps)
    follower = only["enqueue mail"]
    assert follower.parent_id == succeeded.id
    assert only["run mail"].parent_id == follower.id

    assert enqueue.pid != succeeded.pid
    assert (steps[0].pid != succeeded.pid) == (task == "in_process")
    assert_logs_tell_the_trace(shop, worker, job_id, task, {span.id for span in spans if span.name == "look up"})


def assert_logs_tell_the_trace(shop, worker, job_id, task, within):
    """Records of logging and of structlog, and the events of the job, name the job and its trace."""
    lines = objects_in(worker.words)
    job = {"job_id": job_id, "task": task, "queue": "default", "trace_id": TRACE}
    logged = [line for line in lines if line.get("logger") == "shop.orders"]
    assert [{name: line[name] for name in job} for line in logged] == [job] * 2
    assert {line["span_id"] for line in logged} == within
    bridged = [line for line in lines if line.get("logger") == "shop.bridged"]
    assert [(line["message"], line["order_kind"], line["attempt"]) for line in bridged] == [
        ("begins", "large", 1),
        ("begins", "large", 2),
    ]
    assert [{name: line[name] for name in job} for line in bridged] == [job] * 2
    structured = objects_in((shop.folder / "structlog.jsonl").read_text())
    priced = [line for line in structured if line["event"] == "priced"]
    assert [{name: line[name] for name in job} for line in priced] == [job] * 2
    assert {line["span_id"] for line in priced} == within
    told = [line for line in lines if line["event"] in {"job_retrying", "job_completed"}]
    assert {line["trace_id"] for line in told} == {TRACE}
    assert shop.asked("jobs", "show", job_id)["trace_id"] == TRACE


def test_a_cell_that_dies_leaves_the_span_of_its_attempt(shop):
    """The worker ends the span, says what became of the process, and the trace goes on to the enqueue."""
    shop.tasks.dies.enqueue()
    shop.drain()
    spans = {span.name: span for span in spans_of(shop)}
    assert spans["run dies"].parent_id == spans["enqueue dies"].id
    assert spans["run dies"].attributes["standfast.outcome"] == "die"
    assert spans["run dies"].status["status_code"] == "ERROR"


def test_no_secret_is_in_a_span_or_a_line_of_structlog(shop):
    """A handler that fails with a secret in its words tells it to nobody."""
    shop.tasks.leaks.enqueue("correct-horse-battery")
    shop.drain()
    written = (shop.folder / "spans.jsonl").read_text() + (shop.folder / "structlog.jsonl").read_text()
    assert "correct-horse" not in written
    spans = {span.name: span for span in spans_of(shop)}
    for name in ("step use", "run leaks"):
        assert spans[name].status["description"] == "ValueError: •••• is refused"


def test_a_job_that_waits_for_a_signal_is_one_trace(shop):
    """The run that ends in the wait says for what, and the one after it is in the same trace."""
    handle = shop.tasks.waits.enqueue()
    worker = shop.worker()
    eventually(lambda: any(span.name == "run waits" for span in spans_of(shop)), "its first run")
    handle.signal("paid")
    shop.become(handle, "completed")
    assert worker.stop() == 0
    runs = named(spans_of(shop), "run waits")
    assert [span.attributes["standfast.outcome"] for span in runs] == ["snooze", "complete"]
    assert [(event["name"], event["attributes"]) for event in runs[0].events] == [
        ("wait_for", {"standfast.signal": "paid"})
    ]
    assert len({span.trace for span in spans_of(shop)}) == 1
