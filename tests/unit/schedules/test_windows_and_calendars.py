"""Windows and calendars: when they are on, also where clocks change, and what is refused."""

from datetime import UTC, date, datetime, time, timedelta

import pytest

from standfast import Calendar, Cron, Every, Window
from standfast.errors import ConfigurationError
from standfast.model.phrases import Phrase
from standfast.schedules.rules import Ground

NIGHTLY = Window("03:00", "03:15", tz="Asia/Taipei")
WEEKEND = Window("00:00", "24:00", days=("sat", "sun"))


def utc(written: str) -> datetime:
    return datetime.fromisoformat(written).replace(tzinfo=UTC)


def span_at(window: Window, at: str) -> tuple[str, str] | None:
    return _written(window.span_at(utc(at)))


def next_span(window: Window, at: str) -> tuple[str, str] | None:
    return _written(window.next_span(utc(at)))


def _written(span: tuple[datetime, datetime] | None) -> tuple[str, str] | None:
    return None if span is None else (f"{span[0]:%m-%d %H:%M}", f"{span[1]:%m-%d %H:%M}")


def told(reason: Phrase | None) -> str | None:
    return None if reason is None else str(reason)


class TestWindow:
    def test_it_is_on_from_its_start_until_before_its_end(self):
        whole = ("01-01 19:00", "01-01 19:15")
        assert span_at(NIGHTLY, "2026-01-01 18:59:59") is None
        assert span_at(NIGHTLY, "2026-01-01 19:00") == whole
        assert span_at(NIGHTLY, "2026-01-01 19:14:59") == whole
        assert span_at(NIGHTLY, "2026-01-01 19:15") is None

    def test_the_next_one_begins_now_or_later(self):
        assert next_span(NIGHTLY, "2026-01-01 19:00") == ("01-01 19:00", "01-01 19:15")
        assert next_span(NIGHTLY, "2026-01-01 19:01") == ("01-02 19:00", "01-02 19:15")

    def test_it_may_cross_midnight(self):
        late = Window("22:30", "01:00", days="fri")
        whole = ("01-02 22:30", "01-03 01:00")
        assert span_at(late, "2026-01-02 23:00") == span_at(late, "2026-01-03 00:59") == whole
        assert span_at(late, "2026-01-02 00:30") is None
        assert next_span(late, "2026-01-03 00:30") == ("01-09 22:30", "01-10 01:00")

    def test_spans_that_touch_are_one(self):
        whole = ("01-03 00:00", "01-05 00:00")
        assert span_at(WEEKEND, "2026-01-03 00:00") == span_at(WEEKEND, "2026-01-04 23:59") == whole
        assert next_span(WEEKEND, "2026-01-03 00:00") == whole
        assert next_span(WEEKEND, "2026-01-03 00:01") == ("01-10 00:00", "01-12 00:00")

    def test_a_long_row_of_days_is_one_span(self):
        most = Window("00:00", "00:00", months=range(2, 13))
        whole = ("02-01 00:00", "01-01 00:00")
        assert span_at(most, "2026-07-01 12:00") == whole
        assert next_span(most, "2026-07-01 12:00") == next_span(most, "2026-01-15 00:00") == whole

    def test_months_and_dates_and_days_must_all_hold(self):
        window = Window(
            "10:00", "11:00", days="fri", months=(12, 1), dates=("12-25", date(2026, 1, 2), "2026-01-03")
        )
        assert next_span(window, "2025-12-26 00:00") == ("01-02 10:00", "01-02 11:00")
        assert next_span(window, "2026-01-03 00:00") == ("12-25 10:00", "12-25 11:00")
        assert next_span(window, "2027-01-03 00:00") == ("12-25 10:00", "12-25 11:00")  # of 2037

    def test_dates_that_are_over_have_no_next(self):
        window = Window("10:00", "11:00", dates=date(2026, 1, 2))
        assert next_span(window, "2026-01-02 10:00") == ("01-02 10:00", "01-02 11:00")
        assert next_span(window, "2026-01-02 10:01") is None

    def test_it_tells_why(self):
        moment = utc("2026-01-01 19:05")
        assert told(NIGHTLY.excluded(moment)) == "inside the window 03:00–03:15 Asia/Taipei"
        named = Window("03:00", "03:15", tz="Asia/Taipei", reason="nightly recycle")
        assert told(named.excluded(moment)) == "inside the window 03:00–03:15 Asia/Taipei: nightly recycle"
        assert NIGHTLY.excluded(utc("2026-01-01 03:05")) is None

    def test_times_have_one_form(self):
        assert Window("3:00", time(3, 15)) == Window("03:00", "03:15:00")
        assert Window("03:00:30", "24:00").start == "03:00:30"
        assert Window("03:00", "03:15", notice=timedelta(minutes=2)).notice == 120.0
        assert Window("03:00", "03:15", days=["Sunday", "mon"]).days == ("mon", "sun")


class TestWindowWhereClocksChange:
    """New York: from 02:00 to 03:00 on 8 March 2026, 07:00 UTC; from 02:00 to 01:00 on 1 November, 06:00 UTC."""

    @pytest.mark.parametrize(
        ("start", "end", "expected"),
        [
            ("01:30", "02:30", ("03-08 06:30", "03-08 07:00")),  # its end is skipped
            ("02:30", "03:30", ("03-08 07:00", "03-08 07:30")),  # its start is skipped
            ("02:15", "02:45", ("03-09 06:15", "03-09 06:45")),  # both are
            ("01:00", "04:00", ("03-08 06:00", "03-08 08:00")),  # it goes round
        ],
    )
    def test_forward(self, start, end, expected):
        assert next_span(Window(start, end, tz="America/New_York"), "2026-03-08 05:00") == expected

    @pytest.mark.parametrize(
        ("start", "end", "expected"),
        [
            ("01:15", "01:45", ("11-01 05:15", "11-01 06:45")),  # both come twice
            ("00:30", "01:30", ("11-01 04:30", "11-01 06:30")),  # its end does
            ("01:30", "02:30", ("11-01 05:30", "11-01 07:30")),  # its start does
            ("02:00", "03:00", ("11-01 07:00", "11-01 08:00")),  # neither
        ],
    )
    def test_back(self, start, end, expected):
        window = Window(start, end, tz="America/New_York")
        assert next_span(window, "2026-11-01 04:00") == expected
        assert (
            _written(window.span_at(window.next_span(utc("2026-11-01 04:00"))[1] - timedelta(minutes=1)))
            == expected
        )

    def test_a_whole_day_has_23_or_25_hours(self):
        sundays = Window("00:00", "24:00", days="sun", tz="America/New_York")
        assert next_span(sundays, "2026-03-07 00:00") == ("03-08 05:00", "03-09 04:00")
        assert next_span(sundays, "2026-10-31 00:00") == ("11-01 04:00", "11-02 05:00")

    def test_midnight_may_be_skipped(self):
        """Santiago, 6 September 2026: after 23:59 comes 01:00 (04:00 UTC)."""
        assert next_span(Window("00:00", "02:00", tz="America/Santiago"), "2026-09-05 12:00") == (
            "09-06 04:00",
            "09-06 05:00",
        )
        assert next_span(Window("23:00", "00:30", tz="America/Santiago"), "2026-09-05 12:00") == (
            "09-06 03:00",
            "09-06 04:00",
        )


class TestBadWindow:
    @pytest.mark.parametrize(
        "options",
        [
            {},
            {"days": ("mon", "tue", "wed", "thu", "fri", "sat", "sun")},
            {"months": range(1, 13)},
            {"dates": [f"{date(2000, 1, 1) + timedelta(days=day):%m-%d}" for day in range(366)]},
        ],
    )
    @pytest.mark.parametrize(("start", "end"), [("00:00", "24:00"), ("00:00", "00:00"), ("03:00", "03:00")])
    def test_one_that_covers_everything_is_refused(self, start, end, options):
        with pytest.raises(
            ConfigurationError, match=r"covers the whole day, every day.* as in Window\(\"03:00\", \"03:15\""
        ):
            Window(start, end, **options)

    @pytest.mark.parametrize(
        "bad", ["25:00", "3", "03:60", "0300", "03:00+08:00", 3, None, "24:00", time(3, tzinfo=UTC)]
    )
    def test_a_bad_time_is_refused(self, bad):
        with pytest.raises(
            ConfigurationError, match=r"the start of a window must be a time of the day, as in Window\("
        ):
            Window(bad, "04:00")

    @pytest.mark.parametrize(
        ("options", "words"),
        [
            ({"tz": "Asia/Tapei"}, "did you mean 'Asia/Taipei'?"),
            ({"days": "someday"}, "'someday' is no weekday"),
            ({"days": ()}, "is never on: no day is all that it asks for"),
            ({"months": 13}, "a month of a window must be a number from 1 to 12, not 13"),
            ({"dates": "2026-02-30"}, "is no date"),
            ({"dates": ()}, "is never on"),
            ({"dates": date(2026, 12, 25), "days": "mon"}, "is never on: no day is all that it asks for"),
            ({"dates": "12-25", "months": 6}, "is never on"),
            ({"notice": -1}, "notice must be a timedelta or seconds"),
            ({"reason": 5}, 'reason must be a text, as in reason="nightly recycle"'),
            ({"zone": "UTC"}, "Window has no option 'zone'"),
        ],
        ids=str,
    )
    def test_bad_options_are_refused(self, options, words):
        with pytest.raises(ConfigurationError) as refused:
            Window("03:00", "03:15", **options)
        assert words in str(refused.value)


class TestCalendar:
    OFFICE = Calendar(
        "office",
        weekdays=("sat", "Sunday"),
        dates="05-01",
        holidays={date(2026, 12, 25): "Christmas"},
        tz="Asia/Taipei",
    )

    @pytest.mark.parametrize(
        ("moment", "reason"),
        [
            ("2026-12-25 12:00", "2026-12-25 is a holiday: Christmas"),
            ("2026-12-24 16:00", "2026-12-25 is a holiday: Christmas"),  # it is the 25th in Taipei
            ("2026-12-24 15:59", None),
            ("2027-12-24 12:00", None),
            ("2026-01-03 12:00", "Saturday (calendar office)"),
            ("2026-01-02 16:00", "Saturday (calendar office)"),
            ("2026-01-02 15:59", None),
            ("2026-05-01 12:00", "2026-05-01 is excluded (calendar office)"),
            ("2028-05-01 12:00", "2028-05-01 is excluded (calendar office)"),
        ],
    )
    def test_it_tells_why(self, moment, reason):
        assert told(self.OFFICE.excluded(utc(moment))) == reason
        assert told(Every(60, exclude=self.OFFICE).excluded(utc(moment))) == reason

    @pytest.mark.parametrize(
        ("options", "words"),
        [
            ({}, "the calendar 'x' has no days; give some, as in Calendar("),
            (
                {"weekdays": ("mon", "tue", "wed", "thu", "fri", "sat", "sun")},
                "has every day of the week, so that nothing",
            ),
            ({"holidays": "christmas"}, "holidays must map dates to names"),
            ({"holidays": {"12-25": ""}}, "the holiday of 12-25 must have a name"),
            ({"dates": 5}, "5 is no date"),
            ({"weekdays": "sat", "tz": "Nowhere"}, "there is no time zone 'Nowhere'"),
            ({"weekday": "sat"}, "Calendar has no option 'weekday'; did you mean weekdays?"),
        ],
        ids=str,
    )
    def test_bad_ones_are_refused(self, options, words):
        with pytest.raises(ConfigurationError) as refused:
            Calendar("x", **options)
        assert words in str(refused.value)

    def test_it_must_have_a_name(self):
        with pytest.raises(ConfigurationError, match="a calendar must have a name"):
            Calendar("", weekdays="sat")


class TestExclude:
    @pytest.mark.parametrize(
        ("exclude", "moment", "reason"),
        [
            ("sat", "2026-01-03 12:00", "Saturday"),
            (date(2026, 1, 3), "2026-01-03 12:00", "2026-01-03 is excluded"),
            ("01-03", "2026-01-03 12:00", "2026-01-03 is excluded"),
            ("01-03", "2026-01-04 12:00", None),
            (["sun", NIGHTLY], "2026-01-03 19:00", "inside the window 03:00–03:15 Asia/Taipei"),
            (["sun", NIGHTLY], "2026-01-03 20:00", None),
        ],
    )
    def test_the_reason_is_told(self, exclude, moment, reason):
        assert told(Every(60, exclude=exclude).excluded(utc(moment))) == reason

    def test_bare_days_are_of_the_zone_of_the_rule(self):
        rule = Cron("0 * * * *", tz="Asia/Taipei", exclude=("sat", date(2026, 1, 5)))
        assert told(rule.excluded(utc("2026-01-02 16:00"))) == "Saturday"
        assert rule.excluded(utc("2026-01-03 16:00")) is None
        assert told(rule.excluded(utc("2026-01-04 16:00"))) == "2026-01-05 is excluded"

    def test_times_are_told_with_those_that_are_excluded(self):
        rule = Cron("0 12 * * *", exclude=("sat", "sun"))
        found = rule.times_after(utc("2026-01-02 13:00"), Ground("test", utc("2026-01-01")))
        assert told(rule.excluded(next(found))) == "Saturday"
