"""The dashboard on a port of its own."""

import socket
from collections.abc import Callable

import uvicorn

from holdfast.dashboard.serving.beside import end_with_starter
from holdfast.dashboard.serving.bridge import Asgi
from holdfast.dashboard.serving.hurry import HurriedProtocol
from holdfast.errors import ConfigurationError
from holdfast.health.server import addresses_of

PORT = 8080
"""Where it is, unless something else is."""

LEAVE = 2
"""Seconds for open requests when it ends; live updates never end by themselves."""

_BACKLOG = 128
_MOST_CONNECTIONS = 512
_LONGEST_HEAD = 32 * 1024


def open_port(host: str, port: int | None) -> socket.socket:
    """Return a socket that listens there: without a port, on 8080, or any that is free.

    Raises ConfigurationError.
    """
    (family, address), *_ = addresses_of(host, port or PORT)
    wanted = (PORT, 0) if port is None else (port,)
    for number in wanted:
        listening = socket.socket(family, socket.SOCK_STREAM)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listening.bind((address, number))
            listening.listen(_BACKLOG)
        except OSError as error:
            listening.close()
            if number == wanted[-1]:
                raise ConfigurationError(
                    f"cannot listen on {host} port {number}: {error.strerror}; name another --port"
                ) from error
        else:
            return listening
    raise AssertionError(wanted)


def url_of(listening: socket.socket) -> str:
    """Return where a browser on this machine finds what listens there."""
    address, port, *_ = listening.getsockname()
    if address in {"0.0.0.0", "::"}:  # noqa: S104 - it is compared
        address = "127.0.0.1"
    return f"http://[{address}]:{port}" if ":" in address else f"http://{address}:{port}"


def serve(app: Asgi, listening: socket.socket, began: Callable[[], None]) -> None:
    """Serve until a signal says to stop, or whoever started us is gone."""
    config = uvicorn.Config(
        app,
        http=HurriedProtocol,
        log_level="warning",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        limit_concurrency=_MOST_CONNECTIONS,
        h11_max_incomplete_event_size=_LONGEST_HEAD,
        timeout_graceful_shutdown=LEAVE,
    )
    server = _Server(config, began)

    def leave() -> None:
        server.should_exit = True

    end_with_starter(leave)
    server.run(sockets=[listening])


class _Server(uvicorn.Server):
    """Says when it can be reached."""

    def __init__(self, config: uvicorn.Config, began: Callable[[], None]) -> None:
        super().__init__(config)
        self._began = began

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to serve."""
        await super().startup(sockets)
        self._began()
