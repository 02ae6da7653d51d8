"""Tells each event in one coloured line for people. A subscriber; it decides nothing.

Supervisor and children share one stderr, so every line is one write and nothing on the screen is redrawn.
"""

import logging
import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import singledispatch
from logging import LogRecord
from typing import Final

from rich.console import COLOR_SYSTEMS, Console
from rich.style import Style

from holdfast import events
from holdfast.clock import Clock
from holdfast.core.job import Progress
from holdfast.watch.folding import Folded
from holdfast.watch.levels import Level
from holdfast.watch.summary import FirstCompletion, Summary
from holdfast.watch.traces import short_trace
from holdfast.watch.words import counted, legible, near, one_line, short_id, span

_GOOD: Final = Style.parse("green")
_BUSY: Final = Style.parse("cyan")
_LATER: Final = Style.parse("yellow")
_BAD: Final = Style.parse("bold red")
_CALM: Final = Style.parse("dim")
_NAME: Final = Style.parse("bold")
_PLAIN: Final = Style.null()

_MARKS: Final = ((logging.ERROR, ("✘", _BAD)), (logging.WARNING, ("⚠", _LATER)), (logging.NOTSET, ("·", _PLAIN)))

JOB_LOGGER = "holdfast.job"
"""The logger of `Context.log`, which says nothing that the job does not."""

_ERROR_LENGTH = 200
_RECORD_LENGTH = 2000
_TASKS_IN_SUMMARY = 3
_BAR_LENGTH = 20
_LATE_ENOUGH_TO_SAY = timedelta(milliseconds=100)


@dataclass(frozen=True, slots=True)
class Telling:
    """What is said of an event: a symbol in its colour, and words."""

    symbol: str
    style: Style
    words: str


class HumanLines:
    """Makes one line of each event and log record, coloured as the console can show it.

    With `traces` the last frames of what an attempt raised follow it.
    """

    def __init__(self, console: Console, clock: Clock, *, traces: bool = False) -> None:
        self._clock = clock
        self._traces = traces
        system = None if console.no_color else console.color_system
        self._colours = None if system is None else COLOR_SYSTEMS[system]

    # The console's own print costs ten times as much and may write a line in pieces.

    def of_event(self, event: events.Event, _level: Level) -> str:
        """Return the line about an event."""
        telling = tell(event)
        name, which = subject_of(event)
        parts = [
            self._head(self._clock.now(), telling.symbol, telling.style),
            self._paint(name, _NAME),
            self._paint(which, _CALM),
            self._paint(telling.words, _PLAIN if telling.style is _GOOD else telling.style),
        ]
        return " ".join(part for part in parts if part) + "\n" + self._trace_of(event)

    def of_record(self, record: LogRecord) -> str:
        """Return the line about a record of the standard library's logging, and what it says was raised."""
        symbol, style = next(mark for level, mark in _MARKS if record.levelno >= level)
        head = self._head(datetime.fromtimestamp(record.created, UTC), symbol, style)
        words = one_line(record.getMessage(), _RECORD_LENGTH)
        trace = "" if record.exc_info is None or record.exc_info[1] is None else _raised(record.exc_info[1])
        line = f"{head} {self._paint(f'{one_line(_source(record))}:', _NAME)} {self._paint(words, style)}"
        return f"{line}\n{self._indented(trace)}"

    def of_dropped(self, count: int) -> str:
        """Return the line about lines that nobody read."""
        return f"({counted(count, 'line was', 'lines were')} dropped: nobody read them)\n"

    def _head(self, at: datetime, symbol: str, style: Style) -> str:
        time = f"{at.astimezone():%H:%M:%S.%f}"[:-3]
        return f"{self._paint(time, _CALM)} {self._paint(symbol, style)}"

    def _trace_of(self, event: events.Event) -> str:
        if self._traces and isinstance(event, events.JobRetrying | events.JobDied):
            return self._indented(short_trace(event.failure.traceback or ""))
        return ""

    def _indented(self, text: str) -> str:
        return "".join(f"      {self._paint(legible(line), _CALM)}\n" for line in text.splitlines())

    def _paint(self, text: str, style: Style) -> str:
        return style.render(text, color_system=self._colours)


def _source(record: LogRecord) -> str:
    """Return who says it: the logger, and the job if it belongs to one."""
    task, job_id = getattr(record, "task", None), getattr(record, "job_id", None)
    if not (isinstance(task, str) and isinstance(job_id, str)):
        return record.name
    job = f"{task} {short_id(job_id)}"
    return job if record.name == JOB_LOGGER else f"{job} {record.name}"


def _raised(error: BaseException) -> str:
    frames = short_trace("".join(traceback.format_exception(error)))
    return f"{frames}\n{''.join(traceback.format_exception_only(error))}".lstrip("\n")


def subject_of(event: events.Event) -> tuple[str, str]:
    """Return whom an event is about: a name, and what tells it apart from others of that name."""
    match event:
        case FirstCompletion(event=completed):
            return subject_of(completed)
        case Folded(last=last):
            return f"{one_line(last.task)}:", ""
        case events.JobEvent():
            return one_line(event.task), short_id(event.job_id)
        case events.WorkerEvent():
            return "worker", f"{event.worker} pid {event.pid}" if event.pid else event.worker
        case _:
            return "", ""


def sentence(event: events.Event) -> str:
    """Return what is said of an event as plain words, its subject included."""
    return " ".join(part for part in (*subject_of(event), tell(event).words) if part)


@singledispatch
def tell(event: events.Event) -> Telling:
    """Return what to say of an event; of one without words of its own, its name."""
    return Telling("·", _CALM, type(event).__name__)


@tell.register
def _(event: events.JobStarted) -> Telling:
    attempt = f" (attempt {event.attempt} of {event.max_attempts})" if event.attempt > 1 else ""
    late = f", {span(event.late)} late" if event.late >= _LATE_ENOUGH_TO_SAY else ""
    return Telling("▶", _BUSY, f"started{attempt}{late}")


@tell.register
def _(event: events.JobLate) -> Telling:
    by = f"{event.start_by.astimezone():%H:%M:%S}"
    fate = "it expires" if event.expires else "it runs all the same"
    return Telling("⌛", _LATER, f"{span(event.late)} late, and should have started by {by}: {fate}")


@tell.register
def _(event: events.JobProgressed) -> Telling:
    return Telling("…", _BUSY, _bar(event.progress))


def _bar(progress: Progress) -> str:
    if not progress.total or progress.total < 0:
        return f"{progress.done:,g} done"
    share = min(max(progress.done / progress.total, 0.0), 1.0)
    filled = int(share * _BAR_LENGTH)
    bar = "█" * filled + "░" * (_BAR_LENGTH - filled)
    return f"{bar} {share:.0%} ({progress.done:,g} of {progress.total:,g})"


@tell.register
def _(event: events.JobCompleted) -> Telling:
    return Telling("✔", _GOOD, f"completed in {span(event.took)}")


@tell.register
def _(event: events.JobRetrying) -> Telling:
    error = one_line(str(event.failure), _ERROR_LENGTH)
    return Telling(
        "↻", _LATER, f"failed ({event.attempt}/{event.max_attempts}): {error} — next try in {span(event.delay)}"
    )


@tell.register
def _(event: events.JobSnoozed) -> Telling:
    return Telling("⏲", _LATER, f"snoozed for {span(event.delay)}")


@tell.register
def _(event: events.JobDied) -> Telling:
    error = one_line(str(event.failure), _ERROR_LENGTH)
    return Telling("✘", _BAD, f"dead after {counted(event.attempt, 'attempt')}: {error}")


@tell.register
def _(event: events.JobCancelled) -> Telling:
    return Telling("⊘", _LATER, f"cancelled: {one_line(event.reason, _ERROR_LENGTH)}")


@tell.register
def _(_event: events.JobReleased) -> Telling:
    return Telling("↩", _CALM, "given back, no attempt charged")


@tell.register
def _(event: events.JobBlocked) -> Telling:
    return Telling("⏸", _LATER, f"blocked: {one_line(event.reason, _ERROR_LENGTH)}")


@tell.register
def _(_event: events.ClaimLost) -> Telling:
    return Telling("⚠", _BAD, "lost: the job belongs to another worker now, what this run did is not recorded")


@tell.register
def _(event: events.WorkerReady) -> Telling:
    served = "" if event.queues is None else f" (only {_served(event.queues, event.weights)})"
    work = f"{counted(event.tasks, 'task')}, {counted(event.concurrency, 'job')} at a time"
    return Telling(
        "●", _GOOD, f"ready: {work}, from {near(event.store)}{served}; stop it by pid {event.supervisor_pid}"
    )


def _served(queues: Sequence[str], weights: Sequence[int] | None) -> str:
    if weights is None:
        return ", then ".join(queues)
    if len(set(weights)) == 1:
        return ", ".join(queues)
    return ", ".join(f"{queue} {weight}" for queue, weight in zip(queues, weights, strict=True))


@tell.register
def _(event: events.WorkerStopping) -> Telling:
    return Telling("◌", _LATER, f"stopping: running jobs have {event.grace:g} s to finish")


@tell.register
def _(event: events.WorkerStopped) -> Telling:
    unfinished = f"; {counted(event.released, 'unfinished job')} given back" if event.released else ""
    return Telling("○", _CALM, f"stopped{unfinished}")


@tell.register
def _(event: events.WorkerCrashed) -> Telling:
    fate = f"{counted(event.started, 'job')} had started, {counted(event.released, 'job')} given back"
    return Telling("✘", _BAD, f"crashed: {one_line(event.evidence, _ERROR_LENGTH)}; {fate}")


@tell.register
def _(event: events.WorkerHung) -> Telling:
    return Telling("✘", _BAD, f"hangs: no sign of life for {event.silent:.0f} s, it is killed")


@tell.register
def _(_event: events.WorkerLost) -> Telling:
    return Telling("⚠", _BAD, "was declared dead by others; it starts nothing more")


@tell.register
def _(event: events.WorkerFound) -> Telling:
    return Telling("⚠", _LATER, f"vanished; {counted(event.released, 'job')} given back")


@tell.register
def _(event: events.Drained) -> Telling:
    left = ", ".join(f"{count:,} {state}" for state, count in event.left.items())
    return Telling(
        "○", _LATER if left else _CALM, f"drained; {f'not for now: {left}' if left else 'nothing is left'}"
    )


@tell.register
def _(event: events.StoreAway) -> Telling:
    return Telling("⚠", _BAD, f"store away: {one_line(event.error, _ERROR_LENGTH)}; trying on")


@tell.register
def _(event: events.StoreBack) -> Telling:
    return Telling("●", _GOOD, f"store back after {span(timedelta(seconds=event.away))}")


@tell.register
def _(event: FirstCompletion) -> Telling:
    hint = " (the next ones are counted; -v shows each)" if event.hint else ""
    return Telling("✔", _GOOD, tell(event.event).words + hint)


@tell.register
def _(event: Folded) -> Telling:
    last = tell(event.last)
    like = one_line(event.cause, _ERROR_LENGTH) or "this"
    more = f"{event.count:,} more like {like} in {span(timedelta(seconds=event.seconds))}"
    return Telling(last.symbol, last.style, f"{more}, last: {short_id(event.last.job_id)} {last.words}")


@tell.register
def _(event: Summary) -> Telling:
    shown = [f"{one_line(task)} {count:,}" for task, count in list(event.tasks.items())[:_TASKS_IN_SUMMARY]]
    others = len(event.tasks) - len(shown)
    tasks = ", ".join([*shown, *([counted(others, "other task")] if others else [])])
    failed = f"; {counted(event.failed, 'attempt')} failed" if event.failed else ""
    took = span(timedelta(seconds=event.seconds))
    return Telling("✔", _GOOD, f"{event.completed:,} more completed in {took} ({tasks}){failed}")
