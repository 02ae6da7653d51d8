"""One sender at a time for each channel of a process: so a receiver that hangs takes up one place, and not all.

free ─► sending ─(soon over)─► the next who waits
└──────(takes long)─► whoever waits, or comes, is sent away
"""

import threading
import time
from collections.abc import Callable

LONG = 2.0
"""Seconds after which nobody waits for who is sending."""


class Turnstile:
    """Lets senders pass, one at a time for each channel. Any thread may come."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._since: dict[str, float] = {}
        self._changed = threading.Condition()

    def enter(self, channel: str) -> bool:
        """Wait for who is sending, unless that takes long; tell whether it is one's turn, until `leave`."""
        with self._changed:
            while channel in self._since:
                left = self._since[channel] + LONG - self._monotonic()
                if left <= 0:
                    return False
                self._changed.wait(left)
            self._since[channel] = self._monotonic()
            return True

    def leave(self, channel: str) -> None:
        """Let the next one pass."""
        with self._changed:
            del self._since[channel]
            self._changed.notify_all()
