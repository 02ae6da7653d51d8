"""`standfast schedules`: what runs when; the list. Each of the other commands has a file of its own."""

import click
from rich.text import Text

from standfast.cli.connection import Wanted, about_a_store
from standfast.cli.options import examples
from standfast.cli.output import Column, cut, say, say_json, say_table
from standfast.cli.schedules_backfill import backfill
from standfast.cli.schedules_change import delete, pause, resume, trigger
from standfast.cli.schedules_create import create
from standfast.cli.schedules_edit import edit
from standfast.cli.schedules_fires import fires
from standfast.cli.schedules_next import next_command
from standfast.cli.schedules_show import show
from standfast.cli.schedules_sync import sync
from standfast.cli.scheduleview import (
    NOBODY_FIRES,
    STANDING_STYLES,
    Seen,
    decision_words,
    schedule_fields,
    see,
    short_clock_words,
    zoned_words,
)
from standfast.cli.timetable import open_timetable
from standfast.schedule.outlook import Standing
from standfast.words import relative

_NARROW = 70
_WIDE = 140
_NONE = (
    "There is no schedule; declare one with @app.task(schedule=…), or make one with `standfast schedules create`."
)


@click.group(
    invoke_without_command=True,
    epilog=examples(
        "standfast schedules",
        "standfast schedules next --count 10",
        "standfast schedules create nightly report --cron '0 2 * * *' --tz Asia/Taipei",
        "standfast schedules pause nightly --why 'the warehouse moves'",
        "standfast schedules backfill nightly --since 2026-03-01 --until 2026-03-08 --tz Asia/Taipei",
    ),
)
@click.pass_context
@about_a_store
def schedules(_wanted: Wanted, ctx: click.Context) -> None:
    """List schedules; make, change, pause and fire them."""
    if ctx.invoked_subcommand is None:
        ctx.invoke(list_command)


@schedules.command("list", epilog=examples("standfast schedules list", "standfast schedules list --json"))
@about_a_store
def list_command(wanted: Wanted) -> None:
    """List every schedule: when it fires, next and last."""
    with open_timetable(wanted.settings) as timetable:
        found = [see(timetable, schedule) for schedule in timetable.read()]
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


def _next(seen: Seen) -> str:
    if seen.next is None:
        return _never(seen)
    return f"{zoned_words(seen.next.planned, seen.zone)} ({relative(seen.next.planned, seen.now)})"


def _next_soon(seen: Seen) -> str:
    return _never(seen) if seen.next is None else relative(seen.next.planned, seen.now)


def _never(seen: Seen) -> str:
    return "excluded" if seen.standing is Standing.ACTIVE else ""


def _last(seen: Seen) -> Text:
    if seen.last is None:
        return Text("")
    when = f" {short_clock_words(seen.last.planned, seen.zone, seen.now)} ({relative(seen.last.planned, seen.now)})"
    return decision_words(seen.last).append(when, style="default")


def _last_in_short(seen: Seen) -> Text:
    if seen.last is None:
        return Text("")
    return decision_words(seen.last).append(f" {relative(seen.last.planned, seen.now)}", style="default")


_COLUMNS: list[Column[Seen]] = [
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
