"""`standfast jobs show`: everything about one job, its history and the reason why it is where it is."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from types import MappingProxyType
from typing import Any

import click
from rich.text import Text

from standfast.cli.connection import Wanted, about_a_store
from standfast.cli.jobview import due, indented, progress_words, say_arguments
from standfast.cli.options import examples
from standfast.cli.output import Column, coloured, cut, say, say_block, say_fields, say_heading, say_json, say_table
from standfast.cli.story import read_story
from standfast.cli.writtenview import say_written, written_fields
from standfast.core.crash import CHARGED_ALONE, SUSPECTED, DeathKind, had_started
from standfast.core.job import Attempt, Job, OnLate
from standfast.core.memo import is_suspended
from standfast.core.provenance import planned_of, schedule_of, without_provenance
from standfast.core.states import FINAL, Move
from standfast.incidents.health import trouble_words
from standfast.views.story import Story
from standfast.watch.jobfields import attempt_fields, job_fields, waits_for
from standfast.words import counted, dated, one_line, relative, short_id, span

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
@about_a_store
def show(wanted: Wanted, /, *, job_id: str, all_logs: bool) -> None:
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
        say_json({**job_fields(story.job), **written_fields(story.written), **more, "why": story.why.text})
    else:
        _tell(story, all_logs=all_logs)


def _tell(story: Story, *, all_logs: bool) -> None:
    job, now = story.job, story.situation.now
    fields = job_fields(job)
    say(Text.assemble((one_line(job.task), "bold"), "  ", coloured(job.state), "  ", (job.id, "dim")))
    say(story.why.text)
    say("")
    say_fields({**_fields(job, now), "trace": fields["trace_id"], "incidents": _incidents(story, now)})
    say_arguments(job.payload)
    _tell_result(fields)
    say_written(story.written, now)
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


def _incidents(story: Story, now: datetime) -> str | None:
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
