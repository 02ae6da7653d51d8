"""Rules in the language of cron. Pure."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, tzinfo
from typing import TYPE_CHECKING, Unpack

from msgspec.structs import force_setattr

from standfast.errors import ConfigurationError
from standfast.phrases import Phrase
from standfast.schedule.options import RuleOptions
from standfast.schedule.rule import Ground, Rule
from standfast.schedule.zones import (
    change_between,
    check_zone,
    first_instant,
    last_instant,
    offset_at,
    wall_at,
)

if TYPE_CHECKING:
    from standfast.schedule.expression import Face

_STRETCH = timedelta(days=1)
"""No two changes of a zone's clocks are nearer to each other."""

_MICROSECOND = timedelta(microseconds=1)
_FURTHEST = timedelta(days=2)
"""More than any two clocks differ."""


class _Zoned(Rule, frozen=True, kw_only=True):
    tz: str = "UTC"


class Cron(_Zoned, frozen=True, tag="cron"):
    """The times that a cron expression names, by the clock of a time zone: `Cron("0 2 * * *", tz="Asia/Taipei")`.

    Five fields are minute, hour, day of the month, month and day of the week; of six the first is the second, as in
    `*/10 * * * * *` for every ten seconds. A field has numbers or names (JAN, MON), lists (1,15), ranges (1-5) and
    steps (*/15, 8-18/2). L is the last day of the month, LW its last weekday, 5L its last Friday, FRI#2 its second.
    Sunday is 0 and 7. There are @hourly, @daily or @midnight, @weekly, @monthly, and @yearly or @annually.

    Days are those of every cron: where both the day of the month and the day of the week are given, one of them is
    enough; where one of them begins with `*`, as `*/2` does, both must hold.

    `H` stands for a number that is drawn from the schedule's name and never changes, so that many schedules do not
    all come at once: `H 2 * * *` is one minute of the hour from 02:00, `H(0-29) 2 * * *` one of its first half,
    `H/15 * * * *` every 15 minutes from a minute of its own. As a day of the month it is 1 to 28.

    When clocks go forward or back, it is as in Debian's cron:

    - An expression whose minute and hour both do *not* begin with `*`, as in `30 2 * * *`, names times of the day.
      One that the clocks skip comes when the skip is over: 02:30 at 03:00, and once, however many were skipped. One
      that they show twice comes the first time only.
    - Every other, as `*/15 * * * *` or `0 */2 * * *`, comes whenever the clock shows a time that fits: not while it
      skips, and again while it repeats. So what comes every 15 minutes goes on coming every 15 minutes.

    That there are six fields makes no difference to this.
    """

    expression: str

    if TYPE_CHECKING:

        def __init__(self, expression: str, *, tz: str = "UTC", **options: Unpack[RuleOptions]) -> None: ...

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.expression, str):
            raise ConfigurationError(
                f'a cron expression is a text, as in Cron("30 2 * * *"), not {self.expression!r}'
            )
        force_setattr(self, "expression", " ".join(self.expression.split()))
        check_zone(self.tz)
        from standfast.schedule.expression import check_expression  # noqa: PLC0415 - for those who have one

        check_expression(self.expression)

    def note(self, planned: datetime, ground: Ground) -> Phrase | None:
        """Return what changed clocks have to do with a planned time, in plain words, if anything."""
        zone, face = self._zone(), self._face(ground)
        wall = wall_at(zone, planned)
        if first_instant(zone, wall) != last_instant(zone, wall):
            which = "second"
            if planned == first_instant(zone, wall):
                which = "first_only" if face.names_times else "first"
            return Phrase(f"clocks.twice_{which}", time=_shown(wall))
        skipped = wall_at(zone, planned - _MICROSECOND) + _MICROSECOND
        missed = next(face.walls_from(skipped), wall)
        if face.names_times and missed < wall:
            return Phrase("clocks.skipped", time=_shown(missed), since=_shown(skipped), until=_shown(wall))
        return None

    def zones(self) -> frozenset[str]:
        """Return the zones by whose clocks it goes."""
        return frozenset({self.tz})

    def _times_after(self, moment: datetime, ground: Ground) -> Iterator[datetime]:
        face, zone = self._face(ground), self._zone()
        try:
            if zone is UTC:
                yield from _in_utc(face, moment)
            elif face.names_times:
                yield from _by_the_wall(face, zone, moment)
            else:
                yield from _by_real_time(face, zone, moment)
        except OverflowError:  # the end of the calendar
            return

    def _face(self, ground: Ground) -> "Face":
        from standfast.schedule.expression import read_face  # noqa: PLC0415 - for those who have one

        return read_face(self.expression, ground.name)


def _in_utc(face: "Face", moment: datetime) -> Iterator[datetime]:
    for wall in face.walls_from(_whole(moment.replace(tzinfo=None))):
        time = wall.replace(tzinfo=UTC)
        if time > moment:
            yield time


def _by_the_wall(face: "Face", zone: tzinfo, moment: datetime) -> Iterator[datetime]:
    """Yield each wall time once: when it is skipped, after the skip; when it is repeated, the first time."""
    last = moment
    for wall in face.walls_from(_whole(wall_at(zone, moment))):
        time = first_instant(zone, wall)
        if time > last:
            yield time
            last = time


def _by_real_time(face: "Face", zone: tzinfo, moment: datetime) -> Iterator[datetime]:
    """Yield whenever the clock shows a wall time: stretch by stretch, in each of which no clock is changed."""
    since = moment
    while True:
        offset = offset_at(zone, since)
        until = since + _STRETCH
        changes = offset_at(zone, until) != offset
        if changes:
            until = change_between(zone, since, until)
        came = False
        for wall in face.walls_from(_whole((since + offset).replace(tzinfo=None))):
            time = wall.replace(tzinfo=UTC) - offset
            if time >= until:
                break
            if time >= since and time > moment:
                yield time
                came = True
        else:
            return
        # Clocks that go back bring again what came in the last stretch: only from an empty one one may leap.
        since = until if came or changes else max(until, time - _FURTHEST)


def _whole(wall: datetime) -> datetime:
    return wall.replace(microsecond=0)


def _shown(wall: datetime) -> str:
    return f"{wall:%H:%M:%S}" if wall.second else f"{wall:%H:%M}"
