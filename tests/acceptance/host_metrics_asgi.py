"""The ASGI app of hosts in tests, with health in it, which says which process answered."""

import os

from host_app import app
from host_asgi import ROUTES
from starlette.applications import Starlette
from starlette.routing import Mount

from standfast.hosts.asgi import lifespan
from standfast.observe.health.access import LOOPBACK
from standfast.observe.health.endpoints import Health

health = Health(app, networks=LOOPBACK, rate=1000)


async def told(scope, receive, send):
    """Answer as health does."""

    async def send_with_pid(message):
        if message["type"] == "http.response.start":
            message["headers"].append((b"x-pid", str(os.getpid()).encode()))
        await send(message)

    await health.asgi(scope, receive, send_with_pid)


web = Starlette(routes=[Mount("/ops", told), *ROUTES], lifespan=lifespan(app))
