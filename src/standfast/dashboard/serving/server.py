"""The dashboard on a port of its own."""

import asyncio
import logging
import socket
from collections.abc import Callable
from functools import partial
from typing import cast

import uvicorn

from standfast.dashboard.serving import gate as gates
from standfast.dashboard.serving.beside import end_with_starter
from standfast.dashboard.serving.bridge import Asgi
from standfast.dashboard.serving.gate import AT_ONCE, Gate
from standfast.dashboard.serving.hurry import HurriedProtocol
from standfast.dashboard.serving.seldom import Seldom
from standfast.errors import ConfigurationError
from standfast.health.server import addresses_of

PORT = 8080
"""Where it is, unless something else is."""

LEAVE = 2
"""Seconds for open requests when it ends; live updates never end by themselves."""

_BACKLOG = 128
_LONGEST_HEAD = 32 * 1024
_TICKS = 10
"""Of the server in a second, which is how often the gate is swept."""


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


def serve(app: Asgi, gate: Gate, began: Callable[[], None]) -> None:
    """Serve until a signal says to stop, or whoever started us is gone."""
    config = uvicorn.Config(
        app,
        loop="asyncio",  # others do not ask the gate
        http=cast("type[asyncio.Protocol]", partial(HurriedProtocol, gate=gate)),
        ws="none",  # nor would those who speak that be minded
        backlog=AT_ONCE,
        log_level="warning",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        h11_max_incomplete_event_size=_LONGEST_HEAD,
        timeout_graceful_shutdown=LEAVE,
    )
    for each in (logging.getLogger("uvicorn.error"), gates.log):
        each.addFilter(Seldom())
    server = _Server(config, gate, began)

    def leave() -> None:
        server.should_exit = True

    end_with_starter(leave)
    server.run(sockets=[gate])


class _Server(uvicorn.Server):
    """Says when it can be reached, and has the gate swept."""

    def __init__(self, config: uvicorn.Config, gate: Gate, began: Callable[[], None]) -> None:
        super().__init__(config)
        self._gate = gate
        self._began = began

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to serve."""
        await super().startup(sockets)
        self._began()

    async def on_tick(self, counter: int) -> bool:
        """Do what is to be done now and then; tell whether to stop."""
        if counter % _TICKS == 0:
            self._gate.sweep()
        return await super().on_tick(counter)
