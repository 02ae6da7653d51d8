"""The colours of a log, and whether a stream is shown in any.

They are written by hand, because every child process tells its log, and to load rich takes a tenth of its start.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import singledispatch
from typing import Final, TextIO

from standfast import events
from standfast.model.display import counted, one_line, short_id, span, with_note
from standfast.model.job import Progress
from standfast.model.memos import FOR_EVER, SLEEPING, signal_name
from standfast.model.states import Reason
from standfast.observe.logs.narrator import FirstCompletion, Folded, Summary

GREEN: Final = "32"
CYAN: Final = "36"
YELLOW: Final = "33"
BOLD_RED: Final = "1;31"
BOLD: Final = "1"
DIM: Final = "2"
PLAIN: Final = ""

_INSISTING = ("FORCE_COLOR", "TTY_COMPATIBLE")


def painted(text: str, colour: str) -> str:
    """Return a text in a colour."""
    return f"\x1b[{colour}m{text}\x1b[0m" if text and colour else text


def shows_colours(stream: TextIO) -> bool:
    """Tell whether a stream is shown in colours. Which terminals do so, rich knows; it is asked of no other."""
    if not stream.isatty() and not any(os.environ.get(name) for name in _INSISTING):
        return False
    from rich.console import Console  # noqa: PLC0415 - most processes have no terminal

    console = Console(file=stream)
    return not console.no_color and console.color_system is not None


# What is said of each event: whom it is about, a symbol, a colour and words. One place, for every log.

GOOD: Final = GREEN
BUSY: Final = CYAN
LATER: Final = YELLOW
BAD: Final = BOLD_RED
CALM: Final = DIM

_ERROR_LENGTH = 200
_TASKS_IN_SUMMARY = 3
_BAR_LENGTH = 20
_LATE_ENOUGH_TO_SAY = timedelta(milliseconds=100)


@dataclass(frozen=True, slots=True)
class EventText:
    """What is said of an event: a symbol in its colour, and words."""

    symbol: str
    style: str
    words: str


def subject_of(event: events.Event) -> tuple[str, str]:
    """Return whom an event is about: a name, and what tells it apart from others of that name."""
    match event.event if isinstance(event, FirstCompletion) else event:
        case Folded(last=last):
            return f"{one_line(last.task)}:", ""
        case (
            events.JobEvent(task=task, job_id=job_id)
            | events.LoopBlocked(task=task, job_id=job_id)
            | events.WorkerDeadlocked(task=task, job_id=job_id)
        ) if task:
            return one_line(task), short_id(job_id)
        case events.WorkerEvent(worker=worker, pid=pid):
            return "worker", f"{worker} pid {pid}" if pid else worker
        case events.ScheduleEvent(schedule=schedule):
            return "schedule", one_line(schedule)
        case events.WindowEvent(about=about, name=name) | events.LimitChanged(about=about, name=name):
            return about, one_line(name)
        case _:
            return "", ""


def sentence(event: events.Event) -> str:
    """Return what is said of an event as plain words, its subject included."""
    return " ".join(part for part in (*subject_of(event), describe_event(event).words) if part)


@singledispatch
def describe_event(event: events.Event) -> EventText:
    """Return what to say of an event; of one without words of its own, its name."""
    return EventText("·", CALM, type(event).__name__)


@describe_event.register
def _(event: events.JobStarted) -> EventText:
    attempt = f" (attempt {event.attempt} of {event.max_attempts})" if event.attempt > 1 else ""
    late = f", {span(event.late)} late" if event.late >= _LATE_ENOUGH_TO_SAY else ""
    return EventText("▶", BUSY, f"started{attempt}{late}")


@describe_event.register
def _(event: events.JobLate) -> EventText:
    by = f"{event.start_by.astimezone():%H:%M:%S}"
    fate = "it expires" if event.expires else "it runs all the same"
    return EventText("⌛", LATER, f"{span(event.late)} late, and should have started by {by}: {fate}")


@describe_event.register
def _(event: events.JobProgressed) -> EventText:
    return EventText("…", BUSY, with_note(_bar(event.progress), event.progress.note))


def _bar(progress: Progress) -> str:
    if not progress.total or progress.total < 0:
        return f"{progress.done:,g} done"
    share = min(max(progress.done / progress.total, 0.0), 1.0)
    filled = int(share * _BAR_LENGTH)
    bar = "█" * filled + "░" * (_BAR_LENGTH - filled)
    return f"{bar} {share:.0%} ({progress.done:,g} of {progress.total:,g})"


@describe_event.register
def _(event: events.JobCompleted) -> EventText:
    return EventText("✔", GOOD, f"completed in {span(event.took)}")


@describe_event.register
def _(event: events.JobRetrying) -> EventText:
    error = one_line(str(event.failure), _ERROR_LENGTH)
    return EventText(
        "↻", LATER, f"failed ({event.attempt}/{event.max_attempts}): {error} — next try in {span(event.delay)}"
    )


@describe_event.register
def _(event: events.JobSnoozed) -> EventText:
    waits_for = signal_name(event.reason)
    if waits_for is None:
        return EventText(
            "⏲", LATER, f"{'sleeps' if event.reason == SLEEPING else 'snoozed'} for {span(event.delay)}"
        )
    within = "" if event.delay >= FOR_EVER else f", at most {span(event.delay)}"
    return EventText("⏲", LATER, f"waits for signal {one_line(waits_for)!r}{within}")


@describe_event.register
def _(event: events.JobDied) -> EventText:
    error = one_line(str(event.failure), _ERROR_LENGTH)
    return EventText("✘", BAD, f"dead after {counted(event.attempt, 'attempt')}: {error}")


@describe_event.register
def _(event: events.JobCancelled) -> EventText:
    return EventText("⊘", LATER, f"cancelled: {one_line(event.reason, _ERROR_LENGTH)}")


@describe_event.register
def _(_event: events.JobReleased) -> EventText:
    return EventText("↩", CALM, "given back, no attempt charged")


@describe_event.register
def _(event: events.JobBlocked) -> EventText:
    if event.reason == Reason.NO_WORKER:
        return EventText(
            "⏸", LATER, f"put aside: this worker does not know this task with payload version {event.version}"
        )
    return EventText("⏸", LATER, f"blocked: {one_line(event.reason, _ERROR_LENGTH)}")


@describe_event.register
def _(_event: events.ClaimLost) -> EventText:
    return EventText("⚠", BAD, "lost: the job belongs to another worker now, what this run did is not recorded")


@describe_event.register
def _(event: events.WorkerReady) -> EventText:
    served = "" if event.queues is None else f" (only {_served(event.queues, event.weights)})"
    work = f"{counted(event.tasks, 'task')}, {counted(event.concurrency, 'job')} at a time"
    return EventText(
        "●", GOOD, f"ready: {work}, from {one_line(event.store)}{served}; stop it by pid {event.supervisor_pid}"
    )


def _served(queues: Sequence[str], weights: Sequence[int] | None) -> str:
    if weights is None:
        return ", then ".join(queues)
    if len(set(weights)) == 1:
        return ", ".join(queues)
    return ", ".join(f"{queue} {weight}" for queue, weight in zip(queues, weights, strict=True))


@describe_event.register
def _(event: events.WorkerRecycling) -> EventText:
    return EventText("⟳", BUSY, f"is replaced by {event.successor}: {one_line(event.reason, _ERROR_LENGTH)}")


@describe_event.register
def _(event: events.WorkerNotRecycled) -> EventText:
    again = "" if event.pause is None else f"; tried again in {span(timedelta(seconds=event.pause))}"
    return EventText(
        "✘", BAD, f"stays: no other could take its place: {one_line(event.error, _ERROR_LENGTH)}{again}"
    )


@describe_event.register
def _(_event: events.WorkerDraining) -> EventText:
    return EventText("◌", LATER, "is drained: it ends what it runs, and none takes its place")


@describe_event.register
def _(event: events.WorkerDrained) -> EventText:
    if not event.places:
        return EventText("○", CALM, "is drained, and it was the last one: its supervisor ends")
    left = counted(event.places, "other place")
    return EventText("○", CALM, f"is drained: its place stays empty until a reload or a recycle; {left} kept")


@describe_event.register
def _(event: events.WorkerStopping) -> EventText:
    return EventText("◌", LATER, f"stopping: running jobs have {event.grace:g} s to finish")


@describe_event.register
def _(event: events.WorkerStopped) -> EventText:
    unfinished = f"; {counted(event.released, 'unfinished job')} given back" if event.released else ""
    return EventText("○", CALM, f"stopped{unfinished}")


@describe_event.register
def _(event: events.WorkerCrashed) -> EventText:
    fate = f"{counted(event.started, 'job')} had started, {counted(event.released, 'job')} given back"
    return EventText("✘", BAD, f"crashed: {one_line(event.evidence, _ERROR_LENGTH)}; {fate}")


@describe_event.register
def _(event: events.WorkerHung) -> EventText:
    fate = "it is killed" if event.killed else "nobody beats for it any more"
    return EventText("✘", BAD, f"hangs: no sign of life for {event.silent:.0f} s, {fate}")


@describe_event.register
def _(_event: events.WorkerLost) -> EventText:
    return EventText(
        "⚠", BAD, "is not known to the store any more, or was declared dead by others; it starts nothing more"
    )


@describe_event.register
def _(event: events.WorkerFound) -> EventText:
    return EventText("⚠", LATER, f"vanished; {counted(event.released, 'job')} given back")


@describe_event.register
def _(event: events.HostReady) -> EventText:
    what = f"{counted(event.tasks, 'task')}, {counted(event.concurrency, 'job')} at a time, from {event.store}"
    return EventText("●", GOOD, f"works inside this process: {what}; process {event.beater_pid} beats for it")


_STAGES = {
    events.StopStage.CLAIMING: "takes no more jobs",
    events.StopStage.TELLING: "cancel tokens are set",
    events.StopStage.WAITING: "waits for running jobs",
    events.StopStage.RELEASING: "writes what was saved, and gives back what is unfinished",
    events.StopStage.CLOSING: "tears down, and lets the store go",
}


@describe_event.register
def _(event: events.HostStopping) -> EventText:
    return EventText("◌", LATER, f"stopping: {_STAGES[event.stage]} ({counted(event.running, 'job')} running)")


@describe_event.register
def _(event: events.HostStopped) -> EventText:
    left = counted(event.running, "job") if event.running else ""
    goes_on = f"; {left} did not end, and are given back when this process is gone" if left else ""
    return EventText("○", LATER if left else CALM, f"the host has stopped{goes_on}")


@describe_event.register
def _(event: events.BeaterLost) -> EventText:
    again = f"another is started in {span(timedelta(seconds=event.pause))}"
    return EventText("⚠", LATER, f"the beater is gone ({one_line(event.reason, _ERROR_LENGTH)}): {again}")


@describe_event.register
def _(event: events.LoopBlocked) -> EventText:
    who = "" if event.task else "something "
    lasted = span(timedelta(seconds=event.seconds))
    count = f" ({event.count:,} times since it was last told)" if event.count > 1 else ""
    at = f" at {one_line(event.place)}" if event.place else ""
    if event.interpreter:
        words = f"held the interpreter for {lasted}{at}, and no thread could run: do that in another process"
    else:
        words = f"blocked the event loop for {lasted}{at}: use `await`, or write it as a plain `def`"
    return EventText("⚠", LATER, f"{who}{words}{count}")


@describe_event.register
def _(event: events.WorkerDeadlocked) -> EventText:
    words = (
        f"waits for the result of a job of task {one_line(event.waits_for)}, and all {event.places:,} places are"
        " taken by jobs that wait so: what they wait for cannot start. Wait with ctx.wait_for or Snooze, which give"
        " the place back, or have another worker serve the queue of those jobs"
    )
    return EventText("⚠", BAD, words)


@describe_event.register
def _(event: events.Drained) -> EventText:
    left = ", ".join(f"{count:,} {state}" for state, count in event.left.items())
    return EventText(
        "○", LATER if left else CALM, f"drained; {f'not for now: {left}' if left else 'nothing is left'}"
    )


@describe_event.register
def _(event: events.AlertFired) -> EventText:
    return EventText("⚠", BAD, f"alert {one_line(event.rule)} fires: {one_line(event.says, _ERROR_LENGTH)}")


@describe_event.register
def _(event: events.AlertResolved) -> EventText:
    return EventText("✔", GOOD, f"alert {one_line(event.rule)} is resolved: {one_line(event.says, _ERROR_LENGTH)}")


@describe_event.register
def _(event: events.DeadRemoved) -> EventText:
    by_age = event.setting == "keep_dead_for"
    kept = f"each is kept for {span(timedelta(seconds=event.keep))}" if by_age else f"{int(event.keep):,} are kept"
    were = "was" if event.jobs == 1 else "were"
    words = f"{counted(event.jobs, 'dead job')} {were} removed, the oldest: {kept} ({event.setting})"
    return EventText("✂", LATER, words)


@describe_event.register
def _(event: events.StoreAway) -> EventText:
    return EventText("⚠", BAD, f"store away: {one_line(event.error, _ERROR_LENGTH)}; still trying")


@describe_event.register
def _(event: events.StoreBack) -> EventText:
    return EventText("●", GOOD, f"store back after {span(timedelta(seconds=event.away))}")


@describe_event.register
def _(event: events.MetricsServed) -> EventText:
    return EventText("●", CALM, f"metrics are told at {event.url}")


@describe_event.register
def _(event: FirstCompletion) -> EventText:
    hint = " (the next ones are counted; -v shows each)" if event.hint else ""
    return EventText("✔", GOOD, describe_event(event.event).words + hint)


@describe_event.register
def _(event: Folded) -> EventText:
    last = describe_event(event.last)
    like = one_line(event.cause, _ERROR_LENGTH) or "this"
    more = f"{event.count:,} more like {like} in {span(timedelta(seconds=event.seconds))}"
    return EventText(last.symbol, last.style, f"{more}, last: {short_id(event.last.job_id)} {last.words}")


@describe_event.register
def _(event: Summary) -> EventText:
    shown = [f"{one_line(task)} {count:,}" for task, count in list(event.tasks.items())[:_TASKS_IN_SUMMARY]]
    others = len(event.tasks) - len(shown)
    tasks = ", ".join([*shown, *([counted(others, "other task")] if others else [])])
    failed = f"; {counted(event.failed, 'attempt')} failed" if event.failed else ""
    took = span(timedelta(seconds=event.seconds))
    return EventText("✔", GOOD, f"{event.completed:,} more completed in {took} ({tasks}){failed}")


@describe_event.register
def _(event: events.ScheduleFired) -> EventText:
    return EventText("⏰", CALM, f"fired for {_moment(event.planned)}: job {short_id(event.job_id)}")


@describe_event.register
def _(event: events.ScheduleMissed) -> EventText:
    fate = "not caught up" if event.job_id is None else f"caught up by job {short_id(event.job_id)}"
    return EventText("⌛", LATER, f"missed {_times(event.planned, event.count)}, {fate}: {event.note}")


@describe_event.register
def _(event: events.ScheduleSkipped) -> EventText:
    return EventText("⏲", LATER, f"{_times(event.planned, event.count)} {event.decision}: {event.note}")


@describe_event.register
def _(event: events.SchedulePaused) -> EventText:
    return EventText(
        "⏸", BAD, f"paused itself: {event.why}; resume it with `standfast schedules resume {event.schedule}`"
    )


@describe_event.register
def _(event: events.ScheduleDeclared) -> EventText:
    return EventText("✚" if event.what == "added" else "✎", GOOD, f"{event.what}: {event.words}")


@describe_event.register
def _(_: events.ScheduleForeign) -> EventText:
    return EventText(
        "!", LATER, "is declared in code, but another of that name was made elsewhere and stays: rename one of them"
    )


@describe_event.register
def _(event: events.ScheduleShared) -> EventText:
    if event.retired_by is not None:
        words = (
            f"was retired by release {event.retired_by} of {event.app}, which does not declare it, while workers of"
            f" release {event.release} live that do: it fires no more. If they are another service, give each a"
            " name of its own: Standfast(…, name=…)"
        )
        return EventText("!", LATER, words)
    return EventText(
        "!",
        LATER,
        f"is not declared here, but by release {event.release} of {event.app}, whose workers live: it stays until"
        " they are gone; if they are another service, give each a name of its own: Standfast(…, name=…)",
    )


@describe_event.register
def _(event: events.ReleaseOlder) -> EventText:
    return EventText(
        "!",
        LATER,
        f"release {event.release} is older than {event.newer}, whose workers live: its schedules are left as they"
        " are; once only its own workers run, restart one of them, or run"
        " `standfast schedules sync MODULE:APP` now",
    )


@describe_event.register
def _(event: events.WindowNear) -> EventText:
    asked = f"; {_running(event.running)} asked to finish" if event.running else ""
    when = f"from {_moment(event.begins_at)} to {_moment(event.ends_at)}"
    return EventText("◑", LATER, f"closes soon, {when}{_because(event.reason)}{asked}")


@describe_event.register
def _(event: events.WindowBegan) -> EventText:
    left = f"; {_running(event.running)} not finished yet" if event.running else ""
    return EventText("●", LATER, f"closed until {_moment(event.ends_at)}{_because(event.reason)}{left}")


@describe_event.register
def _(_: events.WindowEnded) -> EventText:
    return EventText("○", GOOD, "open again")


@describe_event.register
def _(event: events.WindowDeclared) -> EventText:
    return EventText("✚" if event.what == "added" else "✎", GOOD, f"windows {event.what}: {event.words}")


@describe_event.register
def _(event: events.LimitChanged) -> EventText:
    symbol, style = ("▽", LATER) if event.limit < event.before else ("△", GOOD)
    return EventText(symbol, style, f"{event.limit} at a time instead of {event.before}{_because(event.reason)}")


def _running(number: int) -> str:
    return counted(number, "running job is", "running jobs are")


def _because(reason: str | None) -> str:
    return f" ({one_line(reason, _ERROR_LENGTH)})" if reason else ""


def _moment(moment: datetime) -> str:
    return f"{moment.astimezone():%Y-%m-%d %H:%M:%S}"


def _times(planned: datetime, count: int) -> str:
    return _moment(planned) if count == 1 else f"{count:,} planned times from {_moment(planned)} on"
