"""What several commands show of a job."""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from types import MappingProxyType

import click
import msgspec
from msgspec.structs import asdict, replace
from rich.text import Text

from standfast.admin.fields import CursorSeen, FileSeen, ProgressSeen, SignalSeen, StepSeen, ValueSeen, WaitSeen
from standfast.admin.job_search import JobRow, JobsAsked
from standfast.admin.jobs import AttemptSeen, JobSeen, WhichJob, list_jobs, show_job
from standfast.admin.schedules import ScheduleSeen
from standfast.cli.connection import StoreOptions, examples, store_options
from standfast.cli.lookup import find_job
from standfast.cli.output import (
    Column,
    answer,
    coloured,
    cut,
    say,
    say_block,
    say_fields,
    say_heading,
    say_json,
    say_list,
    say_table,
)
from standfast.model.crash import CHARGED_ALONE, SUSPECTED, DeathKind
from standfast.model.display import counted, dated, in_bytes, one_line, relative, short_id, span, with_note
from standfast.model.job import OnLate
from standfast.model.memos import is_for_ever, is_suspended
from standfast.model.secrets import MASK
from standfast.model.states import FINAL, Move, State

_WIDE = 120


def say_arguments(seen: JobSeen | ScheduleSeen) -> None:
    """Print the arguments of a job, or of those of a schedule; of a secret one, its name."""
    say_heading("Arguments")
    if seen.args_problem is not None:
        say_block(str(seen.args_problem), style="red")
    elif seen.args:
        say_fields({one_line(name): value_words(value) for name, value in seen.args.items()})
    else:
        say_block("none", style="dim")


def value_words(seen: ValueSeen, indent: int = -1) -> str:
    """Return a value as JSON; or its beginning, that it is secret, or why it cannot be read."""
    if seen.problem is not None:
        return str(seen.problem)
    if seen.secret:
        return f'"{MASK}"'
    if seen.beginning is not None:
        return f"{seen.beginning} … ({in_bytes(seen.size)} in all)"
    return msgspec.json.format(msgspec.json.encode(seen.value), indent=indent).decode(errors="replace")


def progress_words(progress: ProgressSeen) -> str:
    """Return how far a job is and what it is doing: `3 of 10 (30%): the shoes`."""
    words = f"{progress.done:,g} done"
    if progress.total:
        words = f"{progress.done:,g} of {progress.total:,g} ({progress.done / progress.total:.0%})"
    return with_note(words, progress.note)


def job_columns(
    now: datetime, *, dead: bool = False, progress: bool = False, waiting: bool = False, involved: bool = False
) -> list[Column[JobRow]]:
    """Return the columns of a list of jobs; among the dead the error matters more than the state."""
    incident: Column[JobRow] = Column("INCIDENT", lambda job: _latest(job.incidents), vital=1)
    waits: Column[JobRow] = Column("WAITS FOR", lambda job: cut(str(job.waits_for or "")), shrinks=True)
    far: Column[JobRow] = Column("PROGRESS", lambda job: cut(_progress(job)), shrinks=True)
    states: list[Column[JobRow]] = [
        Column("STATE", lambda job: coloured(job.state), below_width=_WIDE),
        Column("STATE", _state_and_wish, from_width=_WIDE),
    ]
    return [
        Column("ID", lambda job: job.id, short=lambda job: short_id(job.id)),
        Column("TASK", lambda job: cut(job.task), shrinks=True),
        Column("QUEUE", lambda job: cut(job.queue), shrinks=True),
        *([] if dead else states),
        Column("FAILS", lambda job: f"{job.attempt}/{job.max_attempts}", justify="right"),
        Column("WHEN", lambda job: _when(job, now, relative), below_width=_WIDE),
        Column("WHEN", lambda job: _when(job, now, dated), from_width=_WIDE),
        *([waits] if waiting else []),
        *([far] if progress else []),
        Column(
            "ERROR",
            lambda job: cut(job.error or "", "red"),
            from_width=0 if dead else _WIDE,
            shrinks=True,
            vital=int(dead),
        ),
        *([incident] if involved else []),
    ]


def _latest(incidents: Sequence[str]) -> str:
    more = f" +{len(incidents) - 1}" if len(incidents) > 1 else ""
    return f"{short_id(incidents[0])}{more}" if incidents else ""


def _progress(job: JobRow) -> str:
    return "" if job.progress is None else progress_words(job.progress)


def _state_and_wish(job: JobRow) -> Text:
    text = coloured(job.state)
    if job.cancel_requested and job.state not in FINAL:
        text.append(" (cancelling)", style="yellow")
    return text


def due(job: JobRow, now: datetime, told: Callable[[datetime, datetime], str] = dated) -> str:
    """Return when a job is due, as it is `told`; a signal that is waited for without an end has no time."""
    open_end = job.waits_for is not None and is_for_ever(job.run_at, now)
    return "when it comes" if open_end else told(job.run_at, now)


def _when(job: JobRow, now: datetime, told: Callable[[datetime, datetime], str]) -> str:
    """Return the time that matters in the job's state: its end, or else when it is due."""
    return told(job.finished_at, now) if job.finished_at else due(job, now, told)


# One page of jobs, as `jobs list` and `dead list` print it.


def say_jobs(wanted: StoreOptions, asked: JobsAsked, nothing: str) -> None:
    """Print the jobs that are asked for, and how to see the next page; or `nothing`."""
    with wanted.admin() as admin:
        if asked.before is not None:
            asked = replace(asked, before=find_job(wanted, admin.backend, asked.before).id)
        seen = admin.run(list_jobs, asked)
        rows = [*seen.rows]
        while seen.next is not None and len(rows) < asked.limit:
            seen = admin.run(list_jobs, replace(asked, before=seen.next, limit=asked.limit - len(rows)))
            rows += seen.rows
    progress = any(job.progress is not None and job.state is State.RUNNING for job in rows)
    waiting, involved = any(job.waits_for for job in rows), any(job.incidents for job in rows)
    dead = asked.state == (State.DEAD,)
    columns = job_columns(seen.now, dead=dead, progress=progress, waiting=waiting, involved=involved)
    say_list(wanted, rows, columns, nothing)
    if len(rows) == asked.limit and not wanted.as_json:
        say(f"\nThe newest {counted(len(rows), 'job')}; for older ones add --before {rows[-1].id}")


# What a job has written down and was sent, as `jobs show` prints it: cursors, steps, waits, signals, files.

_LONGEST = 100
"""Characters of a value in a table."""


def say_memos(written: JobSeen, now: datetime) -> None:
    """Print it; nothing where nothing is written down."""
    if written.cursors:
        say_heading("How far it got")
        say_table(written.cursors, _cursor_columns(), indent=2)
    if written.steps:
        say_heading("Steps done")
        say_table(written.steps, _step_columns(), indent=2)
    if written.waits:
        say_heading("Waits")
        say_table(written.waits, _wait_columns(now), indent=2)
    if written.signals:
        say_heading("Signals")
        say_table(written.signals, _signal_columns(now), indent=2)
    if written.files:
        say_heading("Files")
        say_table(written.files, file_columns(now), indent=2)
    if written.unreadable:
        names = ", ".join(map(one_line, written.unreadable))
        say_block(f"{counted(len(written.unreadable), 'memo')} cannot be read here: {names}", style="red")


def file_columns(now: datetime) -> list[Column[FileSeen]]:
    """Return the columns of a list of files."""
    return [
        Column("NAME", lambda each: cut(each.name), shrinks=True),
        Column("SIZE", lambda each: in_bytes(each.size), justify="right"),
        Column("SAVED", lambda each: dated(each.saved_at, now)),
        Column("SHA-256", lambda each: each.sha256, short=lambda each: each.sha256[:12]),
    ]


def _cursor_columns() -> list[Column[CursorSeen]]:
    return [
        Column("LOOP", lambda each: cut(each.name or "ctx.cursor"), shrinks=True),
        Column("DONE", lambda each: f"{each.done:,}" if each.name else "", justify="right"),
        Column("VERSION", lambda each: str(each.version), justify="right"),
        Column("AT", lambda each: cut(_shown(each.value)), shrinks=True),
    ]


def _step_columns() -> list[Column[StepSeen]]:
    return [
        Column("STEP", lambda each: cut(each.name), shrinks=True),
        Column("VERSION", lambda each: str(each.version), justify="right"),
        Column("SIZE", lambda each: in_bytes(each.value.size), justify="right"),
        Column("RESULT", lambda each: cut(_shown(each.value)), shrinks=True),
    ]


def _wait_columns(now: datetime) -> list[Column[WaitSeen]]:
    return [
        Column("WAITS FOR", lambda each: cut(each.name), shrinks=True),
        Column("NUMBER", lambda each: str(each.number), justify="right"),
        Column("UNTIL", lambda each: _until(each, now)),
        Column("ENDED", lambda each: each.how or _passed(each, now)),
        Column("DATA", lambda each: cut(_shown(each.value) if each.how else ""), shrinks=True),
    ]


def _signal_columns(now: datetime) -> list[Column[SignalSeen]]:
    return [
        Column("SIGNAL", lambda each: cut(each.name), shrinks=True),
        Column("SENT", lambda each: "" if each.sent_at is None else dated(each.sent_at, now)),
        Column("TAKEN", lambda each: "yes" if each.taken else "not yet"),
        Column("DATA", lambda each: cut("" if each.taken else _shown(each.value)), shrinks=True),
    ]


def _until(wait: WaitSeen, now: datetime) -> str:
    """Return the deadline of a wait; one that is over need not tell that it had none."""
    if wait.until is not None:
        return dated(wait.until, now)
    return "for ever" if wait.how is None else ""


def _passed(wait: WaitSeen, now: datetime) -> str:
    """Return how a wait stands whose end was not written down: that of a sleep never is."""
    return "not yet" if wait.until is None or wait.until > now else "its time has come"


def _shown(value: ValueSeen) -> str:
    """Return a value in one line, or that it is not shown."""
    hidden = value.secret or value.beginning is not None
    return f"{MASK} {in_bytes(value.size)}" if hidden else one_line(value_words(value), _LONGEST)


def read_job(wanted: StoreOptions, job_id: str) -> JobSeen:
    """Return all that is known of the job with this id, or this end of it."""
    with wanted.admin() as admin:
        return admin.run(show_job, WhichJob(id=find_job(wanted, admin.backend, job_id).id))


# `standfast jobs show`: everything about one job, its history and the reason why it is where it is.

_HOW: Mapping[str, str] = MappingProxyType(
    {
        Move.COMPLETE: "completed",
        Move.RETRY: "failed",
        Move.SNOOZE: "put off",
        Move.RELEASE: "given back",
        Move.BLOCK: "task unknown",
        Move.DIE: "failed for good",
        Move.CANCEL: "cancelled",
        CHARGED_ALONE: "process died",
        SUSPECTED: "process died",
        DeathKind.VANISHED: "worker vanished",
    }
)
"""How a claim ended, for people; `--json` has the words of the store."""


@click.command(
    epilog=examples(
        "standfast jobs show 0197b1c2-7d1e-7c3a-9f60-5a4b3c2d1e0f",
        "standfast jobs show 3c2d1e0f --log",
        "standfast jobs show 3c2d1e0f --json",
    )
)
@click.argument("job_id", metavar="ID")
@click.option("--log", "all_logs", is_flag=True, help="What each claim logged, not only the last.")
@store_options
def show(wanted: StoreOptions, /, *, job_id: str, all_logs: bool) -> None:
    """Show everything about a job.

    ID is a job's id, or its last characters as the worker shows them.
    """
    seen = read_job(wanted, job_id)
    if wanted.as_json:
        say_json(seen)
    else:
        _tell(seen, all_logs=all_logs)


def _tell(seen: JobSeen, *, all_logs: bool) -> None:
    say(Text.assemble((one_line(seen.task), "bold"), "  ", coloured(seen.state), "  ", (seen.id, "dim")))
    say(seen.why.text)
    say("")
    say_fields(_fields(seen, seen.now))
    say_arguments(seen)
    if seen.result is not None:
        say_heading("Result")
        say_block(value_words(seen.result, indent=2), style="red" if seen.result.problem else "")
    say_memos(seen, seen.now)
    if seen.attempts:
        say_heading("History")
        folded = [each for each in seen.attempts if each.folded]
        shown = [each for each in seen.attempts if not each.folded or each is folded[-1]]
        say_table(shown, _attempt_columns(folded, seen.now), indent=2)
    _tell_traceback(seen.attempts)
    _tell_log(seen.attempts, everything=all_logs)


def _fields(job: JobSeen, now: datetime) -> dict[str, str | Text | None]:
    planned = f", planned for {dated(job.planned_at, now)}" if job.planned_at else ""
    return {
        "queue": f"{job.queue} (priority {job.priority})",
        "attempts": f"{job.attempt} of {job.max_attempts} charged, {counted(job.fence, 'claim')} so far",
        "crashes": counted(job.crashes, "crash", "crashes") if job.crashes else None,
        "suspect": _suspicion(job),
        "due": due(job, now),
        "waits for": str(job.waits_for) if job.waits_for else None,
        "start by": _start_by(job, now) if job.start_by else None,
        "enqueued": dated(job.created_at, now),
        "finished": dated(job.finished_at, now) if job.finished_at else None,
        "reason": None if is_suspended(job.reason) else job.reason,
        "after": f"job {job.after}, whose place it takes" if job.after else None,
        "key": job.key,
        "tags": ", ".join(job.tags) or None,
        "schedule": f"{job.schedule}{planned}" if job.schedule else None,
        "metadata": ", ".join(f"{name}={value}" for name, value in job.metadata.items()) or None,
        "edited from": job.edited_from,
        "cloned from": job.cloned_from,
        "worker": job.worker,
        "progress": progress_words(job.progress) if job.progress else None,
        "payload": f"version {job.version}, {counted(job.payload_size, 'byte')}",
        "result": f"kept until {dated(job.result_until, now)}" if job.result_until else None,
        "error": Text(one_line(job.error), style="red") if job.error else None,
        "trace": job.trace_id,
        "incidents": _incidents(job, now),
    }


def _suspicion(job: JobSeen) -> str | None:
    if not job.group or job.state in FINAL:
        return None
    others = counted(job.group - 1, "other suspect")
    return "alone in a process" if job.group == 1 else f"in a separate process, with at most {others}"


def _incidents(job: JobSeen, now: datetime) -> str | None:
    told = [f"{short_id(each.id)} {each.words} ({relative(each.last_at, now)})" for each in job.incident_rows]
    kept = f"{', '.join(told)}; `standfast incidents show ID` has the evidence" if told else ""
    were = "was" if len(job.forgotten_incidents) == 1 else "were"
    forgotten = ", ".join(job.forgotten_incidents)
    gone = f"{forgotten} {were} forgotten, with the evidence" if forgotten else ""
    return "; ".join(filter(None, (kept, gone))) or None


def _start_by(job: JobSeen, now: datetime) -> str:
    assert job.start_by is not None
    fate = "it expires if it comes later" if job.on_late is OnLate.EXPIRE else "later is reported, and it runs"
    return f"{dated(job.start_by, now)}; {fate}"


def _attempt_columns(folded: Sequence[AttemptSeen], now: datetime) -> list[Column[AttemptSeen]]:
    """Return the columns of a history, of which one row stands for all that is folded."""
    more = f"{sum(each.folded for each in folded):,} more"
    often = sorted(folded, key=lambda each: -each.folded)
    counts = ", ".join(f"{each.folded:,} {_ended(each)}" for each in often)
    return [
        Column("CLAIM", lambda each: "…" if each.folded else str(each.fence), justify="right"),
        Column("STARTED", lambda each: more if each.folded else _started(each, now)),
        Column("TOOK", lambda each: "" if each.folded else _took(each), justify="right"),
        Column("ENDED", lambda each: "" if each.folded else _ended(each)),
        Column("WORKER", lambda each: each.worker, from_width=100),
        Column("ERROR", lambda each: counts if each.folded else cut(each.error or "", "red"), shrinks=True),
    ]


def _started(attempt: AttemptSeen, now: datetime) -> str:
    if attempt.started_at is not None:
        return dated(attempt.started_at, now)
    return "time not known" if attempt.started else "not started"


def _ended(attempt: AttemptSeen) -> str:
    """Return how a claim ended, in words; one of a later release as it is stored."""
    return "not yet" if attempt.how is None else _HOW.get(attempt.how, attempt.how)


def _took(attempt: AttemptSeen) -> str:
    return "" if attempt.took is None else span(timedelta(seconds=attempt.took))


def _tell_traceback(attempts: Sequence[AttemptSeen]) -> None:
    last = next((each for each in reversed(attempts) if each.traceback), None)
    if last is not None and last.traceback:
        say_heading(f"Traceback of claim {last.fence}")
        say_block(last.traceback.text)


def _tell_log(attempts: Sequence[AttemptSeen], *, everything: bool) -> None:
    """Show what the last attempt that logged anything did log, or each of them; of the others how much there is."""
    logged = [each for each in attempts if each.log]
    for each in logged if everything else logged[-1:]:
        say_heading(f"Log of claim {each.fence}")
        say_block("" if each.log is None else each.log.text)
    if len(logged) > 1 and not everything:
        earlier = ", ".join(f"{each.fence} ({_lines(each)})" for each in logged[:-1])
        say_block(f"earlier claims logged too: {earlier}; --log shows it all", style="dim")


def _lines(attempt: AttemptSeen) -> str:
    return counted(len(attempt.log.text.splitlines()) if attempt.log else 0, "line")


# `standfast why`: why a job is where it is, in plain words.


@click.command(
    epilog=examples("standfast why 0197b1c2-7d1e-7c3a-9f60-5a4b3c2d1e0f", "standfast why 3c2d1e0f --json")
)
@click.argument("job_id", metavar="ID")
@store_options
def why(wanted: StoreOptions, job_id: str) -> None:
    """Say why a job is where it is, and what would move it.

    ID is a job's id, or its last characters as the worker shows them.
    """
    seen = read_job(wanted, job_id)
    answer(wanted, {"id": seen.id, "state": seen.state, **asdict(seen.why)}, seen.why.text)
