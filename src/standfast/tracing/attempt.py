"""The span of one attempt, in the process that runs it or, for a cell, in that of its worker."""

import logging
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress

from opentelemetry import context, trace
from opentelemetry.context import Context
from opentelemetry.trace import Span, StatusCode, Tracer

from standfast.codec import Scrub
from standfast.core.job import Ending, Failure
from standfast.core.states import Move
from standfast.tracing.attributes import event_of, of_failure, outcome_of

log = logging.getLogger(__name__)

_FAILED = frozenset({Move.RETRY, Move.DIE})


class OTelAttempt:
    """What one attempt does, as spans. Made in the context of the attempt, whose span is the present one then."""

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
            self._span.set_attribute("standfast.outcome", outcome_of(ending))
            if ending is not None:
                if ending.failure is not None:
                    _tell(self._span, ending.failure, is_error=ending.move in _FAILED)
                if (event := event_of(ending)) is not None:
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
    span.add_event("exception", of_failure(failure))
    if is_error:
        span.set_attribute("error.type", failure.type)
        span.set_status(StatusCode.ERROR, str(failure))


def _failure(error: BaseException, scrub: Scrub) -> Failure:
    """Return an exception in words, without secrets; raises where its own class cannot say it."""
    kind = type(error)
    name = kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
    told = scrub.text("".join(traceback.format_exception(error)))
    return Failure(scrub.text(name), scrub.text(str(error)), told)
