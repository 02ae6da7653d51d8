"""Spans of OpenTelemetry, made of what happens to jobs.

request ─► enqueue TASK ─┬─► wait TASK        from when the job was due to when it began
                         ├─► run TASK         one for each attempt
                         │     ├─► step NAME  one for each step that ran
                         │     └─► enqueue OTHER ─► …
                         └─► wait TASK, run TASK: the next attempt

What is exported, where and how much of it is the business of the provider. A fault of it, of a sampler or of a
propagator, is logged and harms no job.
"""

import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import timedelta
from functools import partial
from hashlib import blake2b
from typing import Any

from msgspec.structs import replace
from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.propagators.textmap import TextMapPropagator
from opentelemetry.trace import Span, SpanKind, StatusCode, TracerProvider
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from standfast.codec import carried_in, carrying, trace_id_in
from standfast.core.job import Claim, NewJob
from standfast.errors import StandfastError
from standfast.tracing.attempt import OTelAttempt, present
from standfast.tracing.attributes import of_enqueue, of_run, of_wait
from standfast.words import standfast_version

log = logging.getLogger(__name__)

_MICROSECOND = timedelta(microseconds=1)
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
                f"enqueue {jobs[0].task}", kind=SpanKind.PRODUCER, attributes=of_enqueue(jobs)
            )
            carried = self._carried(trace.set_span_in_context(span))
            return span, [replace(job, payload=carrying(job.payload, carried)) for job in jobs]
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
                attributes=of_run(claim, worker),
                start_time=now,
            )
            if span.is_recording():
                # The store's clock has measured how long; when, is told by ours, as in every span of this process.
                due = now - max(0, waited // _MICROSECOND) * 1_000
                wait = self._tracer.start_span(
                    f"wait {claim.task}", parent, attributes=of_wait(claim), start_time=due
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
        origin = self._propagator.extract(carried_in(claim.payload), context=_NOTHING)
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
