"""Rules in plain words, and what is to come of them."""

import random
from datetime import UTC, date, datetime, timedelta

import pytest

from standfast import At, Calendar, Cron, Every, Window
from standfast.errors import ConfigurationError
from standfast.model.phrases import Phrase
from standfast.schedules.description import Upcoming, describe, upcoming
from standfast.schedules.rules import Ground

NEW_YEAR = datetime(2026, 1, 1, tzinfo=UTC)
GROUND = Ground("nightly", NEW_YEAR)


@pytest.mark.parametrize(
    ("expression", "words"),
    [
        ("0 2 * * *", "at 02:00 every day, UTC"),
        ("0 9,17 * * *", "at 09:00 and 17:00 every day, UTC"),
        ("15 30 2 * * *", "at 02:30:15 every day, UTC"),
        ("*/20 8 * * *", "at 08:00, 08:20 and 08:40 every day, UTC"),
        ("* * * * *", "every minute"),
        ("*/15 * * * *", "every 15 minutes"),
        ("0,15,30,45 * * * *", "every 15 minutes"),
        ("7-59/15 * * * *", "every 15 minutes from minute 7"),
        ("*/7 * * * *", "every hour at every 7th minute from 0 to 56"),
        ("@hourly", "every hour"),
        ("5 * * * *", "every hour at minute 5"),
        ("5,6,7,20 * * * *", "every hour at minutes 5 to 7 and 20"),
        ("* * * * * *", "every second"),
        ("*/10 * * * * *", "every 10 seconds"),
        ("30 * * * * *", "every minute at second 30"),
        ("10-40 * * * * *", "every minute at seconds 10 to 40"),
        ("5 1-20 * * * *", "at second 5 of minutes 1 to 20 of every hour"),
        ("5 1-20 3 * * *", "at second 5 of minutes 1 to 20 of hour 3 every day, UTC"),
        ("*/15 9-17 * * *", "every 15 minutes from 09:00 to 17:45 every day, UTC"),
        ("* 8 * * *", "every minute from 08:00 to 08:59 every day, UTC"),
        ("30 9-17 * * *", "every hour from 09:30 to 17:30 every day, UTC"),
        ("5 */2 * * *", "every 2 hours from 00:05 every day, UTC"),
        ("1-20 3,5 * * *", "at minutes 1 to 20 of hours 3 and 5 every day, UTC"),
        ("0 9 * * 1-5", "at 09:00 on weekdays, UTC"),
        ("0 9 * * MON,THU", "at 09:00 on Mondays and Thursdays, UTC"),
        ("0 9 * * 1-4", "at 09:00 on Mondays to Thursdays, UTC"),
        ("0 9 * * 0,6,7", "at 09:00 on Saturdays and Sundays, UTC"),
        ("0 9 * * 0-7", "at 09:00 every day, UTC"),
        ("*/5 * * * 6", "every 5 minutes on Saturdays, UTC"),
        ("0 9 * * 5L", "at 09:00 on the last Friday of the month, UTC"),
        ("0 9 * 3 FRI#2", "at 09:00 on the second Friday of March, UTC"),
        ("0 9 * * 1,3#2", "at 09:00 on Mondays and on the second Wednesday of the month, UTC"),
        ("0 9 * 6-8 1", "at 09:00 on Mondays in June to August, UTC"),
        ("0 0 1,15 * *", "at 00:00 on the 1st and the 15th of the month, UTC"),
        (
            "0 0 2,3,11,12,13,21,22,23 * *",
            "at 00:00 on the 2nd, the 3rd, the 11th to 13th and the 21st to 23rd of the month, UTC",
        ),
        ("0 0 1-7,L * *", "at 00:00 on the 1st to 7th and the last day of the month, UTC"),
        ("0 0 LW * *", "at 00:00 on the last weekday of the month, UTC"),
        ("0 0 */2 * *", "at 00:00 on every 2nd day from the 1st to the 31st of the month, UTC"),
        ("0 0 25 12 *", "at 00:00 on the 25th of December, UTC"),
        ("0 0 * 1,6 *", "at 00:00 every day in January and June, UTC"),
        ("* * * 1 *", "every minute in January, UTC"),
        ("0 0 6 * MON", "at 00:00 on the 6th of the month or on Mondays, UTC"),
        (
            "0 0 */2 * MON",
            "at 00:00 on every 2nd day from the 1st to the 31st of the month, but only on Mondays, UTC",
        ),
    ],
)
def test_cron(expression, words):
    assert str(describe(Cron(expression))) == words


@pytest.mark.parametrize(
    ("expression", "words", "drawn"),
    [
        ("H * * * *", "every hour at a minute of its own", "every hour at minute 13"),
        ("H/15 * * * *", "every 15 minutes from a minute of its own", "every 15 minutes from minute 3"),
        ("H H * * *", "at a time of its own every day, UTC", "at 16:13 every day, UTC"),
        ("H 2 * * *", "at a minute of its own from 02:00 to 02:59 every day, UTC", "at 02:13 every day, UTC"),
        ("H(0-29) 2 * * *", "at a minute of its own from 02:00 to 02:29 every day, UTC", "at 02:06 every day, UTC"),
        (
            "0 H(2-4) * * *",
            "at minute 0 of an hour of its own from 2 to 4 every day, UTC",
            "at 04:00 every day, UTC",
        ),
        ("0 2 H * *", "at 02:00 on a day of its own of the month, UTC", "at 02:00 on the 5th of the month, UTC"),
        ("0 2 * * H", "at 02:00 on a weekday of its own, UTC", "at 02:00 on Wednesdays, UTC"),
        ("H/7 * * * *", "every hour at every 7th minute from a minute of its own", None),
        ("H 2 * * * *", "at a second of its own of minute 2 of every hour", None),
    ],
)
def test_what_is_drawn_is_told_where_the_name_is_known(expression, words, drawn):
    assert str(describe(Cron(expression))) == words
    if drawn is not None:
        assert str(describe(Cron(expression), GROUND)) == drawn


def test_every_expression_that_is_taken_has_words():
    """Whatever there is in its fields, and whether the name is known or not."""
    source = random.Random(7)
    for _ in range(500):
        expression = " ".join(source.choice(COMMON + own) for own in OWN)
        try:
            rule = Cron(expression)
        except ConfigurationError as refused:
            assert "never comes" in str(refused)  # noqa: PT017
            continue
        assert str(describe(rule)), expression
        assert "its own" not in str(describe(rule, GROUND)), expression
        assert upcoming(rule, GROUND, NEW_YEAR, 1), expression


COMMON = ["*", "*/2", "*/7", "H", "H/5", "1", "2-4", "1-5/2", "1,3", "3/2", "H(1-5)", "H(1-5)/2", "H,3", "*,2"]
OWN = [
    ["0", "*/15", "59"],
    ["0", "*/15", "59"],
    ["0", "*/6", "9-17"],
    ["L", "LW", "31", "L,15", "LW,1", "28-31", "1-7"],
    ["JAN", "FEB-APR", "12", "H(2-2)"],
    ["MON", "SUN", "7", "FRI#2", "5L", "MON-FRI", "1#5", "MON,5L,TUE#1", "0-7"],
]


def test_the_zone_is_told_where_it_matters():
    assert str(describe(Cron("0 2 * * *", tz="Asia/Taipei"))) == "at 02:00 every day, Asia/Taipei time"
    assert str(describe(Cron("*/15 * * * *", tz="Asia/Taipei"))) == "every 15 minutes"


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        (Every(1), "every second"),
        (Every(60), "every minute"),
        (Every(timedelta(minutes=15)), "every 15 minutes"),
        (Every(5400), "every 1 hour and 30 minutes"),
        (Every(0.5), "every 0.5 seconds"),
        (Every(90061), "every 1 day, 1 hour, 1 minute and 1 second"),
        (Every(3600, anchored=True), "every hour, counted from midnight UTC"),
        (Every(7, anchored=True), "every 7 seconds, counted from 1970-01-01 00:00 UTC"),
        (At(NEW_YEAR), "once at 2026-01-01 00:00 UTC"),
        (At(NEW_YEAR, NEW_YEAR + timedelta(seconds=5)), "once at 2026-01-01 00:00 UTC and 2026-01-01 00:00:05 UTC"),
        (
            At(*(NEW_YEAR + timedelta(days=day) for day in range(9))),
            "at 9 moments from 2026-01-01 00:00 UTC to 2026-01-09 00:00 UTC",
        ),
        (Cron("0 9 * * *", tz="Asia/Taipei") | Every(3600), "at 09:00 every day, Asia/Taipei time; or every hour"),
        (
            Cron("0 9 * * 1-5", exclude=(date(2026, 1, 1), "12-25", Window("03:00", "03:15"))),
            "at 09:00 on weekdays, UTC, excluding 2 dates and 03:00–03:15",
        ),
        (
            Every(
                60,
                exclude=(
                    "sun",
                    "sat",
                    Window("03:00", "03:15", tz="Asia/Taipei", days="sun", months=3),
                    Calendar("x", dates="01-01"),
                ),
            ),
            (
                "every minute, excluding Saturdays, Sundays, 03:00–03:15 Asia/Taipei on Sundays in March"
                " and the days of the calendar x"
            ),
        ),
        (
            Every(60, start=NEW_YEAR, end=NEW_YEAR + timedelta(days=1), jitter=60),
            "every minute, from 2026-01-01 00:00 UTC, until 2026-01-02 00:00 UTC, put off by up to 1 minute",
        ),
    ],
)
def test_other_rules(rule, words):
    assert str(describe(rule)) == words


def test_what_is_to_come_is_told_with_why_not():
    rule = Cron("0 2 * * *", jitter=60, exclude="sat")
    assert upcoming(rule, GROUND, datetime(2026, 1, 1, 12, tzinfo=UTC), 2) == (
        Upcoming(at := datetime(2026, 1, 2, 2, tzinfo=UTC), rule.run_at(at, GROUND)),
        Upcoming(at := datetime(2026, 1, 3, 2, tzinfo=UTC), rule.run_at(at, GROUND), Phrase("weekday.sat")),
    )


def test_what_is_to_come_may_end():
    assert upcoming(At(NEW_YEAR), GROUND, NEW_YEAR - timedelta(days=1), 10) == (Upcoming(NEW_YEAR, NEW_YEAR),)


NEW_YORK = {"tz": "America/New_York"}


@pytest.mark.parametrize(
    ("rule", "after", "notes"),
    [
        (
            Cron("30 2 * * *", **NEW_YORK),
            "2026-03-08 00:00",
            ["02:30 does not come that day, as clocks go from 02:00 to 03:00", None],
        ),
        (
            Cron("15,45 2,3 * * *", **NEW_YORK),
            "2026-03-08 00:00",
            ["02:15 does not come that day, as clocks go from 02:00 to 03:00", None, None, None],
        ),
        (Cron("0 3 * * *", **NEW_YORK), "2026-03-08 00:00", [None, None]),
        (Cron("*/30 3 * * *", **NEW_YORK), "2026-03-08 00:00", [None, None]),
        (
            Cron("30 1 * * *", **NEW_YORK),
            "2026-11-01 00:00",
            ["01:30 comes twice that day, as clocks go back: it runs the first time only", None],
        ),
        (
            Cron("*/30 1 * * *", **NEW_YORK),
            "2026-11-01 05:00",
            [
                "01:30 comes twice that day, as clocks go back: it runs the first time",
                "01:00 comes twice that day, as clocks go back: it runs the second time",
                "01:30 comes twice that day, as clocks go back: it runs the second time",
                None,
            ],
        ),
        (
            Cron("30 2 * * *", **NEW_YORK) | Every(86400),
            "2026-03-08 01:00",
            ["02:30 does not come that day, as clocks go from 02:00 to 03:00", None],
        ),
        (Every(3600, anchored=True), "2026-03-08 06:30", [None, None]),
        (Cron("30 2 * * *"), "2026-03-08 00:00", [None]),
    ],
)
def test_changed_clocks_are_told(rule, after, notes):
    moment = datetime.fromisoformat(after).replace(tzinfo=UTC)
    told = [each.note for each in upcoming(rule, GROUND, moment, len(notes))]
    assert [None if note is None else str(note) for note in told] == notes
