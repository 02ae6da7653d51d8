"""The log of a beater, written by its host: whoever runs a web server has set up one log, and looks into that."""

import logging
import sys
from collections.abc import Callable
from contextlib import suppress

from standfast.host.messages import Said
from standfast.words import one_line

LONGEST = 8_000
"""Characters kept of a record."""

_format = logging.Formatter()


class Relay(logging.Handler):
    """Hands records on; what cannot be handed on, as the host is gone, goes to standard error."""

    def __init__(self, say: Callable[[Said], bool]) -> None:
        super().__init__()
        self._say = say

    def emit(self, record: logging.LogRecord) -> None:
        """Hand on one record, with the end of its traceback if it has one."""
        try:
            text = _format.format(record)[-LONGEST:]
            if not self._say(Said(record.name, record.levelno, text)):
                sys.stderr.write(f"{record.levelname} {record.name}: {text}\n")
        except Exception:  # noqa: BLE001 - as the standard handlers: told on stderr, and harms nobody
            self.handleError(record)


def write(said: Said) -> None:
    """Write what the beater said as a record of the host's own log."""
    with suppress(Exception):  # a handler of the host's that fails is its own business
        logging.getLogger(said.logger).log(said.level, "%s", said.text)


def in_short(error: BaseException) -> str:
    """Return what an error says, on one line."""
    return one_line(str(error) or type(error).__name__)
