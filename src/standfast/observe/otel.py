"""What spans say of jobs: names and values as OpenTelemetry's conventions for messaging have them, and our own."""

import logging
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import timedelta
from functools import partial
from hashlib import blake2b
from typing import Any

from msgspec.structs import replace
from opentelemetry import context, trace
from opentelemetry.context import Context
from opentelemetry.propagators.textmap import TextMapPropagator
from opentelemetry.trace import Span, SpanKind, StatusCode, Tracer, TracerProvider
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from standfast.errors import StandfastError
from standfast.model.codec import add_trace_context, read_trace_context, trace_id_in
from standfast.model.display import standfast_version
from standfast.model.job import Claim, Ending, Failure, NewJob
from standfast.model.memos import signal_name
from standfast.model.secrets import Scrub
from standfast.model.states import Move

Attributes = dict[str, str | int | float]

SYSTEM = "standfast"


def _of_enqueue(jobs: Sequence[NewJob]) -> Attributes:
    """Return what is known of jobs that are about to be enqueued."""
    first = jobs[0]
    known: Attributes = {
        "messaging.system": SYSTEM,
        "messaging.operation.name": "enqueue",
        "messaging.operation.type": "send",
        "messaging.destination.name": first.queue,
        "standfast.task": first.task,
    }
    if len(jobs) == 1:
        return known | {"messaging.message.id": first.id}
    return known | {"messaging.batch.message_count": len(jobs)}


def _of_wait(claim: Claim) -> Attributes:
    """Return what is known of the time that a job waited: little, as every job pays for it; the run has more."""
    return {
        "messaging.system": SYSTEM,
        "messaging.message.id": claim.job_id,
        "standfast.task": claim.task,
        "standfast.fence": claim.fence,
    }


def _of_run(claim: Claim, worker: str) -> Attributes:
    """Return what is known of an attempt that begins."""
    return {
        "messaging.system": SYSTEM,
        "messaging.operation.name": "run",
        "messaging.operation.type": "process",
        "messaging.destination.name": claim.queue,
        "messaging.message.id": claim.job_id,
        "standfast.task": claim.task,
        "standfast.attempt": claim.attempt + 1,
        "standfast.max_attempts": claim.max_attempts,
        "standfast.fence": claim.fence,
        "standfast.worker": worker,
    }


def _event_of(ending: Ending) -> tuple[str, Mapping[str, str | int | float]] | None:
    """Return what an ending means for the time after it: another try, or a wait."""
    delay: Attributes = {"standfast.delay": ending.delay.total_seconds()}
    match ending.move:
        case Move.RETRY:
            return "retry", delay
        case Move.SNOOZE:
            name = signal_name(ending.reason)
            if name is not None:
                return "wait_for", {"standfast.signal": name}
            return ("snooze" if ending.reason is None else "sleep_until"), delay
        case _:
            return None


log = logging.getLogger(__name__)

_FAILED = frozenset({Move.RETRY, Move.DIE})


class OTelAttempt:
    """What one attempt does, as spans, in the process that runs it or, for a cell, in that of its worker.

    It is made in the context of the attempt, whose span is the present one then.
    """

    def __init__(
        self, tracer: Tracer, span: Span, within: Context, carried: Callable[[], Mapping[str, str]]
    ) -> None:
        self._tracer = tracer
        self._span = span
        self._within = within
        self._carried = carried
        self._before = context.attach(within)

    def carried(self) -> Mapping[str, str]:
        """Return what another process needs to go on with the trace."""
        return self._carried()

    def ids(self) -> Mapping[str, str]:
        """Return the `trace_id` and `span_id` of the code that asks, as W3C writes them, if it has any."""
        here = trace.get_current_span().get_span_context()
        if not here.is_valid:  # a thread of the handler's own
            here = self._span.get_span_context()
        if not here.is_valid:
            return {}
        return {"trace_id": trace.format_trace_id(here.trace_id), "span_id": trace.format_span_id(here.span_id)}

    @contextmanager
    def step(self, name: str, scrub: Scrub) -> Iterator[None]:
        """Put a span around a step that runs."""
        here = None if trace.get_current_span().get_span_context().is_valid else self._within
        span = None
        try:
            span = self._tracer.start_span(f"step {name}", here, attributes={"standfast.step": name})
        except Exception:  # the step is not to suffer for it
            log.exception("step %r is not traced", name)
        if span is None:
            yield
            return
        with present(span):
            try:
                yield
            except BaseException as error:
                with suppress(Exception):
                    _tell(span, _failure(error, scrub), is_error=isinstance(error, Exception))
                raise

    def end(self, ending: Ending | None) -> None:
        """End the span: this is how the attempt ended, None where its claim is lost."""
        try:
            context.detach(self._before)
            self._span.set_attribute("standfast.outcome", "lost" if ending is None else str(ending.move))
            if ending is not None:
                if ending.failure is not None:
                    _tell(self._span, ending.failure, is_error=ending.move in _FAILED)
                if (event := _event_of(ending)) is not None:
                    self._span.add_event(*event)
            self._span.end()
        except Exception:
            log.exception("the span of an attempt could not be ended")


@contextmanager
def present(span: Span) -> Iterator[None]:
    """Make a span the present one meanwhile, then end it; what a processor of spans raises then harms nobody."""
    try:
        with trace.use_span(span, record_exception=False, set_status_on_exception=False):
            yield
    finally:
        try:
            span.end()
        except Exception:
            log.exception("a span could not be ended")


def _tell(span: Span, failure: Failure, *, is_error: bool) -> None:
    told: Attributes = {"exception.type": failure.type, "exception.message": failure.message}
    span.add_event("exception", told | {"exception.stacktrace": failure.traceback} if failure.traceback else told)
    if is_error:
        span.set_attribute("error.type", failure.type)
        span.set_status(StatusCode.ERROR, str(failure))


def _failure(error: BaseException, scrub: Scrub) -> Failure:
    """Return an exception in words, without secrets; raises where its own class cannot say it."""
    kind = type(error)
    name = kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
    told = scrub.text("".join(traceback.format_exception(error)))
    return Failure(scrub.text(name), scrub.text(str(error)), told)


# request ─► enqueue TASK ─┬─► wait TASK        from when the job was due to when it began
#                          ├─► run TASK         one for each attempt
#                          │     ├─► step NAME  one for each step that ran
#                          │     └─► enqueue OTHER ─► …
#                          └─► wait TASK, run TASK: the next attempt
#
# What is exported, where and how much of it is the business of the provider. A fault of it, of a sampler or of a
# propagator, is logged and harms no job.

_NOTHING = Context()


class OTelTracing:
    """Makes the spans of one app."""

    def __init__(self, provider: TracerProvider | None, propagator: TextMapPropagator | None) -> None:
        self._provider = provider
        self._tracer = trace.get_tracer("standfast", standfast_version(), provider)
        self._propagator = TraceContextTextMapPropagator() if propagator is None else propagator

    @contextmanager
    def enqueueing(self, jobs: Sequence[NewJob]) -> Iterator[Sequence[NewJob]]:
        """Put a span around an enqueue of jobs of one task; they go on with it as they are given here."""
        span, carrying_jobs = self._begin_enqueue(jobs)
        if span is None:
            yield jobs
            return
        with present(span):
            try:
                yield carrying_jobs
            except BaseException as error:
                with suppress(Exception):
                    # What others raise may hold anything; what we raise is fit to be told.
                    span.set_status(StatusCode.ERROR, str(error) if isinstance(error, StandfastError) else None)
                    span.set_attribute("error.type", type(error).__qualname__)
                raise

    def _begin_enqueue(self, jobs: Sequence[NewJob]) -> tuple[Span | None, Sequence[NewJob]]:
        try:
            span = self._tracer.start_span(
                f"enqueue {jobs[0].task}", kind=SpanKind.PRODUCER, attributes=_of_enqueue(jobs)
            )
            carried = self._carried(trace.set_span_in_context(span))
            return span, [replace(job, payload=add_trace_context(job.payload, carried)) for job in jobs]
        except Exception:  # whoever enqueues is not to suffer for it
            log.exception("an enqueue of %s is not traced", jobs[0].task)
            return None, jobs

    def begin(self, claim: Claim, waited: timedelta, worker: str) -> OTelAttempt | None:
        """Begin the span of an attempt in the present context, that of its job being what it goes on with."""
        try:
            parent = self._origin(claim)
            now = time.time_ns()
            span = self._tracer.start_span(
                f"run {claim.task}",
                parent,
                kind=SpanKind.CONSUMER,
                attributes=_of_run(claim, worker),
                start_time=now,
            )
            if span.is_recording():
                # The store's clock has measured how long; when, is told by ours, as in every span of this process.
                due = now - max(0, waited // timedelta.resolution) * 1_000
                wait = self._tracer.start_span(
                    f"wait {claim.task}", parent, attributes=_of_wait(claim), start_time=due
                )
                wait.end(now)
            within = trace.set_span_in_context(span, parent)
            return OTelAttempt(self._tracer, span, within, partial(self._carried, within))
        except Exception:
            log.exception("an attempt of job %s is not traced", claim.job_id)
            return None

    def go_on(self, carried: Mapping[str, str]) -> OTelAttempt | None:
        """Go on, in the present context, with the span of an attempt that another process has begun."""
        try:
            within = self._propagator.extract(carried, context=_NOTHING)
            return OTelAttempt(self._tracer, trace.get_current_span(within), within, lambda: carried)
        except Exception:
            log.exception("an attempt is not traced in this process")
            return None

    def trace_id(self, claim: Claim) -> str | None:
        """Return the id of the trace that a job belongs to."""
        carried = trace_id_in(claim.payload)  # the short way
        if carried is not None:
            return carried
        try:
            of_job = trace.get_current_span(self._origin(claim)).get_span_context()
        except Exception:
            log.exception("the trace of job %s is not known", claim.job_id)
            return None
        return trace.format_trace_id(of_job.trace_id)

    def flush(self, seconds: float) -> None:
        """Have the provider export what it has not exported yet, if it can be told to."""
        force_flush: Any = getattr(self._provider or trace.get_tracer_provider(), "force_flush", None)
        try:
            if force_flush is not None:
                force_flush(int(seconds * 1_000))
        except Exception:
            log.exception("the last spans could not be exported")

    def _carried(self, within: Context) -> dict[str, str]:
        carried: dict[str, str] = {}
        self._propagator.inject(carried, context=within)
        return carried

    def _origin(self, claim: Claim) -> Context:
        """Return what the attempts of a job go on with: the trace that it carries, or else one of its own."""
        origin = self._propagator.extract(read_trace_context(claim.payload), context=_NOTHING)
        if trace.get_current_span(origin).get_span_context().is_valid:
            return origin
        return trace.set_span_in_context(trace.NonRecordingSpan(self._own(claim)), origin)

    def _own(self, claim: Claim) -> trace.SpanContext:
        """Return the trace of a job that nobody traced when it was enqueued, as by a schedule: made of its id.

        So all its attempts are in one, whichever worker runs them. The sampler is asked whether it is wanted, where
        the provider has one, as it would be for any other that begins here.
        """
        made = blake2b(claim.job_id.encode(), digest_size=24).digest()
        trace_id, span_id = int.from_bytes(made[:16], "big"), int.from_bytes(made[16:], "big")
        sampler: Any = getattr(self._provider or trace.get_tracer_provider(), "sampler", None)
        wanted = True
        if sampler is not None:
            asked = sampler.should_sample(_NOTHING, trace_id, f"run {claim.task}", kind=SpanKind.CONSUMER)
            wanted = asked.decision.is_sampled()
        flags = trace.TraceFlags(trace.TraceFlags.SAMPLED if wanted else trace.TraceFlags.DEFAULT)
        return trace.SpanContext(trace_id, span_id, is_remote=True, trace_flags=flags)
