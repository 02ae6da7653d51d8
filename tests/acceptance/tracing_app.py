"""The app of the tests about tracing: a web app that enqueues, handlers of each kind, and spans that go to a file.

Every process, those of the web server, of workers and of cells, has a provider of its own, made here at the import.
"""

import json
import logging
import os
from pathlib import Path
from typing import Annotated

import structlog
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
from starlette.applications import Starlette
from starlette.responses import JSONResponse
from starlette.routing import Route

from standfast import Context, Secret, Standfast
from standfast.observe.logs.job_log import add_job_fields

FOLDER = Path(__file__).resolve().parent
SPANS = FOLDER / "spans.jsonl"


class Dumped(InMemorySpanExporter):
    """Keeps spans in memory, and writes each down when it ends."""

    def export(self, spans):
        with SPANS.open("a") as file:
            for span in spans:
                file.write(json.dumps({**json.loads(span.to_json(indent=None)), "pid": os.getpid()}) + "\n")
        return super().export(spans)


class Appended:
    """Writes what structlog has rendered to a file, a line each."""

    def __init__(self, file):
        self._file = file

    def msg(self, line):
        with self._file.open("a") as file:
            file.write(f"{line}\n")

    info = warning = msg


provider = TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(Dumped()))
tracer = provider.get_tracer("shop")

app = Standfast(f"sqlite:///{FOLDER}/jobs.db", lease=10, beat=0.25, grace=5, store_timeout=5)
app.use_tracing(provider)

log = logging.getLogger("shop.orders")
said = structlog.wrap_logger(
    Appended(FOLDER / "structlog.jsonl"), processors=[add_job_fields, structlog.processors.JSONRenderer()]
)
bridged = structlog.wrap_logger(
    logging.getLogger("shop.bridged"),
    processors=[structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
    wrapper_class=structlog.stdlib.BoundLogger,
)


def price(order: int) -> int:
    """Return what it costs; with a span of the user's own."""
    with tracer.start_as_current_span("look up"):
        log.warning("a price is looked up")
        said.info("priced", order=order)
    return order * 2


async def aprice(order: int) -> int:
    return price(order)


def fail_once(ctx: Context) -> None:
    bridged.warning("begins", order_kind="large")
    if ctx.attempt == 1:
        raise ConnectionError("the bank is away")


@app.task
def mail(order: int) -> None:
    """Be enqueued by others."""
    said.info("mailed", order=order)


@app.task(max_attempts=3, backoff=0)
async def on_loop(ctx: Context, order: int) -> int:
    fail_once(ctx)
    total = await ctx.astep("price", aprice, order)
    await ctx.astep("tax", price, total)
    await mail.aenqueue(order)
    return total


@app.task(max_attempts=3, backoff=0)
def in_thread(ctx: Context, order: int) -> int:
    fail_once(ctx)
    total = ctx.step("price", price, order)
    ctx.step("tax", price, total)
    mail.enqueue(order)
    return total


@app.task(max_attempts=3, backoff=0, isolation="process")
def in_process(ctx: Context, order: int) -> int:
    fail_once(ctx)
    total = ctx.step("price", price, order)
    ctx.step("tax", price, total)
    mail.enqueue(order)
    return total


@app.task(isolation="process", max_attempts=1)
def dies() -> None:
    """Take the process down."""
    os._exit(3)


@app.task(max_attempts=1)
def leaks(ctx: Context, token: Annotated[str, Secret]) -> None:
    """Fail with the secret in the words, in a step and outside of it."""

    def inside() -> None:
        said.warning("refused", given=token, all=[token])
        raise ValueError(f"{token} is refused")

    ctx.step("use", inside)


@app.task
def waits(ctx: Context) -> str:
    ctx.wait_for("paid")
    return "paid"


async def order(request):
    """Enqueue within a span of the request, as the instrumentation of a web framework makes it."""
    parent = TraceContextTextMapPropagator().extract(dict(request.headers))
    name, number = request.path_params["task"], request.path_params["order"]
    with tracer.start_as_current_span("POST /{task}", parent, kind=trace.SpanKind.SERVER):
        handle = await app.tasks[name].aenqueue(order=number)
    return JSONResponse({"id": handle.id})


web = Starlette(routes=[Route("/{task}/{order:int}", order, methods=["POST"])])
