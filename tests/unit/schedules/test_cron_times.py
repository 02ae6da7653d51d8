"""The times of cron expressions: each field, days, zones, bounds; and that it does not matter where one starts."""

from datetime import UTC, datetime, timedelta
from itertools import islice, takewhile
from time import perf_counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from standfast import Cron
from standfast.schedules.rules import Ground

NEW_YEAR = datetime(2026, 1, 1, tzinfo=UTC)  # a Thursday
GROUND = Ground("test", NEW_YEAR)


def times(expression: str, count: int, after: datetime = NEW_YEAR, **options) -> list[str]:
    found = islice(Cron(expression, **options).times_after(after, GROUND), count)
    return [f"{time:%m-%d %H:%M:%S}" if time.second else f"{time:%m-%d %H:%M}" for time in found]


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("30 2 * * *", ["01-01 02:30", "01-02 02:30", "01-03 02:30"]),
        ("*/20 * * * *", ["01-01 00:20", "01-01 00:40", "01-01 01:00"]),
        ("5,50 8-9 * * *", ["01-01 08:05", "01-01 08:50", "01-01 09:05"]),
        ("0 8-18/5 * * *", ["01-01 08:00", "01-01 13:00", "01-01 18:00"]),
        ("10/25 0 * * *", ["01-01 00:10", "01-01 00:35", "01-02 00:10"]),
        ("0 0 * FEB,apr *", ["02-01 00:00", "02-02 00:00", "02-03 00:00"]),
        ("0 0 * * mon", ["01-05 00:00", "01-12 00:00", "01-19 00:00"]),
        ("0 0 * * MON-WED", ["01-05 00:00", "01-06 00:00", "01-07 00:00"]),
        ("0 0 * * 0", ["01-04 00:00", "01-11 00:00", "01-18 00:00"]),
        ("0 0 * * 7", ["01-04 00:00", "01-11 00:00", "01-18 00:00"]),
        ("0 0 L * *", ["01-31 00:00", "02-28 00:00", "03-31 00:00"]),
        ("0 0 LW * *", ["01-30 00:00", "02-27 00:00", "03-31 00:00"]),
        ("0 0 * * 5L", ["01-30 00:00", "02-27 00:00", "03-27 00:00"]),
        ("0 0 * * FRI#2", ["01-09 00:00", "02-13 00:00", "03-13 00:00"]),
        ("0 0 31 * *", ["01-31 00:00", "03-31 00:00", "05-31 00:00"]),
        ("15 30 2 * * *", ["01-01 02:30:15", "01-02 02:30:15", "01-03 02:30:15"]),
        ("*/40 * * * * *", ["01-01 00:00:40", "01-01 00:01", "01-01 00:01:40"]),
        ("@hourly", ["01-01 01:00", "01-01 02:00", "01-01 03:00"]),
        ("@daily", ["01-02 00:00", "01-03 00:00", "01-04 00:00"]),
        ("@Midnight", ["01-02 00:00", "01-03 00:00", "01-04 00:00"]),
        ("@weekly", ["01-04 00:00", "01-11 00:00", "01-18 00:00"]),
        ("@monthly", ["02-01 00:00", "03-01 00:00", "04-01 00:00"]),
        ("@yearly", ["01-01 00:00", "01-01 00:00", "01-01 00:00"]),
        ("@annually", ["01-01 00:00", "01-01 00:00", "01-01 00:00"]),
    ],
)
def test_fields(expression, expected):
    assert times(expression, len(expected)) == expected


def test_a_day_of_the_month_or_a_day_of_the_week_is_enough():
    assert times("0 0 6 * MON", 4) == ["01-05 00:00", "01-06 00:00", "01-12 00:00", "01-19 00:00"]


@pytest.mark.parametrize("expression", ["0 0 */5 * MON", "0 0 5,12,19,26 * */1,1"])
def test_where_one_of_them_begins_with_a_star_both_must_hold(expression):
    """Odd, and as it is in every cron: `*/5` is the 1st, 6th, 11th …"""
    found = islice(Cron(expression).times_after(NEW_YEAR, GROUND), 10)
    days = {1, 6, 11, 16, 21, 26, 31} if "*/5" in expression else {5, 12, 19, 26}
    weekdays = {0} if "*/5" in expression else set(range(7))
    assert all(time.day in days and time.weekday() in weekdays for time in found)


def test_the_29th_of_february_waits_for_leap_years():
    found = islice(Cron("0 0 29 2 *").times_after(NEW_YEAR, GROUND), 3)
    assert [time.year for time in found] == [2028, 2032, 2036]


def test_a_rare_day_is_found_across_a_century_without_a_leap_year():
    found = islice(Cron("0 0 * 2 MON#5", tz="Europe/Paris").times_after(NEW_YEAR, GROUND), 3)
    assert [(time + timedelta(hours=1)).date().isoformat() for time in found] == [
        "2044-02-29",
        "2072-02-29",
        "2112-02-29",
    ]


def test_times_are_those_of_the_zone():
    assert times("0 2 * * *", 2, tz="Asia/Taipei") == ["01-01 18:00", "01-02 18:00"]
    assert times("0 2 * * *", 2, tz="Asia/Kathmandu") == ["01-01 20:15", "01-02 20:15"]


def test_a_day_is_one_of_the_zone():
    """The 1st begins in Taipei while it is still the 31st in UTC."""
    assert times("0 1 1 * *", 1, tz="Asia/Taipei") == ["01-31 17:00"]


def test_strictly_after_also_by_less_than_a_second():
    at = datetime(2026, 1, 1, 2, 30, tzinfo=UTC)
    for tz, expression in (
        ("UTC", "30 2 * * *"),
        ("Europe/London", "30 2 * * *"),
        ("Europe/London", "*/30 * * * *"),
    ):
        before = at - timedelta(microseconds=1)
        assert next(Cron(expression, tz=tz).times_after(before, GROUND)) == at
        assert next(Cron(expression, tz=tz).times_after(at, GROUND)) > at
        assert next(Cron(expression, tz=tz).times_after(at + timedelta(microseconds=1), GROUND)) > at


def test_any_zone_may_ask():
    """The moment may be in any zone; answers are in UTC."""
    moment = datetime(2026, 1, 1, 9, tzinfo=UTC).astimezone()
    found = next(Cron("0 10 * * *").times_after(moment, GROUND))
    assert (found, found.tzinfo) == (datetime(2026, 1, 1, 10, tzinfo=UTC), UTC)


def test_start_and_end_are_the_first_and_the_last_moment():
    options = {"start": datetime(2026, 1, 3, tzinfo=UTC), "end": datetime(2026, 1, 5, tzinfo=UTC)}
    assert times("0 0 * * *", 9, **options) == ["01-03 00:00", "01-04 00:00", "01-05 00:00"]
    assert times("0 0 * * *", 9, after=datetime(2026, 1, 4, tzinfo=UTC), **options) == ["01-05 00:00"]
    assert times("0 0 * * *", 9, after=datetime(2026, 1, 5, tzinfo=UTC), **options) == []


@pytest.mark.parametrize("tz", ["UTC", "America/New_York", "Asia/Taipei"])
@pytest.mark.parametrize("expression", ["0 0 * * *", "* * * * *", "0 0 1 6 *"])
def test_times_end_with_the_calendar(tz, expression):
    late = datetime(9999, 12, 28, tzinfo=UTC)
    assert len(list(Cron(expression, tz=tz).times_after(late, GROUND))) <= 4 * 24 * 60


@pytest.mark.parametrize("tz", ["UTC", "Asia/Taipei"])
@pytest.mark.parametrize("expression", ["* * * * * *", "0-59 0-59 0-23 * * *"])
def test_many_times_come_soon(tz, expression):
    began = perf_counter()
    found = list(islice(Cron(expression, tz=tz).times_after(NEW_YEAR, GROUND), 10_000))
    assert found[-1] - found[0] == timedelta(seconds=9_999)
    assert perf_counter() - began < 5


EXPRESSIONS = (
    "30 2 * * *",
    "*/20 1-3 * * *",
    "0 */2 * * *",
    "15 0,23 * * *",
    "*/30 0 * * SUN",
    "0 1 1 * MON",
    "7 * L * *",
)
ZONES = ("America/New_York", "Australia/Lord_Howe", "America/Santiago", "America/St_Johns", "Pacific/Apia", "UTC")
YEARS = st.datetimes(datetime(2009, 1, 1), datetime(2012, 12, 31), timezones=st.just(UTC))  # noqa: DTZ001


@settings(max_examples=300, deadline=None)
@given(st.sampled_from(EXPRESSIONS), st.sampled_from(ZONES), YEARS, st.floats(0, 3))
def test_where_one_starts_does_not_matter(expression, tz, moment, days):
    """Times after a later moment are those after an earlier one that come after it: nothing comes or goes."""
    rule = Cron(expression, tz=tz)
    later = moment + timedelta(days=days)
    until = later + timedelta(days=40)
    early = list(takewhile(lambda time: time < until, rule.times_after(moment, GROUND)))
    late = list(takewhile(lambda time: time < until, rule.times_after(later, GROUND)))
    assert early == sorted(set(early))
    assert [time for time in early if time > later] == late
