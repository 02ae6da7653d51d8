"""Answers about health: the guard first, then the path; and an ASGI and a WSGI app to be mounted in your own."""

import asyncio
import logging
import math
import os
from collections.abc import Awaitable, Callable, Iterable, MutableMapping, Sequence
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from pathlib import Path
from typing import Any, Protocol

import msgspec

from standfast.errors import ConfigurationError
from standfast.model.configuration import Settings
from standfast.model.suggestions import options_of
from standfast.observe.health.access import RATE, Guard, Refusal, check_token, read_networks
from standfast.observe.health.status import CachedRead, StoreStatus, assess, read_store_status
from standfast.observe.metrics.families import CONTENT_TYPE, Sample
from standfast.observe.metrics.scrape import StoreLook, StoreSamples, page
from standfast.observe.metrics.shared import SharedFolder
from standfast.observe.metrics.totals import samples_of
from standfast.stores.backend import HasStore

LIVE, READY, HEALTH, METRICS = "/livez", "/readyz", "/healthz", "/metrics"
_METHODS = ("GET", "HEAD")
Headers = tuple[tuple[str, str], ...]
_WORKING = "working"
_ALWAYS = (("Cache-Control", "no-store"), ("X-Content-Type-Options", "nosniff"))
_NOT_FOUND = Refusal(HTTPStatus.NOT_FOUND, "there is nothing here")
_NOT_ALLOWED = Refusal(HTTPStatus.METHOD_NOT_ALLOWED, "only to be read", (("Allow", ", ".join(_METHODS)),))


@dataclass(frozen=True, slots=True)
class Request:
    """What is asked, by whom. `credentials` are the Authorization headers, `hosts` the Host headers.

    No other header is looked at. An app that this is mounted in goes by names of its own: then there are no hosts.
    """

    method: str
    path: str
    peer: str | None
    credentials: Sequence[bytes] = ()
    hosts: Sequence[bytes] = ()


@dataclass(frozen=True, slots=True)
class Answer:
    """What goes back. To HEAD it is the same as to GET, but for the body."""

    status: HTTPStatus
    headers: tuple[tuple[str, str], ...]
    body: bytes

    @classmethod
    def of(cls, request: Request, status: HTTPStatus, value: Any, more: Headers = ()) -> "Answer":
        """Return a value as JSON, or a page for Prometheus as it is."""
        is_page = isinstance(value, str)
        body = value.encode() if is_page else msgspec.json.encode(value)
        content = CONTENT_TYPE if is_page else "application/json"
        headers = (("Content-Type", content), *_ALWAYS, ("Content-Length", str(len(body))), *more)
        return cls(status, headers, b"" if request.method == "HEAD" else body)


class Hosting(Protocol):
    """A host: it has a worker inside this process."""

    @property
    def state(self) -> str:
        """How it is doing: `working` once its worker is warm, and until it is told to stop."""
        ...


class Answers:
    """Answers of one process, in which a host may have its worker."""

    def __init__(
        self, guard: Guard, host: Hosting | None = None, paths: Sequence[str] = (LIVE, READY, HEALTH, METRICS)
    ) -> None:
        self._guard = guard
        self._paths = paths
        self._host = host

    def at_once(self, request: Request, malformed: HTTPStatus | None = None) -> Answer | None:
        """Return the answer that needs no look at the store, or None. A stranger learns no paths."""
        refusal = self._guard.refuse(request.peer, request.credentials, request.hosts)
        if refusal is None and malformed is not None:
            refusal = Refusal(malformed, malformed.phrase.lower())
        elif refusal is None and request.path not in self._paths:
            refusal = _NOT_FOUND
        elif refusal is None and request.method not in _METHODS:
            refusal = _NOT_ALLOWED
        if refusal is not None:
            return Answer.of(request, refusal.status, {"error": refusal.says}, refusal.headers)
        return Answer.of(request, HTTPStatus.OK, {"status": "ok"}) if request.path == LIVE else None

    def after(self, request: Request, seen: StoreStatus) -> Answer:
        """Return the answer to one who may know what was seen."""
        report = assess(seen, warm=None if self._host is None else self._host.state == _WORKING)
        fields = report.fields()
        if request.path == READY:
            fields = {name: fields[name] for name in ("status", "checks")}
        return Answer.of(request, HTTPStatus.OK if report.ok else HTTPStatus.SERVICE_UNAVAILABLE, fields)


log = logging.getLogger(__name__)


class WorkerCounters:
    """What the workers of one web server have counted, in the folder that the settings of an app name, if any.

    It is read for each who asks and never kept for the next: another process may have told more in between, and what
    was read before that would go back.
    """

    def __init__(self, app: HasStore) -> None:
        settings = getattr(app, "settings", None)
        named = settings.metrics_dir if isinstance(settings, Settings) else None
        self._folder = None if named is None else SharedFolder(Path(named))
        self._problem: str | None = None

    def samples(self) -> Sequence[Sample]:
        """Return all that was counted up to now; nothing where not all can be read, as less would go back."""
        if self._folder is None:
            return ()
        try:
            samples, problem = tuple(samples_of(self._folder.sums())), None
        except OSError as error:
            samples, problem = (), str(error)
        if problem is not None and self._problem is None:
            log.warning("health: what workers have counted cannot be read: %s", problem)
        self._problem = problem
        return samples


Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

_POLICY_VIOLATION = 1008


@dataclass(frozen=True, slots=True)
class _Own:
    """What each process has of its own: locks and threads do not come along through a fork."""

    answers: Answers
    looks: CachedRead[StoreStatus]
    samples: CachedRead[StoreSamples]
    counted: WorkerCounters


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
        app: HasStore,
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
            CachedRead(partial(read_store_status, app), lambda problem: StoreStatus(problem=problem)),
            CachedRead(StoreLook(app), lambda problem: StoreSamples(problem=problem)),
            WorkerCounters(app),
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
            return Answer.of(request, HTTPStatus.OK, page(seen, own.counted.samples()))
        return own.answers.after(request, own.looks.seen())

    def look(self) -> StoreStatus:
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
            return Answer.of(request, HTTPStatus.OK, page(seen, await asyncio.to_thread(own.counted.samples)))
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
