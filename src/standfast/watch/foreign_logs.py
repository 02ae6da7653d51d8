"""Records of the standard library's logging, ours and the app's, brought into the worker's own log."""

import logging
import sys
from collections.abc import Callable

from standfast.watch.levels import Level

OURS = "standfast"


class RecordHandler(logging.Handler):
    """Hands each record to `write` as one line."""

    def __init__(self, line_of: Callable[[logging.LogRecord], str], write: Callable[[str], object]) -> None:
        super().__init__()
        self._line_of = line_of
        self._write = write

    def emit(self, record: logging.LogRecord) -> None:
        """Write the record."""
        try:
            self._write(self._line_of(record))
        except Exception:  # noqa: BLE001 - as the standard handlers: told on stderr, and harms nobody
            self.handleError(record)


def attach_records(root: logging.Logger, handler: logging.Handler, level: Level, *, alone: bool) -> None:
    """Write what reaches the root logger from this level on.

    An app that has set up its own console keeps it, and ours stays away; with `alone` ours takes its place, so that
    the stream has one form. Where the app has set up nothing, the level is that of the whole process.
    """
    logging.getLogger(OURS).setLevel(level)
    consoles = [each for each in root.handlers if _on_console(each)]
    if consoles and not alone:
        return
    if not root.handlers:
        root.setLevel(level)
        logging.getLogger(f"{OURS}.job").setLevel(min(level, logging.INFO))  # kept with the job, if not written
    for each in consoles:
        root.removeHandler(each)
    handler.setLevel(level)
    root.addHandler(handler)


def _on_console(handler: logging.Handler) -> bool:
    return isinstance(handler, logging.StreamHandler) and handler.stream in (sys.stderr, sys.stdout)
