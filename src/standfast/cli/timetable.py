"""When schedules fire: their times in words, `standfast schedules next` and `standfast schedules fires`."""

import shlex
from collections.abc import Sequence
from datetime import datetime, tzinfo

import click
from rich.text import Text

from standfast.admin.fields import Named
from standfast.admin.schedules import (
    UNREADABLE,
    FiresAsked,
    FireSeen,
    ScheduleRow,
    ScheduleSeen,
    UpcomingAsked,
    UpcomingSeen,
    list_fires,
    list_schedules,
    list_upcoming,
    show_schedule,
)
from standfast.cli.connection import StoreOptions, examples, store_options, tz_option
from standfast.cli.exit_codes import say_failed
from standfast.cli.inputs import read_moment
from standfast.cli.output import Column, cut, say, say_json, say_table
from standfast.model.display import counted, one_line, relative, short_id, span
from standfast.model.records import Decision, FireCause
from standfast.observe.obstacles import START_A_WORKER
from standfast.schedules.schedule import ScheduleStatus
from standfast.schedules.zones import find_zone

STATE_STYLES = {
    ScheduleStatus.ACTIVE: "green",
    ScheduleStatus.PAUSED: "yellow",
    ScheduleStatus.RETIRED: "dim",
    ScheduleStatus.DONE: "dim",
}

NOBODY_FIRES = f"No worker is running, so nothing is fired: {START_A_WORKER}."

_DECISION_STYLES = {
    Decision.FIRED: "green",
    Decision.CAUGHT_UP: "green",
    Decision.QUEUED: "yellow",
    Decision.OVERLAPPED: "yellow",
    Decision.MISSED: "bold red",
    Decision.EXCLUDED: "dim",
    Decision.REVOKED: "dim",
}


def zone_of(row: ScheduleRow) -> tzinfo | None:
    """Return the zone by whose clock a schedule goes, if by one."""
    return None if row.zone is None else find_zone(row.zone)


def readable(rows: Sequence[ScheduleRow]) -> list[ScheduleRow]:
    """Return the schedules that can be read; say on stderr what is wrong with the others."""
    for row in rows:
        if row.problem is not None:
            say_failed(str(row.problem))
    return [row for row in rows if row.state != UNREADABLE]


def say_next(seen: ScheduleSeen) -> None:
    """Say when it fires next, and that nobody is there to fire it."""
    if seen.next_at is not None:
        say(f"Next: {zoned_words(seen.next_at, zone_of(seen))} ({relative(seen.next_at, seen.now)}).")
    elif seen.state == ScheduleStatus.ACTIVE:
        say(f"All its times are excluded: `standfast schedules next {shlex.quote(one_line(seen.name))}` says why.")
    elif seen.state == ScheduleStatus.DONE:
        say("No time is left.")
    else:
        say(f"It is {seen.state}.")
    if seen.idle:
        say(NOBODY_FIRES)


def retired_words(seen: ScheduleSeen) -> str:
    """Return who declares a schedule no more, and what brings it back."""
    app = seen.app or "its app"
    who = app if seen.counting is None else f"release {seen.counting} of {app}, which counts now,"
    return (
        f"{who} declares it no more. Where a release is installed that does, `standfast schedules sync MODULE:APP`"
        " brings it back."
    )


def clock_words(moment: datetime, zone: tzinfo | None) -> str:
    """Return a time by the clock of a zone, or else of this machine: `Mon 2026-03-02 02:00`."""
    local = _local(moment, zone)
    precise = local.second or local.microsecond
    return f"{local:%a %Y-%m-%d %H:%M:%S}" if precise else f"{local:%a %Y-%m-%d %H:%M}"


def zoned_words(moment: datetime, zone: tzinfo | None) -> str:
    """Return the same with the name of the zone."""
    return f"{clock_words(moment, zone)} {zone or _local(moment, zone).tzname()}"


def short_clock_words(moment: datetime, zone: tzinfo | None, now: datetime) -> str:
    """Return a time of that clock in few characters: of today, of this year, or the date alone."""
    local, today = _local(moment, zone), _local(now, zone).date()
    time = f"{local:%H:%M:%S}" if local.second or local.microsecond else f"{local:%H:%M}"
    if local.date() == today:
        return time
    return f"{local:%m-%d} {time}" if local.year == today.year else f"{local:%Y-%m-%d}"


def _local(moment: datetime, zone: tzinfo | None) -> datetime:
    try:
        return moment.astimezone(zone)
    except OverflowError:  # at the very ends of the calendar there is no local time
        return moment


def decision_words(fire: FireSeen) -> Text:
    """Return what was decided, and of how many planned times in a row."""
    word = fire.decision.value.replace("_", " ")
    style = _DECISION_STYLES[fire.decision]
    return Text(word if fire.count == 1 else f"{word} ×{fire.count:,}", style=style)


# `standfast schedules next`: when schedules fire next, in plain words, and when they do not and why.


@click.command(
    "next",
    epilog=examples(
        "standfast schedules next", "standfast schedules next nightly --count 20", "standfast schedules next --json"
    ),
)
@click.argument("name", required=False)
@click.option("--count", type=click.IntRange(1, 10_000), default=10, help="So many times.")
@store_options
def next_command(wanted: StoreOptions, name: str | None, count: int) -> None:
    """Say when a schedule fires next, and when not and why.

    Without NAME the times of all schedules that are active, in their order.
    """
    with wanted.admin() as admin:
        times = admin.run(list_upcoming, UpcomingAsked(name=name, count=count)).times
        one = None if name is None else admin.run(show_schedule, Named(name=name))
        listed = admin.run(list_schedules) if one is None else None
    if wanted.as_json:
        say_json(times)
    elif one is not None:
        _tell_one(one, times)
    elif listed is not None:
        found = readable(listed.schedules)
        _tell_all(found, times, listed.now)
        if listed.idle and any(row.state == ScheduleStatus.ACTIVE for row in found):
            say(f"\n{NOBODY_FIRES}")


def _obstacle(seen: ScheduleSeen) -> str | None:
    """Return why nothing is fired, whatever is planned, and what would change that; None where it is."""
    if seen.state == ScheduleStatus.PAUSED:
        resume = f"standfast schedules resume {shlex.quote(one_line(seen.name))}"
        return f"It is paused: nothing of this is fired before `{resume}`."
    if seen.state == ScheduleStatus.RETIRED:
        return f"It is retired, so nothing of this is fired: {retired_words(seen)}"
    return None


def _tell_one(seen: ScheduleSeen, times: Sequence[UpcomingSeen]) -> None:
    zone, words = zone_of(seen), str(seen.words)
    by = "" if zone is None or str(zone) in words else f" The times are of {zone}."
    say(Text.assemble((one_line(seen.name), "bold"), f" fires {words}.{by}"))
    if (obstacle := _obstacle(seen)) is not None:
        say(Text(obstacle, style="yellow"))
    if times:
        say("")
        planned: Column[UpcomingSeen] = Column(
            "PLANNED",
            lambda each: clock_words(each.planned, zone),
            short=lambda each: short_clock_words(each.planned, zone, seen.now),
        )
        say_table(times, [planned, _distance(seen.now), *_why_if_any(times)])
    else:
        say("No time is left.")
    if seen.idle and seen.state == ScheduleStatus.ACTIVE:
        say(f"\n{NOBODY_FIRES}")


def _tell_all(found: Sequence[ScheduleRow], times: Sequence[UpcomingSeen], now: datetime) -> None:
    if times:
        zones = {row.name: zone_of(row) for row in found}
        planned: Column[UpcomingSeen] = Column(
            "PLANNED",
            lambda each: zoned_words(each.planned, zones.get(each.schedule)),
            short=lambda each: short_clock_words(each.planned, None, now),
        )
        name: Column[UpcomingSeen] = Column("SCHEDULE", lambda each: cut(each.schedule), shrinks=True, vital=2)
        say_table(times, [planned, _distance(now), name, *_why_if_any(times)])
    else:
        say("Nothing is planned." if found else "There is no schedule.")
    silent = sum(row.state in {ScheduleStatus.PAUSED, ScheduleStatus.RETIRED} for row in found)
    if silent:
        verb = "is" if silent == 1 else "are"
        say(f"\n{counted(silent, 'schedule')} {verb} paused or retired: see `standfast schedules`.")


def _distance(now: datetime) -> Column[UpcomingSeen]:
    return Column("", lambda each: relative(each.planned, now), vital=1)


def _why_not_fired(each: UpcomingSeen) -> Text:
    if each.excluded is not None:
        return Text(f"not fired: {one_line(str(each.excluded))}", style="yellow")
    put_off = f"its job starts {span(each.run_at - each.planned)} later" if each.run_at > each.planned else None
    return Text("; ".join(str(part) for part in (each.note, put_off) if part is not None))


def _why_if_any(times: Sequence[UpcomingSeen]) -> list[Column[UpcomingSeen]]:
    return [Column("WHY", _why_not_fired, shrinks=True, vital=2)] if any(map(_why_not_fired, times)) else []


# `standfast schedules fires`: what became of planned times, and why.

_CAUSES = {FireCause.RULE: "", FireCause.TRIGGER: "by hand", FireCause.BACKFILL: "backfill"}
_WIDE = 100


@click.command(
    epilog=examples(
        "standfast schedules fires",
        "standfast schedules fires nightly --limit 100",
        "standfast schedules fires nightly --before 2026-03-01T00:00Z --json",
    )
)
@click.argument("name", required=False)
@click.option("--limit", type=click.IntRange(1, 1000), default=20, help="About so many.")
@click.option("--before", metavar="TIME", help="Only those planned before this: the next page.")
@tz_option
@store_options
def fires(wanted: StoreOptions, /, *, name: str | None, limit: int, before: str | None, tz: str | None) -> None:
    """Show what became of planned times, the latest first.

    Without NAME those of all schedules. Of each the last 1,000 are kept, at least.
    """
    zone = None if tz is None else find_zone(tz)
    earlier = None if before is None else read_moment("--before", before, zone).isoformat()
    with wanted.admin() as admin:
        schedules = readable(admin.run(list_schedules).schedules) if name is None else []
        schedules += [] if name is None else [admin.run(show_schedule, Named(name=name))]
        seen = admin.run(list_fires, FiresAsked(name=name, limit=limit, before=earlier))
    if wanted.as_json:
        say_json(seen.fires)
    elif not seen.fires:
        say("Nothing was fired." if before is None else "Nothing was fired before that.")
    else:
        zones = {row.name: zone_of(row) for row in schedules}
        say_table(seen.fires, _fire_columns(seen.fires, zones, seen.now, named=name is None))
        if len(seen.fires) >= limit:
            latest, last = counted(len(seen.fires), "entry", "entries"), seen.fires[-1].planned.isoformat()
            say(f"\nThe latest {latest}; for older ones add --before {last}")


def _fire_columns(
    found: Sequence[FireSeen], zones: dict[str, tzinfo | None], now: datetime, *, named: bool
) -> list[Column[FireSeen]]:
    schedule: Column[FireSeen] = Column("SCHEDULE", lambda fire: cut(fire.schedule), shrinks=True, vital=2)
    cause: Column[FireSeen] = Column("CAUSE", lambda fire: _CAUSES[fire.cause])
    return [
        Column(
            "PLANNED",
            lambda fire: zoned_words(fire.planned, zones.get(fire.schedule)),
            short=lambda fire: short_clock_words(fire.planned, None if named else zones.get(fire.schedule), now),
        ),
        *([schedule] if named else []),
        Column("DECISION", decision_words, vital=2),
        Column("DECIDED", _decided, from_width=_WIDE),
        *([cause] if any(fire.cause is not FireCause.RULE for fire in found) else []),
        Column("JOB", lambda fire: fire.job or "", short=lambda fire: short_id(fire.job or ""), vital=1),
        Column("WHY", lambda fire: _why_decided(fire, zones.get(fire.schedule), now), shrinks=True, vital=2),
    ]


def _decided(fire: FireSeen) -> str:
    """Return how long before or after its time it was decided."""
    if fire.decided_at is None:
        return ""
    distance = fire.decided_at - fire.planned
    return f"{span(distance)} {'before' if fire.decided_at < fire.planned else 'after'}"


def _why_decided(fire: FireSeen, zone: tzinfo | None, now: datetime) -> Text:
    until = None if fire.until is None else f"until {short_clock_words(fire.until, zone, now)}"
    return Text("; ".join(one_line(str(part)) for part in (until, fire.why) if part))
