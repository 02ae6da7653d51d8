"""Web apps of hosts in tests: one with a lifespan of its own, and any ASGI app, bound by one line."""

from host_app import app, order
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from standfast.hosts.asgi import bind, lifespan


async def answer(_):
    return PlainTextResponse("here")


async def enqueue(request):
    return PlainTextResponse(
        await run_in_threadpool(order, request.path_params["task"], dict(request.query_params))
    )


ROUTES = [Route("/", answer), Route("/{task}", enqueue, methods=["POST"])]

web = Starlette(routes=ROUTES, lifespan=lifespan(app))
bound = bind(Starlette(routes=ROUTES), app)
