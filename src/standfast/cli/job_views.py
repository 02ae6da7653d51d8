"""What several commands show of a job."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from types import MappingProxyType
from typing import Any

import click
import msgspec
from msgspec.structs import replace
from rich.text import Text

from standfast.admin.job_details import (
    JobDetails,
    attempt_fields,
    decoded_args,
    incidents_by_job,
    job_fields,
    read_job_details,
    waits_for,
)
from standfast.cli.connection import StoreOptions, examples, store_options
from standfast.cli.lookup import find_job, read_incidents
from standfast.cli.output import Column, coloured, cut, say, say_block, say_fields, say_heading, say_json, say_table
from standfast.durable.files import StoredFile
from standfast.durable.memo_view import CursorView, MemoValue, MemoView, SignalView, StepView, WaitView
from standfast.model.clock import SystemClock
from standfast.model.crash import CHARGED_ALONE, SUSPECTED, DeathKind, had_started
from standfast.model.display import counted, dated, in_bytes, one_line, relative, short_id, span, with_note
from standfast.model.job import Attempt, Job, OnLate, Progress, planned_of, schedule_of, without_provenance
from standfast.model.memos import is_for_ever, is_suspended
from standfast.model.secrets import MASK
from standfast.model.states import FINAL, Move, State
from standfast.observe.incidents import trouble_words
from standfast.stores.backend import Backend
from standfast.stores.values import JobFilter
from standfast.stores.verb import run_procedure

_WIDE = 120


def say_arguments(payload: bytes) -> None:
    """Print the arguments of a payload; of a secret one, its name."""
    fields = decoded_args(payload)
    say_heading("Arguments")
    if "payload_error" in fields:
        say_block(fields["payload_error"], style="red")
    elif fields["args"]:
        say_fields({one_line(name): _text(value) for name, value in fields["args"].items()})
    else:
        say_block("none", style="dim")


def _text(encoded: msgspec.Raw) -> str:
    return bytes(encoded).decode(errors="replace")


def indented(value: msgspec.Raw) -> str:
    """Return a decoded value as JSON for people."""
    return msgspec.json.format(msgspec.json.encode(value), indent=2).decode(errors="replace")


def progress_words(progress: Progress) -> str:
    """Return how far a job is and what it is doing: `3 of 10 (30%): the shoes`."""
    words = f"{progress.done:,g} done"
    if progress.total:
        words = f"{progress.done:,g} of {progress.total:,g} ({progress.done / progress.total:.0%})"
    return with_note(words, progress.note)


def job_columns(
    now: datetime,
    *,
    dead: bool = False,
    progress: bool = False,
    waiting: bool = False,
    incidents: Mapping[str, Sequence[str]] = MappingProxyType({}),
) -> list[Column[Job]]:
    """Return the columns of a list of jobs; among the dead the error matters more than the state."""
    involved: Column[Job] = Column("INCIDENT", lambda job: _latest(incidents.get(job.id, ())), vital=1)
    waits: Column[Job] = Column("WAITS FOR", lambda job: cut(str(waits_for(job) or "")), shrinks=True)
    far: Column[Job] = Column("PROGRESS", lambda job: cut(_progress(job)), shrinks=True)
    states: list[Column[Job]] = [
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
        *([involved] if incidents else []),
    ]


def _latest(incidents: Sequence[str]) -> str:
    more = f" +{len(incidents) - 1}" if len(incidents) > 1 else ""
    return f"{short_id(incidents[0])}{more}" if incidents else ""


def _progress(job: Job) -> str:
    return "" if job.progress is None else progress_words(job.progress)


def _state_and_wish(job: Job) -> Text:
    text = coloured(job.state)
    if job.cancel_requested and job.state not in FINAL:
        text.append(" (cancelling)", style="yellow")
    return text


def due(job: Job, now: datetime, told: Callable[[datetime, datetime], str] = dated) -> str:
    """Return when a job is due, as it is `told`; a signal that is waited for without an end has no time."""
    open_end = waits_for(job) is not None and is_for_ever(job.run_at, now)
    return "when it comes" if open_end else told(job.run_at, now)


def _when(job: Job, now: datetime, told: Callable[[datetime, datetime], str]) -> str:
    """Return the time that matters in the job's state: its end, or else when it is due."""
    return told(job.finished_at, now) if job.finished_at else due(job, now, told)


# One page of jobs, as `jobs list` and `dead list` print it.


def say_jobs(wanted: StoreOptions, which: JobFilter, nothing: str, below: str | None = None) -> None:
    """Print the jobs that are selected, with ids below this one, and how to see the next page; or `nothing`."""
    with wanted.store() as backend:
        if which.before is not None:
            which = replace(which, before=find_job(wanted, backend, which.before).id)
        if below is not None:
            which = replace(which, before=min(below, which.before or below))
        found = backend.run(backend.verbs.list_jobs(which)).jobs
        dead = which.states == (State.DEAD,)
        incidents = _ids_by_job(backend, found) if dead and found else {}
    if wanted.as_json:
        more = [{"incidents": incidents.get(job.id, ())} if dead else {} for job in found]
        say_json([{**job_fields(job), **each} for job, each in zip(found, more, strict=True)])
    elif not found:
        say(nothing)
    else:
        progress = any(job.progress is not None and job.state is State.RUNNING for job in found)
        waiting = any(waits_for(job) for job in found)
        columns = job_columns(
            SystemClock().now(), dead=dead, progress=progress, waiting=waiting, incidents=incidents
        )
        say_table(found, columns)
        if len(found) == which.limit:
            say(f"\nThe newest {counted(len(found), 'job')}; for older ones add --before {found[-1].id}")


def _ids_by_job(backend: Backend, jobs: Iterable[Job]) -> Mapping[str, Sequence[str]]:
    found = incidents_by_job({job.id: [job.error] for job in jobs}, read_incidents(backend))
    return {job_id: [each.id for each in incidents] for job_id, incidents in found.items() if incidents}


# What a job has written down and was sent, as `jobs show` prints it: cursors, steps, waits, signals, files.

_LONGEST = 100
"""Characters of a value in a table."""


def memo_fields(written: MemoView) -> dict[str, Any]:
    """Return it, ready for JSON."""
    return {
        "cursors": [
            {"name": each.name or None, "version": each.version, "done": each.done, **_value(each.told)}
            for each in written.cursors
        ],
        "steps": [{"name": each.name, "version": each.version, **_value(each.told)} for each in written.steps],
        "waits": [
            {
                "name": each.name,
                "number": each.number,
                "until": each.until,
                "how": each.how,
                **_value(each.told),
            }
            for each in written.waits
        ],
        "signals": [
            {"name": each.name, "sent_at": each.sent_at, "taken": each.taken, **_value(each.told)}
            for each in written.signals
        ],
        "files": [file_fields(each) for each in written.files],
    }


def file_fields(kept: StoredFile) -> dict[str, Any]:
    """Return a file, ready for JSON."""
    return {name: getattr(kept, name) for name in ("name", "size", "sha256", "saved_at", "place")}


def say_memos(written: MemoView, now: datetime) -> None:
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


def file_columns(now: datetime) -> list[Column[StoredFile]]:
    """Return the columns of a list of files."""
    return [
        Column("NAME", lambda each: cut(each.name), shrinks=True),
        Column("SIZE", lambda each: in_bytes(each.size), justify="right"),
        Column("SAVED", lambda each: dated(each.saved_at, now)),
        Column("SHA-256", lambda each: each.sha256, short=lambda each: each.sha256[:12]),
    ]


def _cursor_columns() -> list[Column[CursorView]]:
    return [
        Column("LOOP", lambda each: cut(each.name or "ctx.cursor"), shrinks=True),
        Column("DONE", lambda each: f"{each.done:,}" if each.name else "", justify="right"),
        Column("VERSION", lambda each: str(each.version), justify="right"),
        Column("AT", lambda each: cut(_shown(each.told)), shrinks=True),
    ]


def _step_columns() -> list[Column[StepView]]:
    return [
        Column("STEP", lambda each: cut(each.name), shrinks=True),
        Column("VERSION", lambda each: str(each.version), justify="right"),
        Column("SIZE", lambda each: in_bytes(each.told.size), justify="right"),
        Column("RESULT", lambda each: cut(_shown(each.told)), shrinks=True),
    ]


def _wait_columns(now: datetime) -> list[Column[WaitView]]:
    return [
        Column("WAITS FOR", lambda each: cut(each.name), shrinks=True),
        Column("NUMBER", lambda each: str(each.number), justify="right"),
        Column("UNTIL", lambda each: _until(each, now)),
        Column("ENDED", lambda each: each.how or _passed(each, now)),
        Column("DATA", lambda each: cut(_shown(each.told) if each.how else ""), shrinks=True),
    ]


def _signal_columns(now: datetime) -> list[Column[SignalView]]:
    return [
        Column("SIGNAL", lambda each: cut(each.name), shrinks=True),
        Column("SENT", lambda each: "" if each.sent_at is None else dated(each.sent_at, now)),
        Column("TAKEN", lambda each: "yes" if each.taken else "not yet"),
        Column("DATA", lambda each: cut("" if each.taken else _shown(each.told)), shrinks=True),
    ]


def _until(wait: WaitView, now: datetime) -> str:
    """Return the deadline of a wait; one that is over need not tell that it had none."""
    if wait.until is not None:
        return dated(wait.until, now)
    return "for ever" if wait.how is None else ""


def _passed(wait: WaitView, now: datetime) -> str:
    """Return how a wait stands whose end was not written down: that of a sleep never is."""
    return "not yet" if wait.until is None or wait.until > now else "its time has come"


def _value(told: MemoValue) -> dict[str, Any]:
    return {"size": told.size, "value": told.value}


def _shown(told: MemoValue) -> str:
    """Return a value in one line, or that it is not shown."""
    if told.value is None:
        return f"{MASK} {in_bytes(told.size)}"
    return one_line(msgspec.json.format(bytes(told.value), indent=-1).decode(errors="replace"), _LONGEST)


# All that a store knows of one job, found by its id or by the end of it.


def read_story(wanted: StoreOptions, job_id: str) -> JobDetails:
    """Return all that the store knows of a job."""
    with wanted.store() as backend:
        job = find_job(wanted, backend, job_id)
        return run_procedure(backend.run, read_job_details(backend.verbs, job.id))


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
    story = read_story(wanted, job_id)
    if wanted.as_json:
        more = {
            "attempts": attempt_fields(story.attempts),
            "incidents": [each.id for each in story.incidents],
            "forgotten_incidents": story.forgotten,
        }
        say_json({**job_fields(story.job), **memo_fields(story.written), **more, "why": story.why.text})
    else:
        _tell(story, all_logs=all_logs)


def _tell(story: JobDetails, *, all_logs: bool) -> None:
    job, now = story.job, story.situation.now
    fields = job_fields(job)
    say(Text.assemble((one_line(job.task), "bold"), "  ", coloured(job.state), "  ", (job.id, "dim")))
    say(story.why.text)
    say("")
    say_fields({**_fields(job, now), "trace": fields["trace_id"], "incidents": _incidents(story, now)})
    say_arguments(job.payload)
    _tell_result(fields)
    say_memos(story.written, now)
    if story.attempts:
        say_heading("History")
        folded = [each for each in story.attempts if each.folded]
        shown = [each for each in story.attempts if not each.folded or each is folded[-1]]
        say_table(shown, _attempt_columns(folded, now), indent=2)
    _tell_traceback(story.attempts)
    _tell_log(story.attempts, everything=all_logs)


def _suspicion(job: Job) -> str | None:
    if not job.group or job.state in FINAL:
        return None
    others = counted(job.group - 1, "other suspect")
    return "alone in a process" if job.group == 1 else f"in a separate process, with at most {others}"


def _fields(job: Job, now: datetime) -> dict[str, str | Text | None]:
    return {
        "queue": f"{job.queue} (priority {job.priority})",
        "attempts": f"{job.attempt} of {job.max_attempts} charged, {counted(job.fence, 'claim')} so far",
        "crashes": counted(job.crashes, "crash", "crashes") if job.crashes else None,
        "suspect": _suspicion(job),
        "due": due(job, now),
        "waits for": None if (waits := waits_for(job)) is None else str(waits),
        "start by": _start_by(job, now) if job.start_by else None,
        "enqueued": dated(job.created_at, now),
        "finished": dated(job.finished_at, now) if job.finished_at else None,
        "reason": None if is_suspended(job.reason) else job.reason,
        "after": f"job {job.after}, whose place it takes" if job.after else None,
        "key": job.key,
        "tags": ", ".join(job.tags) or None,
        "schedule": _schedule(job, now),
        "metadata": _metadata(job),
        "worker": job.worker,
        "progress": progress_words(job.progress) if job.progress else None,
        "payload": f"version {job.version}, {counted(len(job.payload), 'byte')}",
        "result": f"kept until {dated(job.result_until, now)}" if job.result_until else None,
        "error": Text(one_line(job.error), style="red") if job.error else None,
    }


def _incidents(story: JobDetails, now: datetime) -> str | None:
    told = [
        f"{short_id(each.id)} {trouble_words(each.trouble)} ({relative(each.last_at, now)})"
        for each in story.incidents
    ]
    kept = f"{', '.join(told)}; `standfast incidents show ID` has the evidence" if told else ""
    were = "was" if len(story.forgotten) == 1 else "were"
    gone = f"{', '.join(story.forgotten)} {were} forgotten, with the evidence" if story.forgotten else ""
    return "; ".join(filter(None, (kept, gone))) or None


def _metadata(job: Job) -> str | None:
    return ", ".join(f"{name}={value}" for name, value in without_provenance(job.metadata).items()) or None


def _schedule(job: Job, now: datetime) -> str | None:
    schedule, planned = schedule_of(job.metadata), planned_of(job.metadata)
    return schedule if schedule is None or planned is None else f"{schedule}, planned for {dated(planned, now)}"


def _start_by(job: Job, now: datetime) -> str:
    assert job.start_by is not None
    fate = "it expires if it comes later" if job.on_late is OnLate.EXPIRE else "later is reported, and it runs"
    return f"{dated(job.start_by, now)}; {fate}"


def _tell_result(fields: Mapping[str, Any]) -> None:
    if "result_error" in fields:
        say_heading("Result")
        say_block(fields["result_error"], style="red")
    elif fields["result"] is not None:
        say_heading("Result")
        say_block(indented(fields["result"]))


def _attempt_columns(folded: Sequence[Attempt], now: datetime) -> list[Column[Attempt]]:
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


def _started(attempt: Attempt, now: datetime) -> str:
    if attempt.started_at is not None:
        return dated(attempt.started_at, now)
    return "time not known" if had_started(attempt) else "not started"


def _ended(attempt: Attempt) -> str:
    """Return how a claim ended, in words; one of a later release as it is stored."""
    return "not yet" if attempt.how is None else _HOW.get(attempt.how, attempt.how)


def _took(attempt: Attempt) -> str:
    if attempt.started_at is None or attempt.ended_at is None:
        return ""
    return span(attempt.ended_at - attempt.started_at)


def _tell_traceback(attempts: Sequence[Attempt]) -> None:
    last = next((each for each in reversed(attempts) if each.traceback), None)
    if last is not None and last.traceback:
        say_heading(f"Traceback of claim {last.fence}")
        say_block(last.traceback)


def _tell_log(attempts: Sequence[Attempt], *, everything: bool) -> None:
    """Show what the last attempt that logged anything did log, or each of them; of the others how much there is."""
    logged = [each for each in attempts if each.log]
    for each in logged if everything else logged[-1:]:
        say_heading(f"Log of claim {each.fence}")
        say_block(each.log or "")
    if len(logged) > 1 and not everything:
        earlier = ", ".join(f"{each.fence} ({_lines(each)})" for each in logged[:-1])
        say_block(f"earlier claims logged too: {earlier}; --log shows it all", style="dim")


def _lines(attempt: Attempt) -> str:
    return counted(len((attempt.log or "").splitlines()), "line")


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
    story = read_story(wanted, job_id)
    job, told = story.job, story.why
    if wanted.as_json:
        remedy = None if told.remedy is None else str(told.remedy)
        say_json({"id": job.id, "state": job.state, "cause": told.cause, "why": told.text, "remedy": remedy})
    else:
        say(told.text)
