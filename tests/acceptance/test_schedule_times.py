"""The times of schedules are right: on the days when clocks change, and by an independent reading of cron.

Three judges, from the strictest to the broadest:

1. Instants written by hand, for both changes of four zones. Taipei has not changed its clocks since 1979.
2. A daemon that is simulated minute by minute, as Debian's cron is described in its manual, for random expressions
   around those changes. It reads expressions with croniter.
3. croniter itself, for random expressions, zones and instants. What it does when clocks change is its own
   definition, so instants are compared as far as the offset stays that of the start. It is told to read days as
   every cron does (`implement_cron_bug`); the last Friday is written L5 for it, and Sunday 0, as it does not always
   know 7. It does not take a day of the month beside L or # of a weekday: the unit tests have these.
"""

import random
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import islice
from zoneinfo import ZoneInfo

import pytest
from croniter import croniter
from fleet import PROVE

from standfast import Cron
from standfast.schedules.rules import Ground

EXPRESSIONS = 10_000 if PROVE else 500
AROUND_CHANGES = 2_000 if PROVE else 100
COMPARED = 5

GROUND = Ground("test", datetime(2026, 1, 1, tzinfo=UTC))
MINUTE = timedelta(minutes=1)

pytestmark = pytest.mark.timeout(1800 if PROVE else 120)


# -- by hand -----------------------------------------------------------------------------------------------------

NEW_YORK_FORWARD = [  # on 8 March 2026 at 02:00 EST = 07:00 UTC clocks go to 03:00 EDT
    ("30 2 * * *", "2026-03-07 12:00", ["2026-03-08 07:00", "2026-03-09 06:30"]),
    ("0 30 2 * * *", "2026-03-07 12:00", ["2026-03-08 07:00", "2026-03-09 06:30"]),
    ("0,20,40 2 * * *", "2026-03-07 12:00", ["2026-03-08 07:00", "2026-03-09 06:00", "2026-03-09 06:20"]),
    ("30 2,3 * * *", "2026-03-07 12:00", ["2026-03-08 07:00", "2026-03-08 07:30", "2026-03-09 06:30"]),
    ("0 2,3 * * *", "2026-03-07 12:00", ["2026-03-08 07:00", "2026-03-09 06:00", "2026-03-09 07:00"]),
    ("30 1 * * *", "2026-03-07 12:00", ["2026-03-08 06:30", "2026-03-09 05:30"]),
    ("0 3 * * *", "2026-03-07 12:00", ["2026-03-08 07:00", "2026-03-09 07:00"]),
    ("*/30 * * * *", "2026-03-08 06:00", ["2026-03-08 06:30", "2026-03-08 07:00", "2026-03-08 07:30"]),
    ("*/30 2 * * *", "2026-03-07 12:00", ["2026-03-09 06:00", "2026-03-09 06:30"]),
    ("0 */2 * * *", "2026-03-08 05:00", ["2026-03-08 08:00", "2026-03-08 10:00"]),
    ("59 59 1-3 * * *", "2026-03-08 06:00", ["2026-03-08 06:59:59", "2026-03-08 07:00", "2026-03-08 07:59:59"]),
]
NEW_YORK_BACK = [  # on 1 November 2026 at 02:00 EDT = 06:00 UTC clocks go to 01:00 EST
    ("30 1 * * *", "2026-10-31 12:00", ["2026-11-01 05:30", "2026-11-02 06:30"]),
    ("30 1 * * *", "2026-11-01 05:30", ["2026-11-02 06:30"]),
    ("30 1 * * *", "2026-11-01 06:10", ["2026-11-02 06:30"]),
    ("0 30 1 * * *", "2026-10-31 12:00", ["2026-11-01 05:30", "2026-11-02 06:30"]),
    ("0 2 * * *", "2026-10-31 12:00", ["2026-11-01 07:00", "2026-11-02 07:00"]),
    ("*/30 1 * * *", "2026-10-31 12:00", ["2026-11-01 05:00", "2026-11-01 05:30", "2026-11-01 06:00"]),
    ("*/30 1 * * *", "2026-11-01 06:00", ["2026-11-01 06:30", "2026-11-02 06:00"]),
    ("*/30 * * * *", "2026-11-01 05:00", ["2026-11-01 05:30", "2026-11-01 06:00", "2026-11-01 06:30"]),
    ("0 * * * *", "2026-11-01 04:00", ["2026-11-01 05:00", "2026-11-01 06:00", "2026-11-01 07:00"]),
]
LORD_HOWE_FORWARD = [  # on 4 October 2026 at 02:00 +10:30 = 3 October 15:30 UTC clocks go to 02:30 +11
    ("15 2 * * *", "2026-10-03 00:00", ["2026-10-03 15:30", "2026-10-04 15:15"]),
    ("45 2 * * *", "2026-10-03 00:00", ["2026-10-03 15:45", "2026-10-04 15:45"]),
    ("*/15 2 * * *", "2026-10-03 00:00", ["2026-10-03 15:30", "2026-10-03 15:45", "2026-10-04 15:00"]),
    ("*/10 3 * * *", "2026-10-03 00:00", ["2026-10-03 16:00", "2026-10-03 16:10", "2026-10-03 16:20"]),
    ("0 * * * *", "2026-10-03 14:00", ["2026-10-03 14:30", "2026-10-03 16:00", "2026-10-03 17:00"]),
]
LORD_HOWE_BACK = [  # on 5 April 2026 at 02:00 +11 = 4 April 15:00 UTC clocks go to 01:30 +10:30
    ("45 1 * * *", "2026-04-04 00:00", ["2026-04-04 14:45", "2026-04-05 15:15"]),
    ("15 1 * * *", "2026-04-04 00:00", ["2026-04-04 14:15", "2026-04-05 14:45"]),
    ("0 2 * * *", "2026-04-04 00:00", ["2026-04-04 15:30", "2026-04-05 15:30"]),
    ("*/15 1 * * *", "2026-04-04 14:00", ["2026-04-04 14:15", "2026-04-04 14:30", "2026-04-04 14:45"]),
    ("*/15 1 * * *", "2026-04-04 14:45", ["2026-04-04 15:00", "2026-04-04 15:15", "2026-04-05 14:30"]),
    ("*/10 3 * * *", "2026-04-04 00:00", ["2026-04-04 16:30", "2026-04-04 16:40", "2026-04-04 16:50"]),
]
SANTIAGO_FORWARD = [  # on 6 September 2026 at 00:00 -04 = 04:00 UTC clocks go to 01:00 -03
    ("30 0 * * *", "2026-09-05 12:00", ["2026-09-06 04:00", "2026-09-07 03:30"]),
    ("@daily", "2026-09-05 12:00", ["2026-09-06 04:00", "2026-09-07 03:00"]),
    ("0 1 * * *", "2026-09-05 12:00", ["2026-09-06 04:00", "2026-09-07 04:00"]),
    ("*/30 0 * * *", "2026-09-05 12:00", ["2026-09-07 03:00", "2026-09-07 03:30"]),
    ("*/30 0 * * SUN", "2026-09-01 00:00", ["2026-09-13 03:00", "2026-09-13 03:30"]),
    ("0 */6 * * *", "2026-09-05 22:00", ["2026-09-06 09:00", "2026-09-06 15:00"]),
]
SANTIAGO_BACK = [  # at the end of 4 April 2026, 24:00 -03 = 5 April 03:00 UTC, clocks go to 23:00 -04
    ("30 23 * * *", "2026-04-04 12:00", ["2026-04-05 02:30", "2026-04-06 03:30"]),
    ("0 0 * * *", "2026-04-04 12:00", ["2026-04-05 04:00", "2026-04-06 04:00"]),
    ("*/30 23 * * *", "2026-04-04 12:00", ["2026-04-05 02:00", "2026-04-05 02:30", "2026-04-05 03:00"]),
    ("*/30 23 * * SAT", "2026-04-05 03:00", ["2026-04-05 03:30", "2026-04-12 03:00"]),
]
TAIPEI = [  # no clock is changed
    ("0 2 * * *", "2026-03-07 12:00", ["2026-03-07 18:00", "2026-03-08 18:00"]),
    ("30 2 * * *", "2026-03-28 12:00", ["2026-03-28 18:30", "2026-03-29 18:30"]),
    ("0 0 1 * *", "2026-10-20 00:00", ["2026-10-31 16:00", "2026-11-30 16:00"]),
]
TAIPEI_FORWARD = [  # on 1 July 1979 at 00:00 +08 = 30 June 16:00 UTC clocks went to 01:00 +09
    ("30 0 * * *", "1979-06-30 00:00", ["1979-06-30 16:00", "1979-07-01 15:30"]),
    ("*/30 0 * * *", "1979-06-30 00:00", ["1979-07-01 15:00", "1979-07-01 15:30"]),
]
TAIPEI_BACK = [  # at the end of 30 September 1979, 24:00 +09 = 15:00 UTC, clocks went to 23:00 +08
    ("30 23 * * *", "1979-09-30 00:00", ["1979-09-30 14:30", "1979-10-01 15:30"]),
    ("*/30 23 * * *", "1979-09-30 00:00", ["1979-09-30 14:00", "1979-09-30 14:30", "1979-09-30 15:00"]),
]
BY_HAND = [
    pytest.param(zone, *case, id=f"{zone}: {case[0]} after {case[1]}")
    for zone, cases in (
        ("America/New_York", NEW_YORK_FORWARD + NEW_YORK_BACK),
        ("Australia/Lord_Howe", LORD_HOWE_FORWARD + LORD_HOWE_BACK),
        ("America/Santiago", SANTIAGO_FORWARD + SANTIAGO_BACK),
        ("Asia/Taipei", TAIPEI + TAIPEI_FORWARD + TAIPEI_BACK),
    )
    for case in cases
]


@pytest.mark.parametrize(("zone", "expression", "after", "expected"), BY_HAND)
def test_clocks_change(zone, expression, after, expected):
    assert first(Cron(expression, tz=zone), utc(after), len(expected)) == [utc(time) for time in expected]


# -- by a daemon -------------------------------------------------------------------------------------------------

CHANGES = [
    ("America/New_York", utc_change)
    for utc_change in ("2026-03-08 07:00", "2026-11-01 06:00", "2027-03-14 07:00", "2027-11-07 06:00")
]
CHANGES += [("Australia/Lord_Howe", "2026-10-03 15:30"), ("Australia/Lord_Howe", "2026-04-04 15:00")]
CHANGES += [("America/Santiago", "2026-09-06 04:00"), ("America/Santiago", "2026-04-05 03:00")]
CHANGES += [("Asia/Taipei", "1979-06-30 16:00"), ("Asia/Taipei", "1979-09-30 15:00")]
CHANGES += [("America/St_Johns", "2010-03-14 03:31"), ("America/St_Johns", "2010-11-07 02:31")]
CHANGES += [("Antarctica/Troll", "2026-03-29 01:00"), ("Antarctica/Troll", "2026-10-25 01:00")]
"""When clocks change, also in two odd places: a minute after midnight, and by two hours."""


@pytest.mark.parametrize(("zone", "change"), CHANGES)
def test_a_simulated_daemon_agrees_when_clocks_change(zone, change):
    source = random.Random(f"{zone} {change}")
    for _ in range(AROUND_CHANGES // 4):
        expression = random_times(source) + source.choice([" * * *", " * * SUN", " * * SAT,SUN", " * * 1-6"])
        start = utc(change) - timedelta(minutes=source.randrange(30 * 60))
        end = utc(change) + timedelta(hours=30)
        expected = [
            time
            for time in daemon(expression, ZoneInfo(zone), utc(change) - timedelta(days=2), end)
            if time > start
        ]
        times = Cron(expression, tz=zone, end=end).times_after(start, GROUND)
        assert list(times) == expected, f"{expression} in {zone} after {start}"


def daemon(expression: str, zone: ZoneInfo, start: datetime, end: datetime) -> Iterator[datetime]:
    """Yield when a daemon that looks at the clock on the wall each minute runs a job of five fields.

    As Debian's manual has it: jobs with a `*` in the minute or the hour run whenever the clock shows their time. Of
    all others those that were jumped over run at once, and those that come again do not run again.
    """
    minutes, hours, _, _, weekdays = (set(field) for field in croniter.expand(expression)[0])
    names_times = not any(field.startswith("*") for field in expression.split()[:2])

    def fits(wall: datetime) -> bool:
        today = "*" in weekdays or wall.isoweekday() % 7 in weekdays
        return today and ("*" in hours or wall.hour in hours) and ("*" in minutes or wall.minute in minutes)

    now = start
    shown = now.astimezone(zone).replace(tzinfo=None)
    while now < end:
        now += MINUTE
        wall = now.astimezone(zone).replace(tzinfo=None)
        if not names_times:
            if fits(wall):
                yield now
            continue
        come = [shown + MINUTE * number for number in range(1, (wall - shown) // MINUTE + 1)]
        if any(map(fits, come)):
            yield now
        shown = max(shown, wall)


# -- by croniter ---------------------------------------------------------------------------------------------------

ZONES = ("UTC", "America/New_York", "Australia/Lord_Howe", "America/Santiago", "Asia/Taipei", "Asia/Kathmandu")


def test_croniter_agrees():
    compared = 0
    for number in range(EXPRESSIONS):
        source = random.Random(number)
        expression, zone = random_expression(source), source.choice(ZONES)
        start = datetime(2000, 1, 1, tzinfo=UTC) + timedelta(seconds=source.randrange(40 * 365 * 86400))
        theirs = by_croniter(expression, start.astimezone(ZoneInfo(zone)))
        ours = first(Cron(expression, tz=zone), start, len(theirs))
        assert ours == theirs, f"case {number}: {expression!r} in {zone} after {start}"
        compared += len(theirs)
    assert compared > EXPRESSIONS * COMPARED * 0.5, "too few of the times could be compared"


def by_croniter(expression: str, start: datetime) -> list[datetime]:
    """Return its next times in UTC, as long as no clock is changed."""
    written = " ".join("L5" if field == "5L" else field for field in expression.split())
    times = croniter(
        written,
        start,
        ret_type=datetime,
        second_at_beginning=True,
        implement_cron_bug=True,
        max_years_between_matches=50,
    )
    found: list[datetime] = []
    for time in islice(times, COMPARED):
        if time.utcoffset() != start.utcoffset():
            break
        found.append(time.astimezone(UTC))
    return found


# -- random expressions --------------------------------------------------------------------------------------------

MONTHS = ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")
WEEKDAYS = ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")


def random_expression(source: random.Random) -> str:
    """Return five fields, or six. The day is at most the 28th, so that it comes in every month."""
    day = source.choice(["*"] * 4 + [random_field(source, 1, 28), random_field(source, 1, 28), "*/2", "*/7", "L"])
    month = source.choice(["*"] * 4 + [random_field(source, 1, 12), source.choice(MONTHS)])
    nth = f"{source.choice(WEEKDAYS)}#{source.randint(1, 4)}"
    weekday = source.choice(
        ["*"] * 4 + [random_field(source, 0, 6), source.choice(WEEKDAYS), "MON-FRI", "*/2", nth, "5L"]
    )
    if "#" in weekday or "L" in weekday:
        day = "*"  # croniter does not take both
    fields = f"{random_times(source)} {day} {month} {weekday}"
    return f"{random_field(source, 0, 59)} {fields}" if source.random() < 0.25 else fields


def random_times(source: random.Random) -> str:
    minute = source.choice(["*", "0", "*/15", random_field(source, 0, 59)])
    return f"{minute} {source.choice(['*', '*/2', random_field(source, 0, 23), random_field(source, 0, 4)])}"


def random_field(source: random.Random, least: int, most: int) -> str:
    low, high = sorted(source.sample(range(least, most + 1), 2))
    step = source.randint(2, 9)
    several = ",".join(map(str, sorted(source.sample(range(least, most + 1), 3))))
    return source.choice([str(low), several, f"{low}-{high}", f"{low}-{high}/{step}", f"*/{step}", f"{low},{high}"])


def first(rule: Cron, after: datetime, count: int) -> list[datetime]:
    return list(islice(rule.times_after(after, GROUND), count))


def utc(written: str) -> datetime:
    return datetime.fromisoformat(written).replace(tzinfo=UTC)
