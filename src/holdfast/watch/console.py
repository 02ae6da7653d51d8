"""Tells each event in one coloured line for people. A subscriber; it decides nothing.

Supervisor and children share one stderr, so every line is one write and nothing on the screen is redrawn.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from functools import singledispatch
from typing import Final

from rich.console import COLOR_SYSTEMS, Console
from rich.style import Style

from holdfast import events
from holdfast.clock import Clock, SystemClock
from holdfast.core.job import Progress
from holdfast.watch.words import counted, near, one_line, short_id, span

_GOOD: Final = Style.parse("green")
_BUSY: Final = Style.parse("cyan")
_LATER: Final = Style.parse("yellow")
_BAD: Final = Style.parse("bold red")
_CALM: Final = Style.parse("dim")
_NAME: Final = Style.parse("bold")
_PLAIN: Final = Style.null()

_ERROR_LENGTH = 200
_BAR_LENGTH = 20
_LATE_ENOUGH_TO_SAY = timedelta(milliseconds=100)


@dataclass(frozen=True, slots=True)
class Telling:
    """What is said of an event: a symbol in its colour, and words."""

    symbol: str
    style: Style
    words: str


class ConsoleSubscriber:
    """Makes one line of each event, coloured as the console can show it, and hands it to `write`."""

    def __init__(self, console: Console, write: Callable[[str], object], clock: Clock | None = None) -> None:
        self._write = write
        self._clock = clock or SystemClock()
        system = None if console.no_color else console.color_system
        self._colours = None if system is None else COLOR_SYSTEMS[system]

    def __call__(self, event: events.Event) -> None:
        """Tell the event."""
        # The console's own print costs ten times as much and may write a line in pieces.
        self._write(self._line(event))

    def _line(self, event: events.Event) -> str:
        telling = tell(event)
        at = f"{self._clock.now().astimezone():%H:%M:%S.%f}"[:-3]
        parts = [self._paint(at, _CALM), self._paint(telling.symbol, telling.style), self._subject(event)]
        parts.append(self._paint(telling.words, _PLAIN if telling.style is _GOOD else telling.style))
        return " ".join(part for part in parts if part) + "\n"

    def _subject(self, event: events.Event) -> str:
        if isinstance(event, events.JobEvent):
            return f"{self._paint(one_line(event.task), _NAME)} {self._paint(short_id(event.job_id), _CALM)}"
        if isinstance(event, events.WorkerEvent):
            pid = f" pid {event.pid}" if event.pid else ""
            return f"{self._paint('worker', _NAME)} {self._paint(f'{event.worker}{pid}', _CALM)}"
        return ""

    def _paint(self, text: str, style: Style) -> str:
        return style.render(text, color_system=self._colours)


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
    served = "" if event.queues is None else f" (only {', '.join(event.queues)})"
    work = f"{counted(event.tasks, 'task')}, {counted(event.concurrency, 'job')} at a time"
    return Telling(
        "●", _GOOD, f"ready: {work}, from {near(event.store)}{served}; stop it by pid {event.supervisor_pid}"
    )


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
