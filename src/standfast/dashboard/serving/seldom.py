"""Warnings that whoever connects can cause, written once in a while: no stranger fills the disk."""

import logging
import time
from collections.abc import Callable

PAUSE = 60.0
"""Seconds for which the same warning is not written again."""


class Seldom(logging.Filter):
    """Lets each warning through once in a while, with how often it was left out; errors always."""

    def __init__(self, ticks: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._ticks = ticks
        self._told: dict[str, tuple[float, int]] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Tell whether to write it. Messages are told apart before their arguments are in them: there are few."""
        if record.levelno > logging.WARNING:
            return True
        told_at, left_out = self._told.get(record.msg, (float("-inf"), 0))
        now = self._ticks()
        if now - told_at < PAUSE:
            self._told[record.msg] = told_at, left_out + 1
            return False
        self._told[record.msg] = now, 0
        if left_out:
            record.msg = f"{record.msg} (and {left_out} times more since this was said last)"
        return True
