"""The line between supervisor and child: a socket pair, one JSON message per line."""

import asyncio
import os
import socket
from contextlib import suppress
from typing import Any

import msgspec

from standfast.worker.messages import Message

_encoder = msgspec.json.Encoder()
_decoder: msgspec.json.Decoder[Message] = msgspec.json.Decoder(Message)

LINE_LIMIT = 16 * 1024 * 1024

LONGEST_TEXT = 64 * 1024
"""Characters that are left of each text in a message that is too long for a line."""


class SocketChannel:
    """One end of the line, inside a running event loop."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    @classmethod
    async def over(cls, end: socket.socket) -> "SocketChannel":
        """Return a channel over this end of a socket pair, which it then owns."""
        return cls(*await asyncio.open_connection(sock=end, limit=LINE_LIMIT))

    def send(self, message: Message) -> None:
        """Say something; does nothing when the other side is gone."""
        if not self._writer.is_closing():
            line = _encoder.encode(message)
            if len(line) >= LINE_LIMIT:
                line = _encoder.encode(_shortened(message))
            self._writer.write(line + b"\n")

    async def receive(self) -> Message | None:
        """Return the next word of the other side, or None once it is gone."""
        try:
            line = await self._reader.readline()
        except ConnectionError:
            return None
        return _decoder.decode(line) if line.endswith(b"\n") else None

    @property
    def ended(self) -> bool:
        """Whether the other side has hung up, and all that it said was received."""
        return self._reader.at_eof()

    def hear_out(self) -> None:
        """Receive what was said so far and then None, whoever still keeps the other end open."""
        hear_out(self._writer.transport)

    def close(self) -> None:
        """Hang up."""
        self._writer.close()


def hear_out(transport: asyncio.BaseTransport) -> None:
    """Let a transport hear what was said so far, and then the end, whoever still keeps the other side open.

    The socket that a transport shows can be shut in asyncio's own event loop, and not in uvloop.
    """
    shown = transport.get_extra_info("socket")
    if shown is not None and shown.fileno() >= 0:
        with socket.socket(fileno=os.dup(shown.fileno())) as same, suppress(OSError):  # it may have hung up
            same.shutdown(socket.SHUT_RD)


def _shortened(message: Message) -> Message:
    """Return a message with the beginnings of its long texts: a traceback may have anything in it."""
    short: dict[str, Any] = {}
    for name, value in msgspec.structs.asdict(message).items():
        if isinstance(value, str):
            short[name] = value[:LONGEST_TEXT]
        elif isinstance(value, dict):
            short[name] = {key: str(each)[:LONGEST_TEXT] for key, each in value.items()}
    return msgspec.structs.replace(message, **short)
