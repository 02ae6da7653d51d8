"""ASGI: `FastAPI(lifespan=lifespan(app))`, or `web = bind(web, app)` around any app of ASGI.

A server says when it starts and stops to serve, in each process that serves, so nothing has to be found out here.
The worker starts after what the web app sets up, and stops before that is torn down: handlers may use it.

Where the server says nothing, as daphne does, the worker starts with the first request that can be seen here, or
some seconds after the import, and stops with the process.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from threading import Event
from typing import Any

from standfast.app import Standfast
from standfast.errors import StandfastError, StoreError
from standfast.hosts.binding import NO_LIFESPAN, expect_lifespan, host_for, refuse_wsgi
from standfast.hosts.detection import Verdict, decide_for_server, scene_here
from standfast.hosts.host import Host, HostState

log = logging.getLogger(__name__)

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
AsgiApp = Callable[[MutableMapping[str, Any], Receive, Send], Awaitable[None]]
Lifespan = Callable[[Any], AbstractAsyncContextManager[Any]]


def lifespan(app: Standfast | Host, inner: Lifespan | None = None, **options: Any) -> Lifespan:
    """Return a lifespan for Starlette or FastAPI with a worker for `app` in it, around your own, if you have one.

    `options` are those of `Host`; or give a host that you have made.
    """
    host = host_for("lifespan", app, options)
    came = Event()
    expect_lifespan(host, came.is_set, alone=inner is None)

    @asynccontextmanager
    async def around(web: Any) -> AsyncIterator[Any]:
        came.set()
        async with AsyncExitStack() as stack:
            state = None if inner is None else await stack.enter_async_context(inner(web))
            await _start(host)
            stack.push_async_callback(host.astop)
            yield state

    return around


def bind(web: AsgiApp, app: Standfast | Host, **options: Any) -> "Bound":
    """Return `web` with a worker for `app` in each process that serves it.

    `options` are those of `Host`; or give a host that you have made.
    """
    host = host_for("bind", app, options)
    refuse_wsgi(web)
    return Bound(web, host)


async def _start(host: Host, warning: str = "") -> None:
    """Start, unless this is a test: those have the testing kit."""
    decision = decide_for_server(scene_here())
    if decision.verdict is Verdict.SERVES:
        if warning:
            log.warning(warning)
        if (adaptive := host.app.limits.adaptive) is not None:
            adaptive.watch_loop(asyncio.get_running_loop())
        await _prepare(host.app)
        await host.astart()
        host.hear_loop(asyncio.get_running_loop())
    else:
        log.debug("no job runs in this process: %s", decision.reason)


async def _prepare(app: Standfast) -> None:
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
        self._begun = Event()
        self._starting: asyncio.Task[None] | None = None
        expect_lifespan(host, self._begun.is_set, alone=True)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.web, name)

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        """Serve one connection, or the server's lifespan."""
        if scope["type"] == "lifespan":
            self._begun.set()
            await live(self.web, self.host, scope, receive, send)
            return
        if not self._begun.is_set():
            self._begun.set()
            self._starting = asyncio.create_task(self._start_late())
        await self.web(scope, receive, send)

    async def _start_late(self) -> None:
        """Start with the first request, which does not wait for it."""
        if self.host.state is HostState.NEW:
            try:
                await _start(self.host, NO_LIFESPAN)
            except StandfastError as error:
                log.error("no job runs in this process: %s", error)  # noqa: TRY400 - it names the remedy


async def live(web: AsgiApp, host: Host, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
    """Answer the server's lifespan with that of the app inside, and with the worker in it."""
    inner = Inner(web, scope)
    try:
        answer = await inner.ask(await receive())
        if answer["type"] == "lifespan.startup.complete":
            try:
                await _start(host)
            except StandfastError as error:
                answer = {"type": "lifespan.startup.failed", "message": str(error)}
        await send(answer)
        if answer["type"] == "lifespan.startup.complete":
            message = await receive()
            await host.astop()
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
