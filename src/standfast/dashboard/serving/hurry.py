"""Connections that say in time what they want, or are closed: who opens many and says nothing takes every place."""

import asyncio
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

from standfast.dashboard.serving.gate import Gate

PATIENCE = 10.0
"""Seconds for the head of a request to be there whole."""

MOST_AHEAD = 8
"""Requests in a row that may be there before the one before them is answered. Browsers send none so."""


class HurriedProtocol(H11Protocol):
    """HTTP as uvicorn speaks it, with an end to its patience. Bodies have theirs where they are read.

    The gate is told who is silent; it also closes those who do not take their answers.
    """

    def __init__(self, *given: Any, gate: Gate | None = None, **named: Any) -> None:
        super().__init__(*given, **named)
        self._gate = gate
        self._number = -1
        self._ahead = 0
        self._end: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for the first request."""
        super().connection_made(transport)
        self._number = transport.get_extra_info("socket").fileno()
        self._mind()

    def data_received(self, data: bytes) -> None:
        """Take what came; where it is not yet a request, go on waiting, but not for longer."""
        super().data_received(data)
        self._mind()

    def on_response_complete(self) -> None:
        """Go on with the next request; who sends many ahead is not waited for."""
        self._ahead = self._ahead + 1 if self.conn.trailing_data[0] else 0
        if self._ahead > MOST_AHEAD:
            self.transport.close()
        super().on_response_complete()
        self._mind()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait for nothing any more."""
        super().connection_lost(exc)
        self._forget()

    def _mind(self) -> None:
        is_busy = self.cycle is not None and not self.cycle.response_complete
        if self.transport.is_closing():
            return
        if self._gate is not None:
            self._gate.note(self._number, is_silent=not is_busy or self.cycle.more_body)
        if is_busy:
            self._forget()
        elif self._end is None:
            self._end = self.loop.call_later(PATIENCE, self.transport.close)

    def _forget(self) -> None:
        if self._end is not None:
            self._end.cancel()
            self._end = None
