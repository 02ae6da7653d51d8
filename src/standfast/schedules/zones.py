"""Time zones by their IANA names, and what a clock in one shows. Pure.

A wall time is a datetime without a zone: what the clock on the wall shows. When clocks go forward some wall times
never come (a gap), when they go back some come twice (a fold).
"""

from datetime import UTC, datetime, timedelta, tzinfo
from functools import cache

from standfast.errors import ConfigurationError
from standfast.model.suggestions import closest_name

_NOT_ZONES = ("localtime", "posixrules", "Factory", "posix", "right")
"""Files beside the zones that mean another thing on each machine, or count leap seconds."""


@cache
def find_zone(name: str) -> tzinfo:
    """Return the zone of an IANA name. Raises ConfigurationError that says which name may have been meant."""
    if name == "UTC":
        return UTC
    from zoneinfo import ZoneInfo, ZoneInfoNotFoundError  # noqa: PLC0415 - a rule in UTC needs no zones

    try:
        if name.partition("/")[0] not in _NOT_ZONES:
            return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        pass
    raise ConfigurationError(f'there is no time zone {name!r}; {_advice(name)}, as in tz="Asia/Taipei"')


def check_zone(name: object) -> None:
    """Raise ConfigurationError unless this is the name of a zone."""
    if not isinstance(name, str):
        raise ConfigurationError(f'tz must be the name of a time zone, as in tz="Asia/Taipei", not {name!r}')
    find_zone(name)


def wall_at(zone: tzinfo, moment: datetime) -> datetime:
    """Return what the clock shows at a moment."""
    return moment.astimezone(zone).replace(tzinfo=None, fold=0)


def first_instant(zone: tzinfo, wall: datetime) -> datetime:
    """Return when the clock shows a wall time for the first time; one that never comes is the end of its gap."""
    earlier, later = _offsets(zone, wall)
    if earlier < later:
        return change_between(zone, _minus(wall, later), _minus(wall, earlier))
    return _minus(wall, earlier)


def last_instant(zone: tzinfo, wall: datetime) -> datetime:
    """Return when the clock shows a wall time for the last time; one that never comes is the end of its gap."""
    earlier, later = _offsets(zone, wall)
    return first_instant(zone, wall) if earlier < later else _minus(wall, later)


def change_between(zone: tzinfo, before: datetime, after: datetime) -> datetime:
    """Return when the clocks were changed after the first of two moments and not after the second."""
    before_offset = offset_at(zone, before)
    while after - before > timedelta.resolution:
        middle = before + (after - before) / 2
        if offset_at(zone, middle) == before_offset:
            before = middle
        else:
            after = middle
    return after


def offset_at(zone: tzinfo, moment: datetime) -> timedelta:
    """Return how far the clock is ahead of UTC at a moment."""
    offset = moment.astimezone(zone).utcoffset()
    assert offset is not None
    return offset


def _offsets(zone: tzinfo, wall: datetime) -> tuple[timedelta, timedelta]:
    """Return how far the clock is ahead before and after the change that a wall time falls into, if in any."""
    earlier, later = (wall.replace(tzinfo=zone, fold=fold).utcoffset() for fold in (0, 1))
    assert earlier is not None
    assert later is not None
    return earlier, later


def _minus(wall: datetime, offset: timedelta) -> datetime:
    return (wall - offset).replace(tzinfo=UTC)


def _advice(name: str) -> str:
    """Return what to write instead of a name that is no zone's."""
    from zoneinfo import available_timezones  # noqa: PLC0415 - only for those who mistyped

    zones = sorted(available_timezones())
    if not zones:
        return (
            "this machine knows no time zones at all: install tzdata (pip install tzdata); then give an IANA name"
        )
    known = {zone.lower(): zone for zone in zones}
    cities = {zone.lower().rpartition("/")[2]: zone for zone in zones if "/" in zone}
    wanted = name.strip().replace(" ", "_")
    meant = cities.get(wanted.lower()) or known.get(closest_name(wanted, known, alike=0.7) or "")
    meant = meant or cities.get(closest_name(wanted, cities, alike=0.7) or "")
    return "give an IANA name" if meant is None else f"did you mean {meant!r}? Give an IANA name"
