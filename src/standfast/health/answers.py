"""What is answered to whom: the guard first, then the path. No I/O: who serves brings the request and the look."""

from collections.abc import Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Protocol

import msgspec

from standfast.health.guard import Guard, Refusal
from standfast.health.report import Seen, judge
from standfast.metrics.exposition import CONTENT_TYPE

LIVE, READY, HEALTH, METRICS = "/livez", "/readyz", "/healthz", "/metrics"
_METHODS = ("GET", "HEAD")
_WORKING = "working"
_JSON = "application/json"
_ALWAYS = (
    ("Cache-Control", "no-store"),
    ("X-Content-Type-Options", "nosniff"),
)
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
    def of(
        cls, request: Request, status: HTTPStatus, value: Any, more: tuple[tuple[str, str], ...] = ()
    ) -> "Answer":
        """Return a value as JSON."""
        return cls._with(request, status, _JSON, msgspec.json.encode(value), more)

    @classmethod
    def metrics(cls, request: Request, page: str) -> "Answer":
        """Return a page for Prometheus."""
        return cls._with(request, HTTPStatus.OK, CONTENT_TYPE, page.encode())

    @classmethod
    def _with(
        cls,
        request: Request,
        status: HTTPStatus,
        content: str,
        body: bytes,
        more: tuple[tuple[str, str], ...] = (),
    ) -> "Answer":
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
        """Return the answer that needs no look at the store; None where it needs one.

        Who may not ask learns from it neither which paths there are nor whether the request was well formed.
        """
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

    def after(self, request: Request, seen: Seen) -> Answer:
        """Return the answer to one who may know what was seen."""
        report = judge(seen, warm=None if self._host is None else self._host.state == _WORKING)
        fields = report.fields()
        if request.path == READY:
            fields = {name: fields[name] for name in ("status", "checks")}
        return Answer.of(request, HTTPStatus.OK if report.ok else HTTPStatus.SERVICE_UNAVAILABLE, fields)
