"""Spans of jobs: who is whose parent, what they say, and that no fault of tracing is one of a job."""

import asyncio
import threading
from datetime import UTC, datetime, timedelta
from typing import Annotated

import pytest
from opentelemetry import baggage, context, trace
from opentelemetry.baggage.propagation import W3CBaggagePropagator
from opentelemetry.propagators.composite import CompositePropagator
from opentelemetry.sdk.trace import SpanProcessor
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, ParentBased, Sampler, TraceIdRatioBased
from opentelemetry.trace import SpanKind, StatusCode
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from standfast import ConfigurationError, Context, Every, KeyTakenError, Secret, Snooze, Standfast, State
from standfast.events import JobCompleted, JobRetrying
from standfast.model.codec import read_trace_context
from standfast.model.job import Claim, ClaimRef


def parent_of(span):
    return span.parent and span.parent.span_id


def test_retries_of_a_job_are_in_the_trace_of_its_enqueue(stage):
    """Each attempt has a wait and a run beside the others, below the enqueue."""

    @stage.app.task(max_attempts=3, backoff=5)
    async def flaky(ctx: Context) -> None:
        if ctx.attempt < 3:
            raise ConnectionError("away")

    with stage.tracer.start_as_current_span("request") as request:
        handle = flaky.enqueue()
    stage.kit.drain_all()
    enqueue, runs, waits = stage.only("enqueue flaky"), stage.named("run flaky"), stage.named("wait flaky")
    assert stage.traces == {request.get_span_context().trace_id}
    assert parent_of(enqueue) == request.get_span_context().span_id
    assert [parent_of(span) for span in (*runs, *waits)] == [enqueue.context.span_id] * 6
    assert [span.attributes["standfast.outcome"] for span in runs] == ["retry", "retry", "complete"]
    assert [span.status.status_code for span in runs] == [StatusCode.ERROR, StatusCode.ERROR, StatusCode.UNSET]
    assert runs[0].events[1].attributes["standfast.delay"] == 5
    assert dict(runs[1].attributes) | {"standfast.worker": ""} == {
        "messaging.system": "standfast",
        "messaging.operation.name": "run",
        "messaging.operation.type": "process",
        "messaging.destination.name": "default",
        "messaging.message.id": handle.id,
        "standfast.task": "flaky",
        "standfast.attempt": 2,
        "standfast.max_attempts": 3,
        "standfast.fence": 2,
        "standfast.worker": "",
        "standfast.outcome": "retry",
        "error.type": "ConnectionError",
    }
    told = [event for event in stage.kit.events if isinstance(event, JobRetrying | JobCompleted)]
    assert {event.trace_id for event in told} == {f"{request.get_span_context().trace_id:032x}"}


def test_a_wait_lasts_from_when_a_job_was_due_to_its_start(stage):
    """Measured by the clock of the store, on which the job was due."""

    @stage.app.task
    def work() -> None: ...

    work.options(delay=10).enqueue()
    stage.kit.clock.advance(25)
    stage.kit.drain()
    wait, run = stage.only("wait work"), stage.only("run work")
    assert wait.end_time - wait.start_time == pytest.approx(15e9, abs=1e6)
    assert wait.end_time == run.start_time


@pytest.mark.parametrize("many", [False, True])
async def test_each_way_to_enqueue_has_a_span(stage, many):
    """One by one or many in one, sync and async; jobs of one call go on with one span."""

    @stage.app.task(queue="mail")
    def send(to: str) -> None: ...

    if many:
        handles = send.enqueue_many([{"to": "a"}, {"to": "b"}]) + await send.aenqueue_many([{"to": "c"}])
    else:
        handles = [send.enqueue("a"), send.options(queue="mail").enqueue("b"), await send.aenqueue("c")]
    spans = stage.named("enqueue send")
    assert {span.kind for span in spans} == {SpanKind.PRODUCER}
    assert {span.attributes["messaging.destination.name"] for span in spans} == {"mail"}
    carried = [read_trace_context(handle.job().payload)["traceparent"].split("-")[2] for handle in handles]
    ids = [f"{span.context.span_id:016x}" for span in spans]
    assert carried == ([ids[0], ids[0], ids[1]] if many else ids)
    if many:
        assert spans[0].attributes["messaging.batch.message_count"] == 2
    else:
        assert [span.attributes["messaging.message.id"] for span in spans] == [handle.id for handle in handles]


def test_work_that_is_enqueued_instead_of_done_is_traced(tmp_path, stage):
    """`when_full="enqueue"` enqueues as anyone does."""
    app = Standfast(f"sqlite:///{tmp_path}/jobs.db", background_limit=1, background_when_full="enqueue")
    app.use_tracing(stage.provider)

    @app.task
    def render() -> None:
        release.wait()

    release = threading.Event()
    with app, stage.tracer.start_as_current_span("request") as request:
        app.background(render)
        app.background(render)
        release.set()
    assert parent_of(stage.only("enqueue render")) == request.get_span_context().span_id


def test_a_refused_enqueue_is_an_error_of_its_span(stage):
    @stage.app.task
    def pay() -> None: ...

    pay.options(key="k").enqueue()
    with pytest.raises(KeyTakenError):
        pay.options(key="k", on_conflict="raise").enqueue()
    refused = stage.named("enqueue pay")[-1]
    assert refused.status.status_code is StatusCode.ERROR
    assert refused.attributes["error.type"] == "KeyTakenError"


def test_a_job_of_a_handler_is_a_child_of_its_run(stage):
    """Enqueued on the loop, in its thread or in a step."""

    @stage.app.task
    def follow(number: int) -> None: ...

    @stage.app.task
    async def on_loop(ctx: Context) -> None:
        await follow.aenqueue(1)
        await ctx.astep("inside", follow.enqueue, 2)

    @stage.app.task
    def in_thread() -> None:
        follow.enqueue(3)

    on_loop.enqueue()
    in_thread.enqueue()
    stage.kit.drain()
    parents = [parent_of(span) for span in stage.named("enqueue follow")]
    above = [stage.only(name).context.span_id for name in ("run on_loop", "step inside", "run in_thread")]
    assert parents == above
    assert len(stage.named("run follow")) == 3


def test_steps_at_the_same_time_are_beside_each_other(stage):
    """Each has the spans of its own code below it; what was done before has no span in a later run."""

    async def part(number: int) -> None:
        await asyncio.sleep(0)
        with stage.tracer.start_as_current_span(f"inner {number}"):
            await asyncio.sleep(0)

    @stage.app.task(max_attempts=2, backoff=0)
    async def both(ctx: Context) -> None:
        await asyncio.gather(ctx.astep("one", part, 1), ctx.astep("two", part, 2))
        if ctx.attempt == 1:
            raise ConnectionError

    both.enqueue()
    stage.kit.drain_all()
    first, _ = stage.named("run both")
    for number, name in ((1, "one"), (2, "two")):
        assert parent_of(stage.only(f"step {name}")) == first.context.span_id
        assert parent_of(stage.only(f"inner {number}")) == stage.only(f"step {name}").context.span_id


def test_a_step_of_a_bare_thread_is_in_the_trace(stage):
    """A thread that a handler starts may have no context; its steps are of the run all the same."""

    @stage.app.task
    def handler(ctx: Context) -> None:
        thread = threading.Thread(target=lambda: ctx.step("apart", int))
        thread.start()
        thread.join()

    handler.enqueue()
    stage.kit.drain()
    assert parent_of(stage.only("step apart")) == stage.only("run handler").context.span_id


def test_errors_are_told_without_secrets(stage):
    @stage.app.task(max_attempts=1)
    def leak(ctx: Context, token: Annotated[str, Secret]) -> None:
        def inside() -> None:
            raise ValueError(f"not {token}")

        ctx.step("use", inside)

    leak.enqueue("correct-horse")
    stage.kit.drain()
    for span in (stage.only("step use"), stage.only("run leak")):
        assert span.status.description == "ValueError: not ••••"
        (told,) = span.events
        assert told.attributes["exception.type"] == "ValueError"
        assert "correct-horse" not in told.attributes["exception.stacktrace"]
        assert "inside" in told.attributes["exception.stacktrace"]


def test_a_run_that_ends_in_a_wait_says_for_what(stage):
    @stage.app.task(max_attempts=1)
    def waits(ctx: Context) -> None:
        ctx.sleep_until(60)
        ctx.wait_for("paid", timeout=60)

    @stage.app.task
    def snoozes(ctx: Context) -> None:
        if ctx.fence == 1:
            raise Snooze(7)

    waits.enqueue()
    snoozes.enqueue()
    stage.kit.drain_all()
    events = [event for span in stage.named("run waits") for event in span.events]
    assert [event.name for event in events] == ["sleep_until", "wait_for", "exception"]
    assert events[0].attributes["standfast.delay"] == pytest.approx(60)
    assert dict(events[1].attributes) == {"standfast.signal": "paid"}
    (snooze,) = stage.named("run snoozes")[0].events
    assert (snooze.name, dict(snooze.attributes)) == ("snooze", {"standfast.delay": 7})


def test_all_attempts_of_a_scheduled_job_are_in_a_trace_of_its_own(stage):
    """Nobody enqueued it within a trace: each job has another, and its retries are in the same."""

    @stage.app.task(max_attempts=2, backoff=0)
    def tick(ctx: Context) -> None:
        if ctx.attempt == 1:
            raise ConnectionError

    stage.app.call(stage.app.schedules.create("ticks", tick, Every(60)))
    for _ in range(2):
        stage.kit.advance(60)
        stage.kit.fire_schedules()
        stage.kit.drain()
        stage.kit.drain()
    runs = stage.named("run tick")
    by_job = {}
    for run in runs:
        by_job.setdefault(run.attributes["messaging.message.id"], set()).add(run.context.trace_id)
    assert len(runs) == 4
    assert all(len(traces) == 1 for traces in by_job.values())
    assert len(stage.traces) == 2
    assert stage.named("enqueue tick") == []


def test_the_sampler_decides_over_the_traces_of_scheduled_jobs_too(stage_with):
    """As over any other that begins here; and for all attempts of a job alike."""
    stage = stage_with(sampler=ParentBased(TraceIdRatioBased(0.5)))

    @stage.app.task(max_attempts=2, backoff=0)
    def work(ctx: Context) -> None:
        if ctx.attempt == 1:
            raise ConnectionError

    request = stage.app.tasks["work"].options()
    jobs = [request.request((), {}) for _ in range(40)]
    stage.app.call(stage.app.verbs.enqueue(jobs))
    stage.kit.drain_all()
    seen = [span.attributes["messaging.message.id"] for span in stage.named("run work")]
    assert 5 < len(set(seen)) < 35
    assert all(seen.count(job) == 2 for job in seen)


def test_what_is_not_sampled_stays_so(stage_with):
    """The producer's decision is carried, and followed."""
    stage = stage_with(sampler=ParentBased(ALWAYS_OFF))

    @stage.app.task
    def work() -> None: ...

    handle = work.enqueue()
    flags = int(read_trace_context(handle.job().payload)["traceparent"][-2:], 16)
    assert not flags & trace.TraceFlags.SAMPLED
    stage.kit.drain()
    assert handle.status() is State.COMPLETED
    assert stage.spans == ()


@pytest.mark.parametrize("asked", [False, True])
def test_baggage_is_carried_only_by_a_propagator_that_is_asked_for(stage_with, asked):
    """It may hold anything, and would be stored."""
    both = CompositePropagator([TraceContextTextMapPropagator(), W3CBaggagePropagator()])
    stage = stage_with(propagator=both if asked else None)
    found = []

    @stage.app.task
    def look() -> None:
        found.append(baggage.get_baggage("tenant"))

    token = context.attach(baggage.set_baggage("tenant", "t1"))
    try:
        handle = look.enqueue()
    finally:
        context.detach(token)
    stage.kit.drain()
    assert ("baggage" in read_trace_context(handle.job().payload)) == asked
    assert found == ["t1" if asked else None]


class Faulty(Sampler):
    """A sampler that fails."""

    def should_sample(self, *_, **__):
        raise RuntimeError("no")

    def get_description(self):
        return "faulty"


class Broken(TraceContextTextMapPropagator):
    """A propagator that fails."""

    def inject(self, *_, **__):
        raise RuntimeError("no")

    extract = inject


class Unfit(TraceContextTextMapPropagator):
    """A propagator that writes what no payload can carry."""

    def inject(self, carrier, *_, **__):
        carrier["traceparent"] = object()


class Reluctant(SpanProcessor):
    """A processor that fails when an enqueue or a step ends."""

    def on_end(self, span):
        if span.name in {"enqueue work", "step one"}:
            raise RuntimeError("no")


@pytest.mark.parametrize("fault", [{"sampler": Faulty()}, {"propagator": Broken()}, {"propagator": Unfit()}])
def test_a_fault_of_tracing_is_none_of_a_job(stage_with, fault, caplog):
    """It is logged; the job is enqueued, runs and does its steps."""
    stage = stage_with(**fault)

    @stage.app.task
    def work(ctx: Context) -> int:
        return ctx.step("one", int, "1")

    handle = work.enqueue()
    stage.kit.drain()
    assert handle.result() == 1
    assert "is not traced" in caplog.text


def test_a_span_that_cannot_be_ended_harms_no_job(stage, caplog):
    """Neither whoever enqueues, to whom a stored job would seem refused, nor the step, which would run again."""
    stage.provider.add_span_processor(Reluctant())

    @stage.app.task(max_attempts=1)
    def work(ctx: Context) -> int:
        return ctx.step("one", int, "1")

    handle = work.enqueue()
    stage.kit.drain()
    assert handle.result() == 1
    assert caplog.text.count("a span could not be ended") == 2


def test_an_attempt_leaves_nothing_in_the_context(stage):
    """Its span is the present one from its beginning to its end, and no longer."""
    claim = Claim(ClaimRef("j1", 1), "work", 1, b'{"v":1,"args":{}}', "default", 0, datetime.now(UTC), 0, 0, 1)
    attempt = stage.app.tracing.begin(claim, timedelta(), "w1")
    assert trace.get_current_span().is_recording()
    attempt.end(None)
    assert not trace.get_current_span().get_span_context().is_valid
    assert stage.only("run work").attributes["standfast.outcome"] == "lost"


def test_an_app_without_tracing_makes_no_span(stage):
    app = Standfast("memory://")

    @app.task
    def work() -> None: ...

    with stage.tracer.start_as_current_span("request"):
        handle = work.enqueue()
    assert handle.job().payload == b'{"v":1,"args":{}}'
    assert [span.name for span in stage.spans] == ["request"]
    app.close()


def test_tracing_is_asked_for_once_and_with_what_it_takes():
    app = Standfast("memory://")
    with pytest.raises(ConfigurationError, match=r"provider of app\.use_tracing must be .* not 'x'; leave it out"):
        app.use_tracing("x")
    with pytest.raises(ConfigurationError, match=r"propagator of app\.use_tracing .* leave it out for W3C's"):
        app.use_tracing(propagator=object())
    app.use_tracing()
    with pytest.raises(ConfigurationError, match="called twice"):
        app.use_tracing()
