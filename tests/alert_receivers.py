"""Who is told: real receivers on loopback that keep what came, web servers and a mail server."""

import email
import email.policy
import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from email.message import EmailMessage
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, TypeVar

from aiosmtpd.controller import Controller
from aiosmtpd.smtp import AuthResult, LoginPassword

from standfast.observe.alerts import verify_signature

# -- over HTTP -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Reply:
    """How a request is answered, and what is done then."""

    status: int
    location: str | None = None
    after: Callable[[], None] = lambda: None


class _Handler(BaseHTTPRequestHandler):
    """One request; what becomes of it is the server's to say."""

    def do_GET(self) -> None:
        self.do_POST()

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        reply = self.server.take(self, body)  # type: ignore[attr-defined]
        with suppress(OSError):  # who was killed hears no answer
            self.send_response(reply.status)
            if reply.location:
                self.send_header("Location", reply.location)
            self.send_header("Content-Length", "0")
            self.end_headers()
            self.wfile.flush()
        reply.after()

    def log_message(self, *_: object) -> None:
        """Say nothing."""


class Listener(ThreadingHTTPServer):
    """An HTTP server of which `take` says how a request is answered."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)

    @property
    def url(self) -> str:
        """Where it is."""
        return f"http://127.0.0.1:{self.server_address[1]}"

    def take(self, request: BaseHTTPRequestHandler, body: bytes) -> Reply:
        """Keep a request; return what is answered."""
        raise NotImplementedError


L = TypeVar("L", bound=Listener)


@contextmanager
def listening(listener: L) -> Iterator[L]:
    """Let a server listen meanwhile."""
    with listener:
        thread = threading.Thread(target=listener.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield listener
        finally:
            listener.shutdown()
            thread.join()


class Hook(Listener):
    """Takes webhooks: answers with its statuses, one after the other, the last for ever, and checks signatures.

    `busy` is called with the number of each before it is answered.
    """

    secret = "a-secret-of-the-receiver"

    def __init__(self, *statuses, location=None, busy=lambda _: None):
        super().__init__()
        self.statuses = list(statuses or [204])
        self.location = location
        self.busy = busy
        self.got = []
        self.came = threading.Condition()

    def wait_for(self, count, within=60.0):
        """Return the first so many that came."""
        return _wait_for(self, count, within)

    def take(self, request, body):
        got = {"path": request.path}
        if request.command == "POST":
            signed = verify_signature(self.secret, request.headers["X-Standfast-Signature"] or "", body)
            got |= {"signed": signed, "said": json.loads(body), "headers": dict(request.headers)}
        with self.came:
            self.got.append(got)
            number = len(self.got)
            self.came.notify_all()
        self.busy(number)
        status = self.statuses.pop(0) if len(self.statuses) > 1 else self.statuses[0]
        return Reply(status, self.location)


@contextmanager
def hook(*statuses, **how) -> Iterator[Hook]:
    with listening(Hook(*statuses, **how)) as server:
        yield server


# -- by mail ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Letter:
    """A message as it came in."""

    at: float
    message: EmailMessage

    @property
    def subject(self) -> str:
        """What it is about."""
        return str(self.message["Subject"])

    @property
    def text(self) -> str:
        """What it says."""
        body = self.message.get_body(("plain", "html"))
        return str(body.get_content()) if body else ""


class Letters:
    """Takes mail."""

    def __init__(self) -> None:
        self.got: list[Letter] = []
        self.came = threading.Condition()

    async def handle_DATA(self, _server: Any, _session: Any, envelope: Any) -> str:  # noqa: N802 - aiosmtpd's name
        with self.came:
            message: Any = email.message_from_bytes(envelope.content, policy=email.policy.default)
            self.got.append(Letter(time.time(), message))
            self.came.notify_all()
        return "250 OK"

    def wait_for(self, count, within=60.0):
        """Return the first so many that came."""
        return _wait_for(self, count, within)


class MailServer(Controller):
    """A mail server on a port of its own choice."""

    def __init__(self):
        super().__init__(
            Letters(),
            hostname="127.0.0.1",
            port=0,
            authenticator=lambda *asked: AuthResult(success=asked[-1] == LoginPassword(b"ops", b"kept-to-itself")),
            auth_require_tls=False,
        )

    @property
    def letters(self) -> Letters:
        return self.handler

    @property
    def url(self):
        """How apprise is told to send by it."""
        return f"mailto://ops:kept-to-itself@127.0.0.1:{self._port}/?from=shop@shop.example&to=ops@shop.example&mode=insecure"

    def _trigger_server(self):
        self._port = self.server.sockets[0].getsockname()[1]
        self.port = self._port
        super()._trigger_server()


@contextmanager
def mail_server() -> Iterator[MailServer]:
    server = MailServer()
    server.start()
    try:
        yield server
    finally:
        server.stop()


def _wait_for(receiver, count, within):
    with receiver.came:
        assert receiver.came.wait_for(lambda: len(receiver.got) >= count, within), f"only {len(receiver.got)} came"
        return receiver.got[:count]


def join_pings() -> None:
    """Wait for the pings that are on their way."""
    for thread in threading.enumerate():
        if thread.name == "standfast-dead-man":
            thread.join(20)
