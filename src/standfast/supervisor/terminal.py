"""Tells the two meanings of SIGHUP apart: the terminal is gone, or somebody asks for a reload."""

import os
from contextlib import suppress

_TERMINAL = "/dev/tty"


class Terminal:
    """The terminal from which this process was started, if it was started from one.

    When a terminal is closed, the kernel takes it away from all of its processes before they hear of it.
    """

    def __init__(self) -> None:
        self._here = _is_here()

    def is_gone(self) -> bool:
        """Tell whether it is gone since this was last asked."""
        was_here, self._here = self._here, _is_here()
        return was_here and not self._here


def _is_here() -> bool:
    """Tell whether a terminal controls this process and can be used."""
    with suppress(OSError):
        terminal = os.open(_TERMINAL, os.O_RDWR | os.O_NOCTTY | os.O_NONBLOCK)
        try:
            os.tcgetpgrp(terminal)
        finally:
            os.close(terminal)
        return True
    return False
