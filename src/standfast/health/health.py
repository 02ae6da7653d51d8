"""The face of it: an ASGI app and a WSGI app about the health of an app, to be mounted in your own."""

import asyncio
import math
import os
from collections.abc import Awaitable, Callable, Iterable, MutableMapping, Sequence
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from typing import Any

from standfast.errors import ConfigurationError
from standfast.health.answers import METRICS, Answer, Answers, Hosting, Request
from standfast.health.counted import CountedHere
from standfast.health.guard import RATE, Guard, check_token, read_networks
from standfast.health.looks import Looks, look_at
from standfast.health.report import Seen
from standfast.metrics.scrape import StoreLook, StoreSamples, page
from standfast.spelling import options_of
from standfast.store.asked import Asked

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

_POLICY_VIOLATION = 1008


@dataclass(frozen=True, slots=True)
class _Own:
    """What each process has of its own: locks and threads do not come along through a fork."""

    answers: Answers
    looks: Looks[Seen]
    samples: Looks[StoreSamples]
    counted: CountedHere


class Health:
    """Answers `/livez`, `/readyz`, `/healthz` and `/metrics` about an app: mount `health.asgi` or `health.wsgi`.

    Who asks needs the `token` (`Authorization: Bearer …`), unless its address is in one of the `networks`
    (`10.0.0.0/8`). One of the two must be given: behind a proxy on this machine, every peer is this machine.
    `rate` is how many requests a second each peer may make. With a `host`, this process is ready while the worker
    inside it works; without, while there is a live worker anywhere.
    """

    @options_of("Health")
    def __init__(
        self,
        app: Asked,
        *,
        token: str | None = None,
        networks: Sequence[str] = (),
        rate: float = RATE,
        host: Hosting | None = None,
    ) -> None:
        if not callable(getattr(app, "call", None)):
            raise ConfigurationError(f"Health is about a Standfast app, not about a {type(app).__name__}")
        if token is None and not networks:
            raise ConfigurationError(
                "Health needs a token or networks: behind a proxy on the same machine every peer is this machine,"
                " and it would be open to all; give token=… (`openssl rand -hex 32` makes one) or"
                " networks=['10.0.0.0/8']"
            )
        if not (math.isfinite(rate) and rate > 0):
            raise ConfigurationError(f"rate is requests a second, more than 0, not {rate!r}")
        make_guard = partial(Guard, None if token is None else check_token(token), read_networks(networks), rate)
        self._make: Callable[[], _Own] = lambda: _Own(
            Answers(make_guard(), host),
            Looks(partial(look_at, app), lambda problem: Seen(problem=problem)),
            Looks(StoreLook(app), lambda problem: StoreSamples(problem=problem)),
            CountedHere(app),
        )
        self._owns: dict[int, _Own] = {}
        self._asgi = _AsgiApp(self._own)

    def answer(self, request: Request, malformed: HTTPStatus | None = None) -> Answer:
        """Return the answer to a request; where it takes a look at the store, wait for that."""
        own = self._own()
        if (known := own.answers.at_once(request, malformed)) is not None:
            return known
        if request.path == METRICS:
            seen = own.samples.seen()  # first: it may take a while, and what was counted is not to be old
            return Answer.metrics(request, page(seen, own.counted.samples()))
        return own.answers.after(request, own.looks.seen())

    def look(self) -> Seen:
        """Look at the store, or return what was seen a moment ago."""
        return self._own().looks.seen()

    @property
    def asgi(self) -> "_AsgiApp":
        """This as an ASGI app."""
        return self._asgi

    def wsgi(self, environ: MutableMapping[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        """Serve as a WSGI app."""
        given = environ.get("HTTP_AUTHORIZATION")
        credentials = () if given is None else (given.encode("latin-1", "replace"),)
        path, peer = environ.get("PATH_INFO", ""), environ.get("REMOTE_ADDR")
        answer = self.answer(Request(environ["REQUEST_METHOD"], path, peer, credentials))
        start_response(f"{answer.status.value} {answer.status.phrase}", list(answer.headers))
        return [answer.body] if answer.body else []

    def _own(self) -> _Own:
        pid = os.getpid()
        own = self._owns.get(pid)
        if own is None:
            # No lock here, it might have been held during a fork: of two threads the first wins.
            own = self._owns.setdefault(pid, self._make())
            for other in [each for each in self._owns if each != pid]:
                self._owns.pop(other, None)
        return own


class _AsgiApp:
    """Serves by ASGI. It is no method: servers that look for `async def __call__` take those for apps of ASGI 2."""

    def __init__(self, own: Callable[[], _Own]) -> None:
        self._own = own

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request, or the life of a server."""
        if scope["type"] == "lifespan":
            await _live(receive, send)
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": _POLICY_VIOLATION})
        else:
            answer = await self._answered(_asgi_request(scope))
            headers = [(name.lower().encode(), value.encode()) for name, value in answer.headers]
            await send({"type": "http.response.start", "status": int(answer.status), "headers": headers})
            await send({"type": "http.response.body", "body": answer.body})

    async def _answered(self, request: Request) -> Answer:
        own = self._own()
        if (known := own.answers.at_once(request)) is not None:
            return known
        if request.path == METRICS:
            seen = await own.samples.aseen()
            return Answer.metrics(request, page(seen, await asyncio.to_thread(own.counted.samples)))
        return own.answers.after(request, await own.looks.aseen())


def _asgi_request(scope: Scope) -> Request:
    """Return what is asked; of a mounted app, the path is what comes after where it is mounted."""
    credentials = tuple(value for name, value in scope["headers"] if name.lower() == b"authorization")
    client = scope.get("client")
    root = scope.get("root_path", "").rstrip("/")
    path = scope["path"]
    below = path.removeprefix(root) if path.startswith(f"{root}/") else path
    return Request(scope["method"], below, client[0] if client else None, credentials)


async def _live(receive: Receive, send: Send) -> None:
    """Go along with the life of a server that has this as its only app: there is nothing to begin or to end."""
    while True:
        phase = (await receive())["type"]
        await send({"type": f"{phase}.complete"})
        if phase == "lifespan.shutdown":
            return
