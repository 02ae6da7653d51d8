"""Letting go of a store that may not answer any more: that is waited for, but not for long."""

import os
import threading

from standfast.store.backend import Backend

CLOSED_WITHIN = 1.0
"""Seconds for a store to end what it is about."""


class Parting:
    """Closes the store of a process that is about to end."""

    def __init__(self) -> None:
        self._closing: threading.Thread | None = None

    def close(self, backend: Backend) -> None:
        """Let go of a store, and wait until that is done, but no longer than this."""
        self._closing = threading.Thread(target=backend.close, name="standfast-closing", daemon=True)
        self._closing.start()
        self._closing.join(CLOSED_WITHIN)

    def leave(self) -> None:
        """End the process here and now if a call of the store would keep it: Python waits for such threads."""
        if self._closing is not None and self._closing.is_alive():
            os._exit(0)
