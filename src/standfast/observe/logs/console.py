"""The log for people: each event and log record is one coloured line, with the frames nearest to an error.

Supervisor and children share one stderr, so every line is one write and nothing on the screen is redrawn.
"""

import logging
import re
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from itertools import takewhile
from logging import LogRecord
from typing import Final

from standfast import events
from standfast.model.clock import Clock
from standfast.model.display import counted, legible, one_line, short_id
from standfast.model.secrets import trace_of
from standfast.observe.logs.event_text import (
    BAD,
    BOLD,
    CALM,
    GOOD,
    LATER,
    PLAIN,
    describe_event,
    painted,
    subject_of,
)
from standfast.observe.logs.levels import Level

_FRAME = re.compile(r'^(?=  File ")', re.MULTILINE)
_OURS = re.compile(r'  File "[^"]*/standfast/(?:worker|hosts|durable|context|task)')

FRAMES = 3
OURS = "standfast"  # the name of our loggers' parent

_MARKS: Final = ((logging.ERROR, ("✘", BAD)), (logging.WARNING, ("⚠", LATER)), (logging.NOTSET, ("·", PLAIN)))
_RECORD_LENGTH = 2000


def short_trace(trace: str) -> str:
    """Return the last frames of a traceback, without the errors themselves; "" where there are none."""
    _, *frames = _FRAME.split(trace)
    theirs = [_lines(frame) for frame in frames if not _OURS.match(frame)]
    return "\n".join(line for lines in theirs[-FRAMES:] for line in lines)


def short_trace_and_error(trace: str) -> str:
    """Return the last frames of a traceback, and the error that it ends with."""
    error = list(takewhile(lambda line: not line.startswith(" "), reversed(trace.splitlines())))
    return "\n".join([short_trace(trace), *reversed(error)]).lstrip("\n")


def _lines(frame: str) -> list[str]:
    """Return a frame without what follows it: an error begins at the margin."""
    return list(takewhile(lambda line: line.startswith(" "), frame.splitlines()))


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


class HumanLines:
    """Makes one line of each event and log record; with `traces` the last frames of an error follow it."""

    def __init__(self, clock: Clock, *, colours: bool, traces: bool = False) -> None:
        self._clock = clock
        self._colours = colours
        self._traces = traces

    def of_event(self, event: events.Event, _level: Level) -> str:
        """Return the line about an event."""
        telling = describe_event(event)
        name, which = subject_of(event)
        parts = [
            self._head(self._clock.now(), telling.symbol, telling.style),
            self._paint(name, BOLD),
            self._paint(which, CALM),
            self._paint(telling.words, PLAIN if telling.style is GOOD else telling.style),
        ]
        return " ".join(part for part in parts if part) + "\n" + self._trace_of(event)

    def of_record(self, record: LogRecord) -> str:
        """Return the line about a record of the standard library's logging, and what it says was raised."""
        symbol, style = next(mark for level, mark in _MARKS if record.levelno >= level)
        head = self._head(datetime.fromtimestamp(record.created, UTC), symbol, style)
        words = one_line(record.getMessage(), _RECORD_LENGTH)
        trace = short_trace_and_error(trace_of(record))
        source = one_line(_source(record))
        parts = [head, self._paint(f"{source}:", BOLD) if source else "", self._paint(words, style)]
        return f"{' '.join(part for part in parts if part)}\n{self._indented(trace)}"

    def of_dropped(self, count: int) -> str:
        """Return the line about lines that nobody read."""
        return f"({counted(count, 'line was', 'lines were')} dropped: nobody read them)\n"

    def _head(self, at: datetime, symbol: str, style: str) -> str:
        time = f"{at.astimezone():%H:%M:%S.%f}"[:-3]
        return f"{self._paint(time, CALM)} {self._paint(symbol, style)}"

    def _trace_of(self, event: events.Event) -> str:
        if self._traces and isinstance(event, events.JobRetrying | events.JobDied):
            return self._indented(short_trace(event.failure.traceback or ""))
        return ""

    def _indented(self, text: str) -> str:
        return "".join(f"      {self._paint(legible(line), CALM)}\n" for line in text.splitlines())

    def _paint(self, text: str, style: str) -> str:
        return painted(text, style) if self._colours else text


def _source(record: LogRecord) -> str:
    """Return who says it: the job, if it belongs to one, and the logger, unless that is one of ours."""
    task, job_id = getattr(record, "task", None), getattr(record, "job_id", None)
    job = f"{task} {short_id(job_id)}" if isinstance(task, str) and isinstance(job_id, str) else ""
    logger = "" if f"{record.name}.".startswith(f"{OURS}.") else record.name
    return f"{job} {logger}".strip()
