"""OpenTelemetry, imported when an app asks for tracing and not before."""

from importlib.util import find_spec
from typing import TYPE_CHECKING

from standfast.errors import ConfigurationError
from standfast.model.display import install
from standfast.model.tracing import Tracing

if TYPE_CHECKING:
    from opentelemetry.propagators.textmap import TextMapPropagator
    from opentelemetry.trace import TracerProvider


def open_tracing(provider: "TracerProvider | None", propagator: "TextMapPropagator | None") -> Tracing:
    """Return what makes spans. Raises ConfigurationError where OpenTelemetry is missing, or these are not its."""
    if find_spec("opentelemetry") is None or find_spec("opentelemetry.trace") is None:
        raise ConfigurationError(
            f"app.use_tracing needs opentelemetry-api, which is not installed: run {install('otel')}"
        )
    _check("provider", provider, "get_tracer", "the one that is set for the process")
    _check("propagator", propagator, "extract", "W3C's trace context")
    from standfast.observe.otel import OTelTracing  # noqa: PLC0415 - without it nothing of OpenTelemetry is loaded

    return OTelTracing(provider, propagator)


def _check(name: str, given: object, method: str, otherwise: str) -> None:
    if given is not None and (isinstance(given, type) or not callable(getattr(given, method, None))):
        raise ConfigurationError(
            f"the {name} of app.use_tracing must be one of OpenTelemetry, which has {method}(), not {given!r:.80};"
            f" leave it out for {otherwise}"
        )
