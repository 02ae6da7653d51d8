"""`standfast schedules next`: when schedules fire next, in plain words, and when they do not and why."""

import heapq
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, tzinfo
from itertools import islice
from typing import Any

import click
from rich.text import Text

from standfast.cli.connection import Wanted, about_a_store
from standfast.cli.options import examples
from standfast.cli.output import Column, cut, say, say_json, say_table
from standfast.cli.scheduleview import NOBODY_FIRES, clock_words, retired_words, short_clock_words, zoned_words
from standfast.cli.timetable import Timetable, open_timetable
from standfast.schedule.outlook import Standing, coming, standing_of, zone_of
from standfast.schedule.plan import Schedule
from standfast.schedule.words import Upcoming, describe
from standfast.words import counted, one_line, relative, span


@dataclass(frozen=True, slots=True)
class _Time:
    """A planned time of a schedule."""

    schedule: Schedule
    time: Upcoming
    zone: tzinfo | None


@click.command(
    "next",
    epilog=examples(
        "standfast schedules next", "standfast schedules next nightly --count 20", "standfast schedules next --json"
    ),
)
@click.argument("name", required=False)
@click.option("--count", type=click.IntRange(1, 10_000), default=10, help="So many times.")
@about_a_store
def next_command(wanted: Wanted, name: str | None, count: int) -> None:
    """Say when a schedule fires next, and when not and why.

    Without NAME the times of all schedules that are active, in their order.
    """
    with open_timetable(wanted.settings) as timetable:
        now, found = timetable.now, timetable.read(name)
        standings = {schedule.name: standing_of(schedule, now) for schedule in found}
        obstacle = _obstacle(timetable, found[0], standings[name]) if name else None
        idle = Standing.ACTIVE in standings.values() and timetable.nobody_fires()
    asked = found if name else [each for each in found if standings[each.name] is Standing.ACTIVE]
    each_ones = (
        [_Time(each, time, zone_of(each.plan.rule)) for time in coming(each, now, count)] for each in asked
    )
    times = list(islice(heapq.merge(*each_ones, key=lambda each: each.time.planned), count))
    if wanted.as_json:
        say_json([_fields(each) for each in times])
        return
    if name:
        _tell_one(found[0], obstacle, times, now)
    else:
        _tell_all(found, times, now)
    if idle:
        say(f"\n{NOBODY_FIRES}")


def _obstacle(timetable: Timetable, schedule: Schedule, standing: Standing) -> str | None:
    """Return why nothing is fired, whatever is planned, and what would change that; None where it is."""
    if standing is Standing.PAUSED:
        resume = f"standfast schedules resume {shlex.quote(one_line(schedule.name))}"
        return f"It is paused: nothing of this is fired before `{resume}`."
    if standing is Standing.RETIRED:
        return f"It is retired, so nothing of this is fired: {retired_words(timetable, schedule.plan)}"
    return None


def _fields(each: _Time) -> dict[str, Any]:
    time = each.time
    return {
        "schedule": each.schedule.name,
        "planned": time.planned,
        "run_at": time.run_at,
        "excluded": None if time.excluded is None else str(time.excluded),
        "note": None if time.note is None else str(time.note),
    }


def _tell_one(schedule: Schedule, obstacle: str | None, times: Sequence[_Time], now: datetime) -> None:
    name, words = one_line(schedule.name), str(describe(schedule.plan.rule, schedule.ground))
    zone = zone_of(schedule.plan.rule)
    by = "" if zone is None or str(zone) in words else f" The times are of {zone}."
    say(Text.assemble((name, "bold"), f" fires {words}.{by}"))
    if obstacle is not None:
        say(Text(obstacle, style="yellow"))
    if not times:
        say("No time is left.")
        return
    say("")
    say_table(times, [_planned(now, named=False), _distance(now), *_why_if_any(times)])


def _tell_all(found: Sequence[Schedule], times: Sequence[_Time], now: datetime) -> None:
    if times:
        say_table(
            times,
            [
                _planned(now, named=True),
                _distance(now),
                Column("SCHEDULE", lambda each: cut(each.schedule.name), shrinks=True, vital=2),
                *_why_if_any(times),
            ],
        )
    else:
        say("Nothing is planned." if found else "There is no schedule.")
    silent = sum(standing_of(schedule, now) in {Standing.PAUSED, Standing.RETIRED} for schedule in found)
    if silent:
        verb = "is" if silent == 1 else "are"
        say(f"\n{counted(silent, 'schedule')} {verb} paused or retired: see `standfast schedules`.")


def _planned(now: datetime, *, named: bool) -> Column[_Time]:
    tell = zoned_words if named else clock_words
    return Column(
        "PLANNED",
        lambda each: tell(each.time.planned, each.zone),
        short=lambda each: short_clock_words(each.time.planned, None if named else each.zone, now),
    )


def _distance(now: datetime) -> Column[_Time]:
    return Column("", lambda each: relative(each.time.planned, now), vital=1)


def _why(each: _Time) -> Text:
    time = each.time
    if time.excluded is not None:
        return Text(f"not fired: {one_line(str(time.excluded))}", style="yellow")
    put_off = f"its job starts {span(time.run_at - time.planned)} later" if time.run_at > time.planned else None
    return Text("; ".join(str(part) for part in (time.note, put_off) if part is not None))


def _why_if_any(times: Sequence[_Time]) -> list[Column[_Time]]:
    return [Column("WHY", _why, shrinks=True, vital=2)] if any(map(_why, times)) else []
