"""Tracing for the app that is measured, as BENCH_TRACING says."""

from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, ALWAYS_ON

from standfast import Standfast

SPANS = 1_000_000
"""Spans that wait for their export at most: none is dropped, which would be cheaper than to export it."""


def trace(app: Standfast, mode: str) -> None:
    """Trace the app: its spans are `exported`, or `unsampled`, and dropped where they are made."""
    provider = TracerProvider(sampler=ALWAYS_ON if mode == "exported" else ALWAYS_OFF, shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(InMemorySpanExporter(), max_queue_size=SPANS))
    app.use_tracing(provider)
