"""Tells each event and log record in one coloured line for people.

Supervisor and children share one stderr, so every line is one write and nothing on the screen is redrawn.
"""

import logging
from datetime import UTC, datetime
from logging import LogRecord
from typing import Final

from standfast import events
from standfast.clock import Clock
from standfast.codec import trace_of
from standfast.watch.colours import BOLD, PLAIN, painted
from standfast.watch.foreign_logs import OURS
from standfast.watch.levels import Level
from standfast.watch.telling import BAD, CALM, GOOD, LATER, subject_of, tell
from standfast.watch.traces import short_trace, short_trace_and_error
from standfast.words import counted, legible, one_line, short_id

_MARKS: Final = ((logging.ERROR, ("✘", BAD)), (logging.WARNING, ("⚠", LATER)), (logging.NOTSET, ("·", PLAIN)))

_RECORD_LENGTH = 2000


class HumanLines:
    """Makes one line of each event and log record, in colours where they are shown.

    With `traces` the last frames of what an attempt raised follow it.
    """

    def __init__(self, clock: Clock, *, colours: bool, traces: bool = False) -> None:
        self._clock = clock
        self._colours = colours
        self._traces = traces

    def of_event(self, event: events.Event, _level: Level) -> str:
        """Return the line about an event."""
        telling = tell(event)
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
