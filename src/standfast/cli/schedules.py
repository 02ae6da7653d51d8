"""`standfast schedules`: what runs when; making, changing, pausing and firing schedules."""

import shlex
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta, tzinfo
from functools import partial
from typing import Any

import click
import msgspec
from rich.text import Text

from standfast.admin.fields import Named
from standfast.admin.schedules import (
    Backfill,
    BackfillAsked,
    BackfillDone,
    RunSeen,
    SchedulePauseAsked,
    ScheduleRow,
    ScheduleSeen,
    backfill_schedule,
    delete_schedule,
    list_schedules,
    pause_schedule,
    resume_schedule,
    show_schedule,
    trigger_schedule,
)
from standfast.cli.connection import (
    ListGroup,
    StoreOptions,
    app_dir_option,
    check_target,
    examples,
    existing_store,
    find_target,
    store_options,
    tz_option,
    yes_option,
)
from standfast.cli.inputs import confirm, read_moment_or_span
from standfast.cli.job_views import say_arguments
from standfast.cli.output import (
    Column,
    answer,
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
    STATE_STYLES,
    clock_words,
    decision_words,
    fires,
    next_command,
    readable,
    retired_words,
    say_next,
    short_clock_words,
    zone_of,
    zoned_words,
)
from standfast.model.display import counted, dated, one_line, relative, short_id, span
from standfast.model.job import OnLate
from standfast.schedules.declarations import Declarer, Synchronised, release_of, synchronise
from standfast.schedules.description import describe
from standfast.schedules.rules import AnyRule, Misfire, Overlap
from standfast.schedules.schedule import ScheduleStatus
from standfast.stores.verb import run_procedure

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
    seen = wanted.run(show_schedule, Named(name=name))
    if wanted.as_json:
        say_json(seen)
        return
    state = Text(seen.state, style=STATE_STYLES[ScheduleStatus(seen.state)])
    say(Text.assemble((one_line(seen.name), "bold"), "  ", state))
    words = str(seen.words)
    say(f"{words[:1].upper()}{words[1:]}. {_how_it_stands(seen)}".rstrip())
    say("")
    say_fields(_fields(seen))
    say_arguments(seen)
    if seen.runs:
        say_heading("Jobs that are not over")
        say_table(seen.runs, _run_columns(zone_of(seen)), indent=2)
    if seen.waiting:
        say_heading("Waiting for the end of a run")
        times = enumerate(seen.waiting, 1)
        say_fields({str(number): zoned_words(time, zone_of(seen)) for number, time in times})


def _how_it_stands(seen: ScheduleSeen) -> str:
    """Return why it does not fire, if it does not, and what would let it."""
    if seen.retired_at is not None:
        return f"Retired since {dated(seen.retired_at, seen.now)}: {retired_words(seen)}"
    if seen.paused_at is not None:
        why = f": {one_line(seen.paused_why)}" if seen.paused_why else ""
        resume = f"`standfast schedules resume {shlex.quote(one_line(seen.name))}` lets it go on."
        return f"Paused since {dated(seen.paused_at, seen.now)}{why}. {resume}"
    if seen.state == ScheduleStatus.DONE:
        return "No time is left."
    return NOBODY_FIRES if seen.idle else ""


def _fields(seen: ScheduleSeen) -> dict[str, str | Text | None]:
    rule: AnyRule = msgspec.convert(seen.rule, AnyRule)
    return {
        "next": _when(seen),
        "last": _what_became(seen),
        "task": seen.task,
        "queue": f"{seen.queue} (priority {seen.priority})",
        "attempts": f"{seen.max_attempts} at most",
        "start": _start_within(seen),
        "missed": _misfire(rule),
        "overlap": f"{rule.overlap}: {_OVERLAPS[rule.overlap]}",
        "failure": "a job that ends dead pauses it" if rule.pause_on_failure else None,
        "tags": ", ".join(seen.tags) or None,
        "metadata": ", ".join(f"{name}={value}" for name, value in seen.metadata.items()) or None,
        "declared": None if seen.app is None else f"by {seen.app}, release {seen.release}",
        "made": dated(seen.created_at, seen.now) + ("" if seen.app else ", at run time"),
    }


def _when(seen: ScheduleSeen) -> str | None:
    if seen.next_at is None:
        return None
    told = f"{zoned_words(seen.next_at, zone_of(seen))} ({relative(seen.next_at, seen.now)})"
    late = next((each.run_at - each.planned for each in seen.next if each.planned == seen.next_at), timedelta())
    return f"{told}; its job starts {span(late)} later" if late else told


def _what_became(seen: ScheduleSeen) -> Text | None:
    if (last := seen.last) is None:
        return None
    told = Text(f"{zoned_words(last.planned, zone_of(seen))} ({relative(last.planned, seen.now)}): ")
    told.append(decision_words(last))
    if last.job is not None:
        told.append(f", job {last.job}")
    return told.append(f", {last.why}") if last.why else told


def _start_within(seen: ScheduleSeen) -> str | None:
    if seen.start_within is None:
        return None
    fate = "later its jobs expire" if seen.on_late is OnLate.EXPIRE else "later is reported"
    return f"within {span(timedelta(seconds=seen.start_within))} of its time; {fate}"


def _misfire(rule: AnyRule) -> str:
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


def _run_columns(zone: tzinfo | None) -> list[Column[RunSeen]]:
    return [
        Column("JOB", lambda run: run.job, short=lambda run: short_id(run.job)),
        Column("PLANNED", lambda run: clock_words(run.planned, zone)),
        Column("STATE", lambda run: coloured(run.state)),
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
    with wanted.admin() as admin:
        before = admin.run(show_schedule, Named(name=name))
        done = admin.run(pause_schedule, SchedulePauseAsked(name=name, why=why))
    told = one_line(name)
    if before.paused_at is None:
        undo = f"standfast schedules resume {shlex.quote(told)}"
        answer(wanted, done, f"Schedule '{told}' is paused; jobs that run go on. `{undo}` undoes it.")
    else:
        since, because = dated(before.paused_at, before.now), one_line(before.paused_why or "")
        answer(
            wanted, done, f"Schedule '{told}' is paused already, since {since}{f': {because}' if because else ''}."
        )


@click.command(epilog=examples("standfast schedules resume nightly"))
@click.argument("name")
@store_options
def resume(wanted: StoreOptions, name: str) -> None:
    """Let a paused schedule fire again, from now on.

    What was planned meanwhile is not made up for; `standfast schedules backfill` does that.
    """
    with wanted.admin() as admin:
        was_paused = admin.run(show_schedule, Named(name=name)).paused_at is not None
        done = admin.run(resume_schedule, Named(name=name))
        seen = admin.run(show_schedule, Named(name=name))
    answer(wanted, done, f"Schedule '{one_line(name)}' {'goes on' if was_paused else 'is not paused'}.")
    if not wanted.as_json:
        say_next(seen)


@click.command(epilog=examples("standfast schedules trigger nightly", "standfast schedules trigger nightly --json"))
@click.argument("name")
@store_options
def trigger(wanted: StoreOptions, name: str) -> None:
    """Fire a schedule once, now, and print the id of the job.

    It does so whatever its rule says, and if it is paused too; its own times stay as they are.
    """
    done = wanted.run(trigger_schedule, Named(name=name))
    answer(wanted, done, f"{done.job}  enqueued")


@click.command(epilog=examples("standfast schedules delete nightly", "standfast schedules delete nightly --yes"))
@click.argument("name")
@yes_option
@store_options
def delete(wanted: StoreOptions, name: str, *, yes: bool) -> None:
    """Forget a schedule and what became of its times.

    Jobs that it has fired ahead of their time are cancelled. One that code declares comes back when a worker of its
    app starts: take it out of the code, or pause it.
    """
    with wanted.admin() as admin:
        seen = admin.run(show_schedule, Named(name=name))
        if not yes:
            declared = f", which {seen.app} declares" if seen.app and seen.retired_at is None else ""
            confirm(f"Delete schedule '{one_line(name)}'{declared}, and its history?")
        done = admin.run(delete_schedule, Named(name=name))
    back = f"{seen.app} declares it in code: it comes back when a worker of that app starts."
    answer(wanted, done, f"Schedule '{one_line(name)}' is deleted.", back if done.comes_back else None)


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
    with wanted.admin() as admin:
        seen = admin.run(show_schedule, Named(name=name))
        first = read_moment_or_span("--since", since, tz, seen.now).isoformat()
        last = (seen.now if until == "now" else read_moment_or_span("--until", until, tz, seen.now)).isoformat()
        found = admin.run(
            backfill_schedule, BackfillAsked(name=name, since=first, until=last, again=again, dry=True)
        )
        if found.count and not yes:
            confirm(f"{_how_many(seen, found)}: enqueue a job for each?")
        with _progress(found.count) as progress:
            asked = Backfill(name=name, since=first, until=last, again=again, progress=progress)
            done = admin.run(backfill_schedule, asked) if found.count else found
    jobs = f"{counted(done.count, 'job')} {'was' if done.count == 1 else 'were'} enqueued."
    left = done.undecided_after and zoned_words(done.undecided_after, zone_of(seen))
    answer(
        wanted,
        done,
        jobs if done.count else _NOTHING[again],
        f"Times after {left} are left to the workers, which have not decided about them yet." if left else None,
    )


_NOTHING = {
    False: "Nothing is to be backfilled: each planned time of the range was fired, or is excluded.",
    True: "Nothing is to be backfilled: the range has no planned times, or they are excluded.",
}


def _how_many(seen: ScheduleSeen, found: BackfillDone) -> str:
    zone, name = zone_of(seen), one_line(seen.name)
    assert found.first_at is not None
    assert found.last_at is not None
    first = zoned_words(found.first_at, zone)
    if found.count == 1:
        return f"1 planned time of '{name}', {first}"
    return f"{found.count:,} planned times of '{name}', from {first} to {zoned_words(found.last_at, zone)}"


@contextmanager
def _progress(total: int) -> Iterator[Callable[[int, int], None]]:
    """Show how far it is; of a part that is tried again, what was shown before is not shown twice."""
    shown = 0
    with bulk_progress(total) as step:

        def progress(done: int, _total: int) -> None:
            nonlocal shown
            step(max(0, done - shown))
            shown = max(shown, done)

        yield progress


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
    with existing_store(settings) as backend:
        done = run_procedure(backend.run, synchronise(backend.verbs, who, declared, windows))
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


# The group, and the list.

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
    seen = wanted.run(list_schedules)
    if wanted.as_json:
        say_json(seen.schedules)
    elif found := readable(seen.schedules):
        say_table(found, _columns(seen.now))
        if seen.idle:
            say(f"\n{NOBODY_FIRES}")
    elif not seen.schedules:
        say(_NONE)


for _command in (show, next_command, fires, create, edit, pause, resume, trigger, delete, backfill, sync):
    schedules.add_command(_command)


def _columns(now: datetime) -> list[Column[ScheduleRow]]:
    def soon(row: ScheduleRow) -> str:
        if row.next_at is None:
            return "excluded" if row.state == ScheduleStatus.ACTIVE else ""
        return relative(row.next_at, now)

    def later(row: ScheduleRow) -> str:
        return soon(row) if row.next_at is None else f"{zoned_words(row.next_at, zone_of(row))} ({soon(row)})"

    def last(row: ScheduleRow, *, how: Callable[[ScheduleRow, datetime], str]) -> Text:
        if row.last is None:
            return Text("")
        return decision_words(row.last).append(how(row, row.last.planned), style="default")

    def whole(row: ScheduleRow, planned: datetime) -> str:
        return f" {short_clock_words(planned, zone_of(row), now)} ({relative(planned, now)})"

    return [
        Column("NAME", lambda row: cut(row.name)),
        Column("WHEN", lambda row: cut(str(row.words)), shrinks=True, vital=1),
        Column("NEXT", soon, below_width=_WIDE, vital=2),
        Column("NEXT", later, from_width=_WIDE, vital=2),
        Column("LAST", partial(last, how=lambda *_: ""), below_width=_NARROW, vital=1),
        Column(
            "LAST",
            partial(last, how=lambda _, planned: f" {relative(planned, now)}"),
            from_width=_NARROW,
            below_width=_WIDE,
            vital=1,
        ),
        Column("LAST", partial(last, how=whole), from_width=_WIDE, vital=1),
        Column("STATE", lambda row: Text(row.state, style=STATE_STYLES[ScheduleStatus(row.state)]), vital=2),
        Column("TASK", lambda row: cut(row.task or ""), shrinks=True, from_width=90),
        Column("QUEUE", lambda row: cut(row.queue or ""), shrinks=True, from_width=110),
    ]
