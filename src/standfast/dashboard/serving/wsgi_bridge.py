"""An ASGI app for servers that speak WSGI: each request waits in its thread for an event loop in another.

A thread takes its answer part by part, and nothing of it is made ahead of that. What never ends, as live updates do
not, would take a thread for ever, and cannot be had so.
"""

import asyncio
import logging
import os
import threading
from collections.abc import Awaitable, Callable, Iterable, Iterator, MutableMapping
from http import HTTPStatus
from typing import Any

from standfast.dashboard.access.caller import HEADERS
from standfast.dashboard.transport import LONGEST_BODY

Message = MutableMapping[str, Any]
Asgi = Callable[[Message, Callable[[], Awaitable[Message]], Callable[[Message], Awaitable[None]]], Awaitable[None]]
Environ = MutableMapping[str, Any]

STREAMS = "standfast.streams"
"""Says in the scope, where it is False, that an answer has to end."""

log = logging.getLogger(__name__)

_LONGEST_NUMBER = 16
_AHEAD = 3  # the head, the body and the end of an answer that is all there
_OF_THE_SERVER = frozenset({"connection"})  # WSGI leaves that to the server


class WsgiBridge:
    """Serves an ASGI app as a WSGI app. `given` are keys of the environment that the app finds in its scope."""

    def __init__(self, app: Asgi, given: Iterable[str] = ()) -> None:
        self._app = app
        self._given = tuple(given)
        self._running: asyncio.AbstractEventLoop | None = None
        self._starting = threading.Lock()
        os.register_at_fork(after_in_child=self._forget)

    def __call__(self, environ: Environ, start_response: Callable[..., Any]) -> Iterable[bytes]:
        """Answer one request."""
        length = _length(environ)
        if not 0 <= length <= LONGEST_BODY:
            status = HTTPStatus.BAD_REQUEST if length < 0 else HTTPStatus.REQUEST_ENTITY_TOO_LARGE
            start_response(_status_line(status), [("Content-Type", "text/plain"), *HEADERS.items()])
            says = b"the length of the request is no number, or too large\n"
            return [] if environ["REQUEST_METHOD"] == "HEAD" else [says]
        body: bytes = environ["wsgi.input"].read(length) if length else b""
        answer = _Crossing(self._app, self._scope(environ), body, self._loop())
        status_code, headers = answer.begun()
        start_response(_status_line(status_code), headers)
        return answer

    def _scope(self, environ: Environ) -> Message:
        root, path = environ.get("SCRIPT_NAME", ""), environ.get("PATH_INFO", "")
        peer = environ.get("REMOTE_ADDR")
        full = f"{root}{path}".encode("latin-1")
        return {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.4"},
            "http_version": "1.1",
            "method": environ["REQUEST_METHOD"],
            "scheme": environ.get("wsgi.url_scheme", "http"),
            "path": full.decode("utf-8", "replace"),
            "raw_path": full,
            "root_path": root.encode("latin-1").decode("utf-8", "replace"),
            "query_string": environ.get("QUERY_STRING", "").encode("latin-1"),
            "headers": list(_headers(environ)),
            "client": None if peer is None else (peer, 0),
            "server": (environ.get("SERVER_NAME", ""), int(environ.get("SERVER_PORT") or 80)),
            STREAMS: False,
            **{name: environ[name] for name in self._given if name in environ},
        }

    def _loop(self) -> asyncio.AbstractEventLoop:
        """Return the event loop of this process, which runs in a thread of its own."""
        with self._starting:
            if self._running is None:
                self._running = asyncio.new_event_loop()
                threading.Thread(target=self._running.run_forever, name="standfast-dashboard", daemon=True).start()
            return self._running

    def _forget(self) -> None:
        """Be as new in a forked process: the thread belongs to the parent."""
        self._starting = threading.Lock()
        self._running = None


def _length(environ: Environ) -> int:
    """Return how long the body of a request is; -1 where that is said in no sensible way."""
    told = str(environ.get("CONTENT_LENGTH") or "0").strip()
    return int(told) if told.isascii() and told.isdecimal() and len(told) < _LONGEST_NUMBER else -1


def _status_line(code: int) -> str:
    """Return a status as WSGI has it: always with words, also where nobody has agreed on any."""
    try:
        return f"{int(code)} {HTTPStatus(code).phrase}"
    except ValueError:
        return f"{code} Unnamed"


def _headers(environ: Environ) -> Iterable[tuple[bytes, bytes]]:
    for name, value in environ.items():
        if name.startswith("HTTP_"):
            yield name[5:].replace("_", "-").lower().encode("latin-1"), str(value).encode("latin-1")
        elif name in {"CONTENT_TYPE", "CONTENT_LENGTH"} and value:
            yield name.replace("_", "-").lower().encode("latin-1"), str(value).encode("latin-1")


class _Crossing:
    """One answer on its way from the loop to the thread that waits for it. Who closes it early, ends its making."""

    def __init__(self, app: Asgi, scope: Message, body: bytes, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._is_head = scope["method"] == "HEAD"
        self._said: asyncio.Queue[Message | None] = asyncio.Queue(_AHEAD)
        self._is_whole = self._has_failed = False
        self._making = asyncio.run_coroutine_threadsafe(self._make(app, scope, body), loop)

    def begun(self) -> tuple[int, list[tuple[str, str]]]:
        """Wait for the answer to begin; return its status and headers."""
        first = self._next()
        if first is None:
            self._has_failed = True
            return HTTPStatus.INTERNAL_SERVER_ERROR, [("Content-Type", "text/plain")]
        told = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in first["headers"]]
        return first["status"], [(name, value) for name, value in told if name.lower() not in _OF_THE_SERVER]

    def __iter__(self) -> Iterator[bytes]:
        """Yield the parts of the answer; of one to HEAD nothing, as some servers would send what there is."""
        return (part for part in self._parts() if not self._is_head)

    def _parts(self) -> Iterator[bytes]:
        if self._has_failed:
            yield b"Internal Server Error\n"
            return
        while not self._is_whole:
            part = self._next()
            if part is None:
                raise ConnectionAbortedError("the answer broke off: what was sent of it is not all")
            self._is_whole = not part.get("more_body", False)
            yield part.get("body", b"")

    def close(self) -> None:
        """Want no more of it."""
        self._making.cancel()

    def _next(self) -> Message | None:
        return asyncio.run_coroutine_threadsafe(self._said.get(), self._loop).result()

    async def _make(self, app: Asgi, scope: Message, body: bytes) -> None:
        asked: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

        async def receive() -> Message:
            return asked.pop() if asked else {"type": "http.disconnect"}

        try:
            await app(scope, receive, self._said.put)
        except Exception:
            log.exception("a request was not answered: %s %s", scope["method"], scope["path"])
        await self._said.put(None)
