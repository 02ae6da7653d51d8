"""Attaches the log to a process: its events and its logging records, on standard error.

A thread writes the lines: a reader that stops reading (Ctrl-S, a stuck log collector) must not stop a supervisor.
What does not fit is dropped and counted, and the count is said when lines flow again.
"""

import logging
import os
import queue
import sys
import threading
import time
from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from msgspec.structs import replace

from standfast import events
from standfast.events import Events
from standfast.model.clock import Clock, SystemClock
from standfast.observe.logs.console import HumanLines, RecordHandler, attach_records
from standfast.observe.logs.event_text import sentence, shows_colours
from standfast.observe.logs.json_lines import JsonLines
from standfast.observe.logs.levels import Level, LogOptions
from standfast.observe.logs.narrator import FirstCompletion, Narrator

log = logging.getLogger("standfast.events")

MOST_WAITING = 10_000
LOOK_EVERY = 0.005
TICK_EVERY = 1.0


class LineWriter:
    """Writes lines in order, later; never blocks its callers. About every second its thread calls `tick`."""

    def __init__(self, file: IO[str], dropped: Callable[[int], str], most_waiting: int = MOST_WAITING) -> None:
        self._file = file
        self._lines: queue.Queue[str] = queue.Queue(most_waiting)
        self._dropped = 0
        self._line_of_dropped = dropped
        self.tick: Callable[[], None] = lambda: None
        self._process = os.getpid()
        threading.Thread(target=self._run, name="standfast-console", daemon=True).start()

    def write(self, line: str) -> None:
        """Write a line soon; drop it if too many wait."""
        if os.getpid() != self._process:  # a process that a handler has forked has no thread of ours
            self._put_out(line)
            return
        try:
            self._lines.put_nowait(line)
        except queue.Full:
            self._dropped += 1

    def flush(self, seconds: float) -> None:
        """Wait until all lines are written, but no longer than this."""
        give_up_at = time.monotonic() + seconds
        while self._lines.unfinished_tasks and time.monotonic() < give_up_at:
            time.sleep(LOOK_EVERY)

    def _run(self) -> None:
        ticked_at = time.monotonic()
        while True:
            with suppress(queue.Empty):
                self._write_next()
            if time.monotonic() - ticked_at >= TICK_EVERY:
                ticked_at = time.monotonic()
                self.tick()

    def _write_next(self) -> None:
        line = self._lines.get(timeout=TICK_EVERY)
        if self._dropped:
            dropped, self._dropped = self._dropped, 0
            line = self._line_of_dropped(dropped) + line
        self._put_out(line)
        self._lines.task_done()

    def _put_out(self, line: str) -> None:
        with suppress(OSError, ValueError):  # a terminal that is gone hears nothing, and need not
            self._file.write(line)
            self._file.flush()


def log_events_as_records(told: events.Events, clock: Clock, but: Collection[type[events.Event]] = ()) -> Narrator:
    """Log events as records, as the level of the logger now lets them through. Let it `tick` now and again."""
    level = max((each for each in Level if each <= log.getEffectiveLevel()), default=Level.DEBUG)
    narrator = Narrator(level, _log_event, clock)
    told.subscribe(narrator, lambda kind: kind not in but and narrator.wants(kind))
    return narrator


def _log_event(event: events.Event, level: Level) -> None:
    hint = ""
    if isinstance(event, FirstCompletion) and event.hint:  # there is no command line here to say -v on
        event, hint = replace(event, hint=False), " (the next ones are counted; the level DEBUG shows each)"
    log.log(level, "%s%s", sentence(event), hint)


@dataclass(frozen=True, slots=True)
class Logs:
    """The log of this process; close it before the process ends."""

    _writer: LineWriter
    _finish: Callable[[], None]

    def close(self, seconds: float) -> None:
        """Say what was only counted so far, and wait until all is written, but no longer than this."""
        self._finish()
        self._writer.flush(seconds)


def attach_logs(events: Events, options: LogOptions, worker: str | None = None) -> Logs:
    """Write events and log records as `options` say; `worker` is the name of this process."""
    clock = SystemClock()
    stream = sys.stderr or Path(os.devnull).open("w")  # noqa: SIM115 - a daemon may have none; open as long as it lives
    level = Level[options.level.upper()]
    in_json = options.format == "json"
    whose = {"pid": os.getpid()} if worker is None else {"worker": worker, "pid": os.getpid()}
    traces = level == Level.DEBUG
    lines = JsonLines(clock, whose) if in_json else HumanLines(clock, colours=shows_colours(stream), traces=traces)
    writer = LineWriter(stream, lines.of_dropped)
    narrator = Narrator(level, lambda event, level: writer.write(lines.of_event(event, level)), clock)
    writer.tick = narrator.tick
    if not options.quiet:
        events.subscribe(narrator, narrator.wants)
    records = RecordHandler(lines.of_record, writer.write)
    least = max(level, Level.WARNING) if options.quiet else level
    attach_records(logging.getLogger(), records, least, alone=in_json)
    if in_json:
        logging.captureWarnings(capture=True)
    return Logs(writer, narrator.finish)
