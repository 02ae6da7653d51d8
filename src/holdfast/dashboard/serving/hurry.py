"""Connections that say in time what they want, or are closed: who opens many and says nothing takes every place."""

import asyncio
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

PATIENCE = 10.0
"""Seconds for the head of a request to be there whole."""


class HurriedProtocol(H11Protocol):
    """HTTP as uvicorn speaks it, with an end to its patience. Bodies have theirs where they are read."""

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self._end: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for the first request."""
        super().connection_made(transport)
        self._mind()

    def data_received(self, data: bytes) -> None:
        """Take what came; where it is not yet a request, go on waiting, but not for longer."""
        super().data_received(data)
        self._mind()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait for nothing any more."""
        super().connection_lost(exc)
        self._forget()

    def _mind(self) -> None:
        if self.cycle is not None and not self.cycle.response_complete:
            self._forget()
        elif self._end is None:
            self._end = self.loop.call_later(PATIENCE, self.transport.close)

    def _forget(self) -> None:
        if self._end is not None:
            self._end.cancel()
            self._end = None
