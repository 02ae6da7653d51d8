"""ASGI: `FastAPI(lifespan=lifespan(app))`, or `web = bind(web, app)` around any app of ASGI.

A server says when it starts and stops to serve, in each process that serves, so nothing has to be found out here.
The worker starts after what the web app sets up, and stops before that is torn down: handlers may use it.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from typing import Any

from holdfast.app import Holdfast
from holdfast.errors import HoldfastError, StoreError
from holdfast.host.given import host_for, refuse_wsgi
from holdfast.host.host import Host
from holdfast.host.serving import Verdict, decide_for_server, scene_here

log = logging.getLogger(__name__)

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
AsgiApp = Callable[[MutableMapping[str, Any], Receive, Send], Awaitable[None]]
Lifespan = Callable[[Any], AbstractAsyncContextManager[Any]]


def lifespan(app: Holdfast | Host, inner: Lifespan | None = None, **options: Any) -> Lifespan:
    """Return a lifespan for Starlette or FastAPI with a worker for `app` in it, around your own, if you have one.

    `options` are those of `Host`; or give a host that you have made.
    """
    host = host_for("lifespan", app, options)

    @asynccontextmanager
    async def around(web: Any) -> AsyncIterator[Any]:
        async with AsyncExitStack() as stack:
            state = None if inner is None else await stack.enter_async_context(inner(web))
            await _start(host)
            stack.push_async_callback(host.astop)
            yield state

    return around


def bind(web: AsgiApp, app: Holdfast | Host, **options: Any) -> "Bound":
    """Return `web` with a worker for `app` in each process that serves it.

    `options` are those of `Host`; or give a host that you have made.
    """
    host = host_for("bind", app, options)
    refuse_wsgi(web)
    return Bound(web, host)


async def _start(host: Host) -> None:
    """Start, unless this is a test: those have the testing kit."""
    decision = decide_for_server(scene_here())
    if decision.verdict is Verdict.SERVES:
        if (adaptive := host.app.limits.adaptive) is not None:
            adaptive.watch_loop(asyncio.get_running_loop())
        await _prepare(host.app)
        await host.astart()
    else:
        log.debug("no job runs in this process: %s", decision.reason)


async def _prepare(app: Holdfast) -> None:
    """Make the store ready: the first request may enqueue with `tx=`, in which no tables can be made."""
    try:
        await asyncio.to_thread(app.prepare)
    except StoreError as error:
        log.warning("the store is not ready yet: %s", error)


class Bound:
    """An ASGI app with a host: it hears the server start and stop, and passes that on."""

    def __init__(self, web: AsgiApp, host: Host) -> None:
        self.web = web
        self.host = host

    def __getattr__(self, name: str) -> Any:
        return getattr(self.web, name)

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        """Serve one connection, or the server's lifespan."""
        if scope["type"] == "lifespan":
            await self._live(scope, receive, send)
        else:
            await self.web(scope, receive, send)

    async def _live(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        inner = Inner(self.web, scope)
        try:
            answer = await inner.ask(await receive())
            if answer["type"] == "lifespan.startup.complete":
                try:
                    await _start(self.host)
                except HoldfastError as error:
                    answer = {"type": "lifespan.startup.failed", "message": str(error)}
            await send(answer)
            if answer["type"] == "lifespan.startup.complete":
                message = await receive()
                await self.host.astop()
                await send(await inner.ask(message))
        finally:
            await inner.close()


class Inner:
    """The lifespan of the app inside; for one that has none the answers are those it would give."""

    def __init__(self, web: AsgiApp, scope: MutableMapping[str, Any]) -> None:
        self._told: asyncio.Queue[Message] = asyncio.Queue()
        self._said: asyncio.Queue[Message] = asyncio.Queue()
        self._life = asyncio.ensure_future(web(scope, self._told.get, self._said.put))

    async def ask(self, message: Message) -> Message:
        """Pass on what the server says; return what the app answers to it."""
        await self._told.put(message)
        answer = asyncio.ensure_future(self._said.get())
        waited: list[asyncio.Future[Any]] = [self._life, answer]
        await asyncio.wait(waited, return_when=asyncio.FIRST_COMPLETED)
        if answer.done():
            return answer.result()
        answer.cancel()
        return self._said.get_nowait() if self._said.qsize() else {"type": f"{message['type']}.complete"}

    async def close(self) -> None:
        """Let it end."""
        self._life.cancel()
        await asyncio.wait([self._life])
        if not self._life.cancelled():
            self._life.exception()  # an app without a lifespan raises what it likes
