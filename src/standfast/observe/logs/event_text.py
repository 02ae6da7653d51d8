"""What a log says of each event: whom it is about, a symbol, a colour and words.

The colours are written by hand: every child process has a log, and to load rich takes a tenth of its start.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, TextIO

from standfast import events
from standfast.model.display import counted, one_line, short_id, span, with_note
from standfast.model.job import Progress
from standfast.model.memos import FOR_EVER, SLEEPING, signal_name
from standfast.model.states import Reason
from standfast.observe.logs.narrator import FirstCompletion, Folded, Summary

GOOD: Final = "32"  # green
BUSY: Final = "36"  # cyan
LATER: Final = "33"  # yellow
BAD: Final = "1;31"  # bold red
BOLD: Final = "1"
CALM: Final = "2"  # dim
PLAIN: Final = ""

_ERROR_LENGTH = 200
_TASKS_IN_SUMMARY = 3
_BAR_LENGTH = 20
_LATE_ENOUGH_TO_SAY = timedelta(milliseconds=100)
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


def describe_event(event: events.Event) -> EventText:  # noqa: C901, PLR0911, PLR0912, PLR0915 - a case for each
    """Return what to say of an event; of one without words of its own, its name."""
    match event:
        case events.JobStarted():
            attempt = f" (attempt {event.attempt} of {event.max_attempts})" if event.attempt > 1 else ""
            late = f", {span(event.late)} late" if event.late >= _LATE_ENOUGH_TO_SAY else ""
            return EventText("▶", BUSY, f"started{attempt}{late}")
        case events.JobCompleted():
            return EventText("✔", GOOD, f"completed in {span(event.took)}")
        case events.JobProgressed():
            return EventText("…", BUSY, with_note(_bar(event.progress), event.progress.note))
        case events.JobLate():
            by = f"{event.start_by.astimezone():%H:%M:%S}"
            fate = "it expires" if event.expires else "it runs all the same"
            return EventText("⌛", LATER, f"{span(event.late)} late, and should have started by {by}: {fate}")
        case events.JobRetrying():
            tried = f"failed ({event.attempt}/{event.max_attempts}): {_cut(str(event.failure))}"
            return EventText("↻", LATER, f"{tried} — next try in {span(event.delay)}")
        case events.JobSnoozed():
            return EventText("⏲", LATER, _pause(event))
        case events.JobDied():
            return EventText(
                "✘", BAD, f"dead after {counted(event.attempt, 'attempt')}: {_cut(str(event.failure))}"
            )
        case events.JobCancelled():
            return EventText("⊘", LATER, f"cancelled: {_cut(event.reason)}")
        case events.JobReleased():
            return EventText("↩", CALM, "given back, no attempt charged")
        case events.JobBlocked(reason=Reason.NO_WORKER):
            unknown = f"this worker does not know this task with payload version {event.version}"
            return EventText("⏸", LATER, f"put aside: {unknown}")
        case events.JobBlocked():
            return EventText("⏸", LATER, f"blocked: {_cut(event.reason)}")
        case events.ClaimLost():
            words = "lost: the job belongs to another worker now, what this run did is not recorded"
            return EventText("⚠", BAD, words)
        case events.WorkerReady():
            served = "" if event.queues is None else f" (only {_served(event.queues, event.weights)})"
            work = f"{_work(event)}, from {one_line(event.store)}{served}"
            return EventText("●", GOOD, f"ready: {work}; stop it by pid {event.supervisor_pid}")
        case events.WorkerRecycling():
            return EventText("⟳", BUSY, f"is replaced by {event.successor}: {_cut(event.reason)}")
        case events.WorkerNotRecycled():
            again = "" if event.pause is None else f"; tried again in {_seconds(event.pause)}"
            return EventText("✘", BAD, f"stays: no other could take its place: {_cut(event.error)}{again}")
        case events.WorkerDraining():
            return EventText("◌", LATER, "is drained: it ends what it runs, and none takes its place")
        case events.WorkerDrained(places=0):
            return EventText("○", CALM, "is drained, and it was the last one: its supervisor ends")
        case events.WorkerDrained():
            left = counted(event.places, "other place")
            words = f"is drained: its place stays empty until a reload or a recycle; {left} kept"
            return EventText("○", CALM, words)
        case events.WorkerStopping():
            return EventText("◌", LATER, f"stopping: running jobs have {event.grace:g} s to finish")
        case events.WorkerStopped():
            unfinished = f"; {counted(event.released, 'unfinished job')} given back" if event.released else ""
            return EventText("○", CALM, f"stopped{unfinished}")
        case events.WorkerCrashed():
            fate = f"{counted(event.started, 'job')} had started, {counted(event.released, 'job')} given back"
            return EventText("✘", BAD, f"crashed: {_cut(event.evidence)}; {fate}")
        case events.WorkerHung():
            fate = "it is killed" if event.killed else "nobody beats for it any more"
            return EventText("✘", BAD, f"hangs: no sign of life for {event.silent:.0f} s, {fate}")
        case events.WorkerLost():
            words = "is not known to the store any more, or was declared dead by others; it starts nothing more"
            return EventText("⚠", BAD, words)
        case events.WorkerFound():
            return EventText("⚠", LATER, f"vanished; {counted(event.released, 'job')} given back")
        case events.HostReady():
            what = f"{_work(event)}, from {event.store}; process {event.beater_pid} beats for it"
            return EventText("●", GOOD, f"works inside this process: {what}")
        case events.HostStopping():
            running = counted(event.running, "job")
            return EventText("◌", LATER, f"stopping: {_STAGES[event.stage]} ({running} running)")
        case events.HostStopped(running=0):
            return EventText("○", CALM, "the host has stopped")
        case events.HostStopped():
            left = f"{counted(event.running, 'job')} did not end, and are given back when this process is gone"
            return EventText("○", LATER, f"the host has stopped; {left}")
        case events.BeaterLost():
            again = f"another is started in {_seconds(event.pause)}"
            return EventText("⚠", LATER, f"the beater is gone ({_cut(event.reason)}): {again}")
        case events.LoopBlocked():
            return EventText("⚠", LATER, _blocked(event))
        case events.WorkerDeadlocked():
            words = (
                f"waits for the result of a job of task {one_line(event.waits_for)}, and all {event.places:,} places"
                " are taken by jobs that wait so: what they wait for cannot start. Wait with ctx.wait_for or Snooze,"
                " which give the place back, or have another worker serve the queue of those jobs"
            )
            return EventText("⚠", BAD, words)
        case events.Drained():
            left = ", ".join(f"{count:,} {state}" for state, count in event.left.items())
            if left:
                return EventText("○", LATER, f"drained; not for now: {left}")
            return EventText("○", CALM, "drained; nothing is left")
        case events.AlertFired():
            return EventText("⚠", BAD, f"alert {one_line(event.rule)} fires: {_cut(event.says)}")
        case events.AlertResolved():
            return EventText("✔", GOOD, f"alert {one_line(event.rule)} is resolved: {_cut(event.says)}")
        case events.DeadRemoved():
            by_age = event.setting == "keep_dead_for"
            kept = f"each is kept for {_seconds(event.keep)}" if by_age else f"{int(event.keep):,} are kept"
            removed = f"{counted(event.jobs, 'dead job was', 'dead jobs were')} removed, the oldest"
            return EventText("✂", LATER, f"{removed}: {kept} ({event.setting})")
        case events.StoreAway():
            return EventText("⚠", BAD, f"store away: {_cut(event.error)}; still trying")
        case events.StoreBack():
            return EventText("●", GOOD, f"store back after {_seconds(event.away)}")
        case events.MetricsServed():
            return EventText("●", CALM, f"metrics are told at {event.url}")
        case FirstCompletion():
            hint = " (the next ones are counted; -v shows each)" if event.hint else ""
            return EventText("✔", GOOD, describe_event(event.event).words + hint)
        case Folded():
            last = describe_event(event.last)
            more = f"{event.count:,} more like {_cut(event.cause) or 'this'} in {_seconds(event.seconds)}"
            return EventText(last.symbol, last.style, f"{more}, last: {short_id(event.last.job_id)} {last.words}")
        case Summary():
            failed = f"; {counted(event.failed, 'attempt')} failed" if event.failed else ""
            done = f"{event.completed:,} more completed in {_seconds(event.seconds)}"
            return EventText("✔", GOOD, f"{done} ({_tasks(event)}){failed}")
        case events.ScheduleFired():
            return EventText("⏰", CALM, f"fired for {_moment(event.planned)}: job {short_id(event.job_id)}")
        case events.ScheduleMissed():
            fate = "not caught up" if event.job_id is None else f"caught up by job {short_id(event.job_id)}"
            return EventText("⌛", LATER, f"missed {_times(event.planned, event.count)}, {fate}: {event.note}")
        case events.ScheduleSkipped():
            return EventText("⏲", LATER, f"{_times(event.planned, event.count)} {event.decision}: {event.note}")
        case events.SchedulePaused():
            resume = f"resume it with `standfast schedules resume {event.schedule}`"
            return EventText("⏸", BAD, f"paused itself: {event.why}; {resume}")
        case events.ScheduleDeclared():
            return EventText("✚" if event.what == "added" else "✎", GOOD, f"{event.what}: {event.words}")
        case events.ScheduleForeign():
            words = "is declared in code, but another of that name was made elsewhere and stays: rename one of them"
            return EventText("!", LATER, words)
        case events.ScheduleShared(retired_by=None):
            words = (
                f"is not declared here, but by release {event.release} of {event.app}, whose workers live: it stays"
                f" until they are gone; if they are {_ANOTHER_SERVICE}"
            )
            return EventText("!", LATER, words)
        case events.ScheduleShared():
            words = (
                f"was retired by release {event.retired_by} of {event.app}, which does not declare it, while workers"
                f" of release {event.release} live that do: it fires no more. If they are {_ANOTHER_SERVICE}"
            )
            return EventText("!", LATER, words)
        case events.ReleaseOlder():
            words = (
                f"release {event.release} is older than {event.newer}, whose workers live: its schedules are left as"
                " they are; once only its own workers run, restart one of them, or run"
                " `standfast schedules sync MODULE:APP` now"
            )
            return EventText("!", LATER, words)
        case events.WindowNear():
            asked = f"; {_running(event.running)} asked to finish" if event.running else ""
            when = f"from {_moment(event.begins_at)} to {_moment(event.ends_at)}"
            return EventText("◑", LATER, f"closes soon, {when}{_because(event.reason)}{asked}")
        case events.WindowBegan():
            left = f"; {_running(event.running)} not finished yet" if event.running else ""
            return EventText("●", LATER, f"closed until {_moment(event.ends_at)}{_because(event.reason)}{left}")
        case events.WindowEnded():
            return EventText("○", GOOD, "open again")
        case events.WindowDeclared():
            return EventText("✚" if event.what == "added" else "✎", GOOD, f"windows {event.what}: {event.words}")
        case events.LimitChanged():
            symbol, style = ("▽", LATER) if event.limit < event.before else ("△", GOOD)
            words = f"{event.limit} at a time instead of {event.before}{_because(event.reason)}"
            return EventText(symbol, style, words)
        case _:
            return EventText("·", CALM, type(event).__name__)


_ANOTHER_SERVICE = "another service, give each a name of its own: Standfast(…, name=…)"
_STAGES = {
    events.StopStage.CLAIMING: "takes no more jobs",
    events.StopStage.TELLING: "cancel tokens are set",
    events.StopStage.WAITING: "waits for running jobs",
    events.StopStage.RELEASING: "writes what was saved, and gives back what is unfinished",
    events.StopStage.CLOSING: "tears down, and lets the store go",
}


def _cut(text: str) -> str:
    return one_line(text, _ERROR_LENGTH)


def _seconds(seconds: float) -> str:
    return span(timedelta(seconds=seconds))


def _work(event: events.WorkerReady | events.HostReady) -> str:
    return f"{counted(event.tasks, 'task')}, {counted(event.concurrency, 'job')} at a time"


def _pause(event: events.JobSnoozed) -> str:
    name = signal_name(event.reason)
    if name is None:
        return f"{'sleeps' if event.reason == SLEEPING else 'snoozed'} for {span(event.delay)}"
    within = "" if event.delay >= FOR_EVER else f", at most {span(event.delay)}"
    return f"waits for signal {one_line(name)!r}{within}"


def _blocked(event: events.LoopBlocked) -> str:
    who = "" if event.task else "something "
    lasted = _seconds(event.seconds) + (f" at {one_line(event.place)}" if event.place else "")
    count = f" ({event.count:,} times since it was last told)" if event.count > 1 else ""
    if event.interpreter:
        words = f"held the interpreter for {lasted}, and no thread could run: do that in another process"
    else:
        words = f"blocked the event loop for {lasted}: use `await`, or write it as a plain `def`"
    return f"{who}{words}{count}"


def _tasks(event: Summary) -> str:
    shown = [f"{one_line(task)} {count:,}" for task, count in list(event.tasks.items())[:_TASKS_IN_SUMMARY]]
    others = len(event.tasks) - len(shown)
    return ", ".join([*shown, *([counted(others, "other task")] if others else [])])


def _bar(progress: Progress) -> str:
    if not progress.total or progress.total < 0:
        return f"{progress.done:,g} done"
    share = min(max(progress.done / progress.total, 0.0), 1.0)
    filled = int(share * _BAR_LENGTH)
    bar = "█" * filled + "░" * (_BAR_LENGTH - filled)
    return f"{bar} {share:.0%} ({progress.done:,g} of {progress.total:,g})"


def _served(queues: Sequence[str], weights: Sequence[int] | None) -> str:
    if weights is None:
        return ", then ".join(queues)
    if len(set(weights)) == 1:
        return ", ".join(queues)
    return ", ".join(f"{queue} {weight}" for queue, weight in zip(queues, weights, strict=True))


def _running(number: int) -> str:
    return counted(number, "running job is", "running jobs are")


def _because(reason: str | None) -> str:
    return f" ({_cut(reason)})" if reason else ""


def _moment(moment: datetime) -> str:
    return f"{moment.astimezone():%Y-%m-%d %H:%M:%S}"


def _times(planned: datetime, count: int) -> str:
    return _moment(planned) if count == 1 else f"{count:,} planned times from {_moment(planned)} on"
