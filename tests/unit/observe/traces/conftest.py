"""An app that is traced, on a store in memory, and the spans that it made."""

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from standfast import Standfast
from standfast.testing import StandfastKit


class Stage:
    """A traced app and its kit."""

    def __init__(self, sampler=None, propagator=None):
        self.exporter = InMemorySpanExporter()
        self.provider = TracerProvider(sampler=sampler, shutdown_on_exit=False)
        self.provider.add_span_processor(SimpleSpanProcessor(self.exporter))
        self.tracer = self.provider.get_tracer("test")
        self.app = Standfast("memory://")
        self.app.use_tracing(self.provider, propagator)
        self.kit = StandfastKit(self.app)

    @property
    def spans(self):
        """The spans that have ended, in that order."""
        return self.exporter.get_finished_spans()

    def named(self, name):
        return [span for span in self.spans if span.name == name]

    def only(self, name):
        (span,) = self.named(name)
        return span

    @property
    def traces(self):
        return {span.context.trace_id for span in self.spans}


@pytest.fixture
def stage_with():
    """Give a maker of stages."""
    opened = []

    def make(**options):
        opened.append(Stage(**options))
        opened[-1].kit.__enter__()
        return opened[-1]

    yield make
    for stage in opened:
        stage.kit.__exit__(None, None, None)
        stage.app.close()


@pytest.fixture
def stage(stage_with):
    return stage_with()
