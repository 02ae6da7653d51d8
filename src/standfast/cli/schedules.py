"""`standfast schedules show`: everything about one schedule."""

import shlex
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta, tzinfo
from typing import Any

import click
from rich.text import Text

from standfast.cli.connection import (
    ListGroup,
    StoreOptions,
    app_dir_option,
    check_target,
    examples,
    find_target,
    store_options,
    tz_option,
    yes_option,
)
from standfast.cli.inputs import confirm, read_moment
from standfast.cli.job_views import say_arguments
from standfast.cli.output import (
    Column,
    bulk_progress,
    coloured,
    cut,
    say,
    say_fields,
    say_heading,
    say_json,
    say_table,
)
from standfast.cli.schedule_rules import create, edit
from standfast.cli.timetable import (
    NOBODY_FIRES,
    STANDING_STYLES,
    ScheduleView,
    Timetable,
    clock_words,
    decision_words,
    fires,
    next_command,
    open_timetable,
    retired_words,
    say_next,
    schedule_fields,
    short_clock_words,
    view_schedule,
    zoned_words,
)
from standfast.model.display import counted, dated, one_line, relative, short_id, span
from standfast.model.job import OnLate
from standfast.model.states import FINAL, State
from standfast.model.validation import read_span
from standfast.schedules.declarations import Declarer, Synchronised, release_of, synchronise
from standfast.schedules.description import describe
from standfast.schedules.rules import Misfire, Overlap, Rule
from standfast.schedules.schedule import Run, Schedule, ScheduleStatus, Template, zone_of
from standfast.schedules.zones import find_zone

_OVERLAPS = {
    Overlap.ALLOW: "runs may overlap",
    Overlap.SKIP: "a time is skipped while a run before it is not over",
    Overlap.QUEUE_ONE: "one time waits for the end of a run before it, more are skipped",
    Overlap.QUEUE_ALL: "times wait for the end of the runs before them",
    Overlap.CANCEL_RUNNING: "a run that is not over is cancelled for the next one",
}


@click.command(epilog=examples("standfast schedules show nightly", "standfast schedules show nightly --json"))
@click.argument("name")
@store_options
def show(wanted: StoreOptions, name: str) -> None:
    """Show everything about a schedule."""
    with open_timetable(wanted.settings) as timetable:
        seen = view_schedule(timetable, timetable.call(timetable.schedules.get(name)))
        jobs = [run.job_id for run in seen.schedule.plan.runs]
        glances = timetable.call(timetable.backend.verbs.glance(jobs)) if jobs else {}
        standing = "" if wanted.as_json else _how_it_stands(timetable, seen)
    states = {job_id: glance.state for job_id, glance in glances.items() if glance.state not in FINAL}
    if wanted.as_json:
        runs = [{"job": run.job_id, "planned": run.planned, "state": state} for run, state in _runs(seen, states)]
        say_json({**schedule_fields(seen), "runs": runs})
    else:
        _tell(seen, states, standing)


def _runs(seen: ScheduleView, states: Mapping[str, State]) -> list[tuple[Run, State]]:
    """Return the jobs of the schedule that are not over."""
    return [(run, states[run.job_id]) for run in seen.schedule.plan.runs if run.job_id in states]


def _tell(seen: ScheduleView, states: Mapping[str, State], standing: str) -> None:
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


def _how_it_stands(timetable: Timetable, seen: ScheduleView) -> str:
    """Return why it does not fire, if it does not, and what would let it."""
    plan = seen.schedule.plan
    if plan.retired_at is not None:
        return f"Retired since {dated(plan.retired_at, seen.now)}: {retired_words(timetable, plan)}"
    if plan.paused_at is not None:
        why = f": {one_line(plan.paused_why)}" if plan.paused_why else ""
        resume = f"`standfast schedules resume {shlex.quote(one_line(seen.name))}` lets it go on."
        return f"Paused since {dated(plan.paused_at, seen.now)}{why}. {resume}"
    if seen.standing is ScheduleStatus.DONE:
        return "No time is left."
    return NOBODY_FIRES if timetable.nobody_fires() else ""


def _fields(seen: ScheduleView) -> dict[str, str | Text | None]:
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


def _when(seen: ScheduleView) -> str:
    assert seen.next is not None
    planned, run_at = seen.next.planned, seen.next.run_at
    told = f"{zoned_words(planned, seen.zone)} ({relative(planned, seen.now)})"
    return told if run_at == planned else f"{told}; its job starts {span(run_at - planned)} later"


def _what_became(seen: ScheduleView) -> Text:
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


def _run_columns(seen: ScheduleView) -> list[Column[tuple[Run, State]]]:
    return [
        Column("JOB", lambda each: each[0].job_id, short=lambda each: short_id(each[0].job_id)),
        Column("PLANNED", lambda each: clock_words(each[0].planned, seen.zone)),
        Column("STATE", lambda each: coloured(each[1])),
    ]


# `standfast schedules pause`, `resume`, `trigger` and `delete`.


@click.command(
    epilog=examples(
        "standfast schedules pause nightly", "standfast schedules pause nightly --why 'the disk is full'"
    )
)
@click.argument("name")
@click.option("--why", metavar="TEXT", help="The reason, for those who look at it later.")
@store_options
def pause(wanted: StoreOptions, name: str, why: str | None) -> None:
    """Let a schedule fire no more until it is resumed.

    Jobs that it has fired ahead of their time are cancelled; those that run go on.
    """
    with open_timetable(wanted.settings) as timetable:
        before = timetable.call(timetable.schedules.get(name)).plan
        plan = timetable.call(timetable.schedules.pause(name, why)).plan
    if wanted.as_json:
        say_json({"schedule": name, "paused_at": plan.paused_at, "why": plan.paused_why})
        return
    if before.paused_at is not None:
        told = f": {one_line(before.paused_why)}" if before.paused_why else ""
        say(f"Schedule '{one_line(name)}' is paused already, since {dated(before.paused_at, timetable.now)}{told}.")
        return
    undo = f"standfast schedules resume {shlex.quote(one_line(name))}"
    say(f"Schedule '{one_line(name)}' is paused; jobs that run go on. `{undo}` undoes it.")


@click.command(epilog=examples("standfast schedules resume nightly"))
@click.argument("name")
@store_options
def resume(wanted: StoreOptions, name: str) -> None:
    """Let a paused schedule fire again, from now on.

    What was planned meanwhile is not made up for; `standfast schedules backfill` does that.
    """
    with open_timetable(wanted.settings) as timetable:
        was_paused = timetable.call(timetable.schedules.get(name)).plan.paused_at is not None
        seen = view_schedule(timetable, timetable.call(timetable.schedules.resume(name)))
        idle = timetable.nobody_fires()
    if wanted.as_json:
        say_json(
            {"schedule": name, "state": seen.standing, "next": None if seen.next is None else seen.next.planned}
        )
        return
    say(f"Schedule '{one_line(name)}' {'goes on' if was_paused else 'is not paused'}.")
    say_next(seen, idle=idle)


@click.command(epilog=examples("standfast schedules trigger nightly", "standfast schedules trigger nightly --json"))
@click.argument("name")
@store_options
def trigger(wanted: StoreOptions, name: str) -> None:
    """Fire a schedule once, now, and print the id of the job.

    It does so whatever its rule says, and if it is paused too; its own times stay as they are.
    """
    with open_timetable(wanted.settings) as timetable:
        job_id = timetable.call(timetable.schedules.trigger(name))
    if wanted.as_json:
        say_json({"schedule": name, "job": job_id})
    else:
        say(f"{job_id}  enqueued")


@click.command(epilog=examples("standfast schedules delete nightly", "standfast schedules delete nightly --yes"))
@click.argument("name")
@yes_option
@store_options
def delete(wanted: StoreOptions, name: str, *, yes: bool) -> None:
    """Forget a schedule and what became of its times.

    Jobs that it has fired ahead of their time are cancelled. One that code declares comes back when a worker of its
    app starts: take it out of the code, or pause it.
    """
    with open_timetable(wanted.settings) as timetable:
        plan = timetable.call(timetable.schedules.get(name)).plan
        back = plan.origin is not None and plan.retired_at is None
        if not yes:
            declared = f", which {plan.origin.app} declares" if back and plan.origin else ""
            confirm(f"Delete schedule '{one_line(name)}'{declared}, and its history?")
        timetable.call(timetable.schedules.delete(name))
    if wanted.as_json:
        say_json({"schedule": name, "deleted": True, "comes_back": back})
        return
    say(f"Schedule '{one_line(name)}' is deleted.")
    if back and plan.origin:
        say(f"{plan.origin.app} declares it in code: it comes back when a worker of that app starts.")


# `standfast schedules backfill`: jobs for the planned times of a past range.


@click.command(
    epilog=examples(
        "standfast schedules backfill nightly --since 2026-03-01 --until 2026-03-08 --tz Asia/Taipei",
        "standfast schedules backfill nightly --since 6h",
        "standfast schedules backfill nightly --since 2026-03-01T00:00Z --until 2026-03-02T00:00Z --again --yes",
    )
)
@click.argument("name")
@click.option("--since", required=True, metavar="TIME", help="The first moment of the range; 6h is six hours ago.")
@click.option("--until", default="now", metavar="TIME", help="The last moment of the range.")
@tz_option
@click.option("--again", is_flag=True, help="For times that were fired, too.")
@yes_option
@store_options
def backfill(
    wanted: StoreOptions, /, *, name: str, since: str, until: str, tz: str | None, again: bool, yes: bool
) -> None:
    """Enqueue jobs for the times of a past range.

    That is one for each planned time that was not fired. It says how many there are, and asks, before it does
    anything. The jobs run as soon as there is room; `ctx.planned_at` tells each of them its time. A TIME without a
    zone is read by the clock of --tz.
    """
    zone = None if tz is None else find_zone(tz)
    with open_timetable(wanted.settings) as timetable:
        first = _moment("--since", since, zone, timetable.now)
        last = _moment("--until", until, zone, timetable.now)
        schedule = timetable.call(timetable.schedules.get(name))
        times = timetable.call(timetable.schedules.backfill_times(name, first, last, again=again))
        if times and not yes:
            confirm(f"{_how_many(schedule, times)}: enqueue a job for each?")
        done = _fill(timetable, name, (first, last), again=again, total=len(times)) if times else 0
    if wanted.as_json:
        say_json({"schedule": name, "since": first, "until": last, "enqueued": done})
        return
    say(f"{counted(done, 'job')} {'was' if done == 1 else 'were'} enqueued." if done else _NOTHING[again])
    if _leaves_some(schedule, last):
        after = zoned_words(schedule.plan.cursor, zone_of(schedule.plan.rule))
        say(f"Times after {after} are left to the workers, which have not decided about them yet.")


_NOTHING = {
    False: "Nothing is to be backfilled: each planned time of the range was fired, or is excluded.",
    True: "Nothing is to be backfilled: the range has no planned times, or they are excluded.",
}


def _leaves_some(schedule: Schedule, last: datetime) -> bool:
    """Tell whether planned times of the range are not decided yet, and so left to the schedule itself."""
    plan = schedule.plan
    undecided = next(iter(plan.rule.times_after(plan.cursor, schedule.ground)), None)
    return plan.active and undecided is not None and undecided <= last


def _moment(option: str, text: str, zone: tzinfo | None, now: datetime) -> datetime:
    """Return the moment that is meant: `6h` is so long ago."""
    if text == "now":
        return now
    if text.isdigit():  # a date without its dashes
        return read_moment(option, text, zone)
    try:
        return now - read_span(text)
    except (ValueError, OverflowError):
        return read_moment(option, text, zone, ", or 6h for so long ago")


def _how_many(schedule: Schedule, times: Sequence[datetime]) -> str:
    zone, name = zone_of(schedule.plan.rule), one_line(schedule.name)
    first = zoned_words(times[0], zone)
    if len(times) == 1:
        return f"1 planned time of '{name}', {first}"
    return f"{len(times):,} planned times of '{name}', from {first} to {zoned_words(times[-1], zone)}"


def _fill(timetable: Timetable, name: str, between: tuple[datetime, datetime], *, again: bool, total: int) -> int:
    shown = 0
    with bulk_progress(total) as step:

        def progress(done: int, _total: int) -> None:
            nonlocal shown
            for _ in range(shown, done):
                step(1)
            shown = max(shown, done)

        return timetable.call(timetable.schedules.backfill(name, *between, again=again, progress=progress))


# `standfast schedules sync`: bring what an app declares into the store now, as its workers do when they start.


@click.command(
    epilog=examples(
        "standfast schedules sync myproject.jobs:app", "standfast schedules sync myproject.jobs:app --json"
    )
)
@click.argument("target", metavar="MODULE:APP", callback=check_target)
@app_dir_option
@store_options
def sync(wanted: StoreOptions, *, target: str, app_dir: str) -> None:
    """Bring the schedules that an app declares into the store now.

    Its workers do so when they start; but while workers of a newer release run, an older one changes nothing. This
    command does: after a rollback it says that the older release counts.
    """
    meant = find_target(wanted, target, app_dir)
    assert meant.app is not None
    settings, declared, windows = meant.loaded.settings, meant.app.declarations, meant.app.windows
    who = Declarer(
        settings.name or target,
        settings.release or release_of(declared, windows),
        worker="",
        ahead=timedelta(seconds=settings.look_ahead),
        insists=True,
    )
    with open_timetable(settings) as timetable:
        done = timetable.call(synchronise(timetable.backend.verbs, who, declared, windows))
    if wanted.as_json:
        say_json(_sync_fields(who, done))
    else:
        _tell_sync(who, done, len(declared))


def _sync_fields(who: Declarer, done: Synchronised) -> dict[str, Any]:
    changes = {"added": done.added, "changed": done.changed, "retired": done.retired}
    names = {what: [schedule.name for schedule in schedules] for what, schedules in changes.items()}
    windows = [{"about": each.about, "name": each.name, "what": each.what} for each in done.windows]
    return {"app": who.app, "release": who.release, **names, "foreign": done.foreign, "windows": windows}


def _tell_sync(who: Declarer, done: Synchronised, declared: int) -> None:
    for what, schedules in (("added", done.added), ("changed", done.changed), ("retired", done.retired)):
        for schedule in schedules:
            say(f"{what}  {one_line(schedule.name)}: {describe(schedule.plan.rule, schedule.ground)}")
    for name in done.foreign:
        say(f"left     {one_line(name)}: another of that name was made elsewhere; rename one, or delete that one")
    for window in done.windows:
        say(f"{window.what}  windows of {window.about} {one_line(window.name)}: {one_line(window.words)}")
    if not (done.added or done.changed or done.retired or done.foreign or done.windows):
        say(f"Nothing is to be changed: {counted(declared, 'schedule is', 'schedules are')} as {who.app} declares.")
    say(f"Release {who.release} of {who.app} counts now.")


# `standfast schedules`: what runs when; the list. Each of the other commands has a file of its own.

_NARROW = 70
_WIDE = 140
_NONE = (
    "There is no schedule; declare one with @app.task(schedule=…), or make one with `standfast schedules create`."
)


@click.group(
    cls=ListGroup,
    epilog=examples(
        "standfast schedules",
        "standfast schedules next --count 10",
        "standfast schedules create nightly report --cron '0 2 * * *' --tz Asia/Taipei",
        "standfast schedules pause nightly --why 'the warehouse moves'",
        "standfast schedules backfill nightly --since 2026-03-01 --until 2026-03-08 --tz Asia/Taipei",
    ),
)
@store_options
def schedules(_wanted: StoreOptions) -> None:
    """List schedules; make, change, pause and fire them."""


@schedules.command("list", epilog=examples("standfast schedules list", "standfast schedules list --json"))
@store_options
def list_command(wanted: StoreOptions) -> None:
    """List every schedule: when it fires, next and last."""
    with open_timetable(wanted.settings) as timetable:
        found = [view_schedule(timetable, schedule) for schedule in timetable.read()]
        idle = bool(found) and timetable.nobody_fires()
    if wanted.as_json:
        say_json([schedule_fields(seen) for seen in found])
    elif not found:
        say(_NONE)
    else:
        say_table(found, _COLUMNS)
        if idle:
            say(f"\n{NOBODY_FIRES}")


for _command in (show, next_command, fires, create, edit, pause, resume, trigger, delete, backfill, sync):
    schedules.add_command(_command)


def _next(seen: ScheduleView) -> str:
    if seen.next is None:
        return _never(seen)
    return f"{zoned_words(seen.next.planned, seen.zone)} ({relative(seen.next.planned, seen.now)})"


def _next_soon(seen: ScheduleView) -> str:
    return _never(seen) if seen.next is None else relative(seen.next.planned, seen.now)


def _never(seen: ScheduleView) -> str:
    return "excluded" if seen.standing is ScheduleStatus.ACTIVE else ""


def _last(seen: ScheduleView) -> Text:
    if seen.last is None:
        return Text("")
    when = f" {short_clock_words(seen.last.planned, seen.zone, seen.now)} ({relative(seen.last.planned, seen.now)})"
    return decision_words(seen.last).append(when, style="default")


def _last_in_short(seen: ScheduleView) -> Text:
    if seen.last is None:
        return Text("")
    return decision_words(seen.last).append(f" {relative(seen.last.planned, seen.now)}", style="default")


_COLUMNS: list[Column[ScheduleView]] = [
    Column("NAME", lambda seen: cut(seen.name)),
    Column("WHEN", lambda seen: cut(seen.words), shrinks=True, vital=1),
    Column("NEXT", _next_soon, below_width=_WIDE, vital=2),
    Column("NEXT", _next, from_width=_WIDE, vital=2),
    Column("LAST", lambda seen: decision_words(seen.last) if seen.last else "", below_width=_NARROW, vital=1),
    Column("LAST", _last_in_short, from_width=_NARROW, below_width=_WIDE, vital=1),
    Column("LAST", _last, from_width=_WIDE, vital=1),
    Column("STATE", lambda seen: Text(seen.standing, style=STANDING_STYLES[seen.standing]), vital=2),
    Column("TASK", lambda seen: cut(seen.schedule.plan.job.task), shrinks=True, from_width=90),
    Column("QUEUE", lambda seen: cut(seen.schedule.plan.job.queue), shrinks=True, from_width=110),
]
