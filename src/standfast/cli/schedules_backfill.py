"""`standfast schedules backfill`: jobs for the planned times of a past range."""

from collections.abc import Sequence
from datetime import datetime, tzinfo

import click

from standfast.cli.confirming import confirm
from standfast.cli.connection import Wanted, about_a_store
from standfast.cli.options import examples, tz_option, yes_option
from standfast.cli.output import say, say_json
from standfast.cli.progress import bulk_progress
from standfast.cli.scheduleview import zoned_words
from standfast.cli.timetable import Timetable, open_timetable
from standfast.cli.typed import read_moment
from standfast.schedule.outlook import zone_of
from standfast.schedule.plan import Schedule
from standfast.schedule.zones import find_zone
from standfast.watch.spans import read_span
from standfast.words import counted, one_line


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
@about_a_store
def backfill(
    wanted: Wanted, /, *, name: str, since: str, until: str, tz: str | None, again: bool, yes: bool
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
