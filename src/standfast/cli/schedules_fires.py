"""`standfast schedules fires`: what became of planned times, and why."""

from collections.abc import Mapping, Sequence
from datetime import datetime, tzinfo

import click
from rich.text import Text

from standfast.cli.connection import Wanted, about_a_store
from standfast.cli.options import examples, tz_option
from standfast.cli.output import Column, cut, say, say_json, say_table
from standfast.cli.scheduleview import (
    decision_words,
    fire_fields,
    short_clock_words,
    zoned_words,
)
from standfast.cli.timetable import open_timetable
from standfast.cli.typed import read_moment
from standfast.core.record import Fire, FireCause
from standfast.schedule.outlook import zone_of
from standfast.schedule.zones import find_zone
from standfast.words import counted, one_line, short_id, span

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
@about_a_store
def fires(wanted: Wanted, /, *, name: str | None, limit: int, before: str | None, tz: str | None) -> None:
    """Show what became of planned times, the latest first.

    Without NAME those of all schedules. Of each the last 1,000 are kept, at least.
    """
    zone = None if tz is None else find_zone(tz)
    earlier = None if before is None else read_moment("--before", before, zone)
    with open_timetable(wanted.settings) as timetable:
        schedules = timetable.read(name)
        found = timetable.call(timetable.schedules.fires(name, limit, earlier))
    if wanted.as_json:
        say_json([fire_fields(fire) for fire in found])
    elif not found:
        say("Nothing was fired." if before is None else "Nothing was fired before that.")
    else:
        zones = {schedule.name: zone_of(schedule.plan.rule) for schedule in schedules}
        say_table(found, _columns(found, zones, timetable.now, named=name is None))
        _tell_more(found, limit)


def _tell_more(found: Sequence[Fire], limit: int) -> None:
    if len(found) >= limit:
        say(
            f"\nThe latest {counted(len(found), 'entry', 'entries')}; for older ones add --before"
            f" {found[-1].planned.isoformat()}"
        )


def _columns(
    found: Sequence[Fire], zones: Mapping[str, tzinfo | None], now: datetime, *, named: bool
) -> list[Column[Fire]]:
    schedule: Column[Fire] = Column("SCHEDULE", lambda fire: cut(fire.schedule), shrinks=True, vital=2)
    cause: Column[Fire] = Column("CAUSE", lambda fire: _CAUSES[fire.cause])
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
        Column("JOB", lambda fire: fire.job_id or "", short=lambda fire: short_id(fire.job_id or ""), vital=1),
        Column("WHY", lambda fire: _why(fire, zones.get(fire.schedule), now), shrinks=True, vital=2),
    ]


def _decided(fire: Fire) -> str:
    """Return how long before or after its time it was decided."""
    if fire.decided_at is None:
        return ""
    distance = fire.decided_at - fire.planned
    return f"{span(distance)} {'before' if fire.decided_at < fire.planned else 'after'}"


def _why(fire: Fire, zone: tzinfo | None, now: datetime) -> Text:
    until = None if fire.until is None else f"until {short_clock_words(fire.until, zone, now)}"
    return Text("; ".join(one_line(part) for part in (until, fire.note) if part))
