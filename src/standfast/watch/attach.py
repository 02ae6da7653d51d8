"""Attaches the log to a process: its events and its logging records, on standard error."""

import logging
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from standfast.clock import SystemClock
from standfast.events import Events
from standfast.watch.colours import shows_colours
from standfast.watch.console import HumanLines
from standfast.watch.foreign_logs import RecordHandler, attach_records
from standfast.watch.jsonlines import JsonLines
from standfast.watch.levels import Level
from standfast.watch.lines import LineWriter
from standfast.watch.narrator import Narrator
from standfast.watch.options import LogOptions


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
    """Tell events and log records as `options` say; `worker` is who this process is."""
    clock = SystemClock()
    stream = sys.stderr or Path(os.devnull).open("w")  # noqa: SIM115 - a daemon may have none; open as long as it lives
    level = Level[options.level.upper()]
    in_json = options.format == "json"
    whose = {"pid": os.getpid()} if worker is None else {"worker": worker, "pid": os.getpid()}
    traces = level == Level.DEBUG
    lines = JsonLines(clock, whose) if in_json else HumanLines(clock, colours=shows_colours(stream), traces=traces)
    writer = LineWriter(stream, lines.of_dropped)
    narrator = Narrator(level, lines, writer.write, clock)
    writer.tick = narrator.tick
    if not options.quiet:
        events.subscribe(narrator, narrator.wants)
    records = RecordHandler(lines.of_record, writer.write)
    least = max(level, Level.WARNING) if options.quiet else level
    attach_records(logging.getLogger(), records, least, alone=in_json)
    if in_json:
        logging.captureWarnings(capture=True)
    return Logs(writer, narrator.finish)
