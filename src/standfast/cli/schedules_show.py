"""`standfast schedules show`: everything about one schedule."""

import shlex
from collections.abc import Mapping
from datetime import timedelta

import click
from rich.text import Text

from standfast.cli.connection import Wanted, about_a_store
from standfast.cli.jobview import say_arguments
from standfast.cli.options import examples
from standfast.cli.output import Column, coloured, say, say_fields, say_heading, say_json, say_table
from standfast.cli.scheduleview import (
    NOBODY_FIRES,
    STANDING_STYLES,
    Seen,
    clock_words,
    decision_words,
    retired_words,
    schedule_fields,
    see,
    zoned_words,
)
from standfast.cli.timetable import Timetable, open_timetable
from standfast.core.job import OnLate
from standfast.core.states import FINAL, State
from standfast.schedule.outlook import Standing
from standfast.schedule.plan import Run, Template
from standfast.schedule.rules import Misfire, Overlap, Rule
from standfast.words import dated, one_line, relative, short_id, span

_OVERLAPS = {
    Overlap.ALLOW: "runs may overlap",
    Overlap.SKIP: "a time is skipped while a run before it is not over",
    Overlap.QUEUE_ONE: "one time waits for the end of a run before it, more are skipped",
    Overlap.QUEUE_ALL: "times wait for the end of the runs before them",
    Overlap.CANCEL_RUNNING: "a run that is not over is cancelled for the next one",
}


@click.command(epilog=examples("standfast schedules show nightly", "standfast schedules show nightly --json"))
@click.argument("name")
@about_a_store
def show(wanted: Wanted, name: str) -> None:
    """Show everything about a schedule."""
    with open_timetable(wanted.settings) as timetable:
        seen = see(timetable, timetable.call(timetable.schedules.get(name)))
        jobs = [run.job_id for run in seen.schedule.plan.runs]
        glances = timetable.call(timetable.backend.verbs.glance(jobs)) if jobs else {}
        standing = "" if wanted.as_json else _how_it_stands(timetable, seen)
    states = {job_id: glance.state for job_id, glance in glances.items() if glance.state not in FINAL}
    if wanted.as_json:
        runs = [{"job": run.job_id, "planned": run.planned, "state": state} for run, state in _runs(seen, states)]
        say_json({**schedule_fields(seen), "runs": runs})
    else:
        _tell(seen, states, standing)


def _runs(seen: Seen, states: Mapping[str, State]) -> list[tuple[Run, State]]:
    """Return the jobs of the schedule that are not over."""
    return [(run, states[run.job_id]) for run in seen.schedule.plan.runs if run.job_id in states]


def _tell(seen: Seen, states: Mapping[str, State], standing: str) -> None:
    plan = seen.schedule.plan
    say(Text.assemble((one_line(seen.name), "bold"), "  ", (seen.standing, STANDING_STYLES[seen.standing])))
    say(f"{seen.words[:1].upper()}{seen.words[1:]}. {standing}".rstrip())
    say("")
    say_fields(_fields(seen))
    say_arguments(plan.job.payload)
    if runs := _runs(seen, states):
        say_heading("Jobs that are not over")
        say_table(runs, _run_columns(seen), indent=2)
    if plan.waiting:
        say_heading("Waiting for the end of a run")
        say_fields({str(number): zoned_words(time, seen.zone) for number, time in enumerate(plan.waiting, 1)})


def _how_it_stands(timetable: Timetable, seen: Seen) -> str:
    """Return why it does not fire, if it does not, and what would let it."""
    plan = seen.schedule.plan
    if plan.retired_at is not None:
        return f"Retired since {dated(plan.retired_at, seen.now)}: {retired_words(timetable, plan)}"
    if plan.paused_at is not None:
        why = f": {one_line(plan.paused_why)}" if plan.paused_why else ""
        resume = f"`standfast schedules resume {shlex.quote(one_line(seen.name))}` lets it go on."
        return f"Paused since {dated(plan.paused_at, seen.now)}{why}. {resume}"
    if seen.standing is Standing.DONE:
        return "No time is left."
    return NOBODY_FIRES if timetable.nobody_fires() else ""


def _fields(seen: Seen) -> dict[str, str | Text | None]:
    plan = seen.schedule.plan
    job, rule = plan.job, plan.rule
    return {
        "next": None if seen.next is None else _when(seen),
        "last": None if seen.last is None else _what_became(seen),
        "task": job.task,
        "queue": f"{job.queue} (priority {job.priority})",
        "attempts": f"{job.max_attempts} at most",
        "start": None if job.start_within is None else _start_within(job),
        "missed": _misfire(rule),
        "overlap": f"{rule.overlap}: {_OVERLAPS[rule.overlap]}",
        "failure": "a job that ends dead pauses it" if rule.pause_on_failure else None,
        "tags": ", ".join(job.tags) or None,
        "metadata": ", ".join(f"{name}={value}" for name, value in job.metadata.items()) or None,
        "declared": None if plan.origin is None else f"by {plan.origin.app}, release {plan.origin.release}",
        "made": dated(plan.created_at, seen.now) + ("" if plan.origin else ", at run time"),
    }


def _when(seen: Seen) -> str:
    assert seen.next is not None
    planned, run_at = seen.next.planned, seen.next.run_at
    told = f"{zoned_words(planned, seen.zone)} ({relative(planned, seen.now)})"
    return told if run_at == planned else f"{told}; its job starts {span(run_at - planned)} later"


def _what_became(seen: Seen) -> Text:
    assert seen.last is not None
    last = seen.last
    told = Text(f"{zoned_words(last.planned, seen.zone)} ({relative(last.planned, seen.now)}): ")
    told.append(decision_words(last))
    if last.job_id is not None:
        told.append(f", job {last.job_id}")
    return told.append(f", {last.note}") if last.note else told


def _start_within(job: Template) -> str:
    assert job.start_within is not None
    fate = "later its jobs expire" if job.on_late is OnLate.EXPIRE else "later is reported"
    return f"within {span(job.start_within)} of its time; {fate}"


def _misfire(rule: Rule) -> str:
    late = f"a time counts as missed {span(timedelta(seconds=rule.misfire_after))} after it"
    match rule.misfire:
        case Misfire.SKIP:
            fate = "missed times are let go"
        case Misfire.ONCE:
            fate = "of missed times the last is made up for"
        case Misfire.ALL:
            within = (
                ""
                if rule.catch_up_window is None
                else f" of the last {span(timedelta(seconds=rule.catch_up_window))}"
            )
            fate = f"missed times{within} are made up for, {rule.catch_up_limit:,} at most"
    return f"{rule.misfire}: {fate}; {late}"


def _run_columns(seen: Seen) -> list[Column[tuple[Run, State]]]:
    return [
        Column("JOB", lambda each: each[0].job_id, short=lambda each: short_id(each[0].job_id)),
        Column("PLANNED", lambda each: clock_words(each[0].planned, seen.zone)),
        Column("STATE", lambda each: coloured(each[1])),
    ]
