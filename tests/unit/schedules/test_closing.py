"""When a queue or a task is closed: windows that touch are one closing, and changing clocks are reckoned with."""

from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from standfast.errors import ConfigurationError
from standfast.schedules.closed_hours import About, ClosedHours, Closing, closing_from, declare_hours
from standfast.schedules.windows import Window

NEW_YORK = "America/New_York"
NIGHT = Window("03:00", "03:15", notice=60)
MIDSUMMER = datetime(2026, 6, 21, 12, tzinfo=UTC)


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def spans(windows: tuple[Window, ...], moment: datetime, count: int) -> list[tuple[datetime, datetime]]:
    found = []
    for _ in range(count):
        closing = closing_from(windows, moment)
        assert closing is not None
        found.append((closing.begin, closing.end))
        moment = closing.end
    return found


@pytest.mark.parametrize(
    ("moment", "begin"),
    [
        ("2026-06-21T02:59:59.999999", "2026-06-21T03:00"),
        ("2026-06-21T03:00", "2026-06-21T03:00"),
        ("2026-06-21T03:14:59.999999", "2026-06-21T03:00"),
        ("2026-06-21T03:15", "2026-06-22T03:00"),
    ],
)
def test_it_is_the_one_that_is_on_or_else_the_next(moment: str, begin: str) -> None:
    """A closing has its first moment, and not its last."""
    begins = at(begin)
    expected = Closing(begins, begins + timedelta(minutes=15), begins - timedelta(minutes=1), NIGHT)
    assert closing_from((NIGHT,), at(moment)) == expected


def test_closed_is_who_is_inside() -> None:
    """Before it begins and from its end on there is no closing that is on."""
    hours = declare_hours(About.QUEUE, "mail", NIGHT)
    closed = [
        hours.closed_at(at(f"2026-06-21T{time}")) is not None for time in ("02:59", "03:00", "03:14", "03:15")
    ]
    assert closed == [False, True, True, False]


def test_windows_that_overlap_or_touch_close_as_one() -> None:
    """The last of them says when it opens and why it is closed; whoever gives the earliest notice is heeded."""
    backup = Window("03:10", "03:30", notice=3600, reason="backup")
    recycle = Window("03:30", "03:40", reason="recycle")
    closing = closing_from((recycle, NIGHT, backup), MIDSUMMER)
    begins = at("2026-06-22T03:00")
    assert closing == Closing(begins, at("2026-06-22T03:40"), at("2026-06-22T02:10"), recycle)


def test_one_within_another_changes_nothing() -> None:
    """A window that another covers neither shortens nor splits it."""
    inner = Window("03:05", "03:10")
    assert spans((inner, NIGHT), MIDSUMMER, 2) == spans((NIGHT,), MIDSUMMER, 2)


def test_windows_apart_close_one_after_the_other() -> None:
    """Each is a closing of its own, with an opening in between."""
    noon = Window("12:00", "12:30", days="mon")
    assert spans((noon, NIGHT), at("2026-06-21T00:00"), 4) == [
        (at(f"2026-06-{begin}"), at(f"2026-06-{end}"))
        for begin, end in (
            ("21T03:00", "21T03:15"),
            ("22T03:00", "22T03:15"),
            ("22T12:00", "22T12:30"),
            ("23T03:00", "23T03:15"),
        )
    ]


def test_what_is_over_for_good_closes_nothing() -> None:
    """A window of one date in the past never comes again."""
    assert closing_from((Window("03:00", "03:15", dates="2026-06-20"),), MIDSUMMER) is None


@pytest.mark.parametrize(
    ("window", "moment", "begin", "end"),
    [
        # New York goes from 02:00 to 03:00 on 8 March 2026, and from 02:00 back to 01:00 on 1 November.
        (Window("01:30", "02:30", tz=NEW_YORK), "2026-03-08T00:00", "2026-03-08T06:30", "2026-03-08T07:00"),
        (Window("02:15", "03:30", tz=NEW_YORK), "2026-03-08T00:00", "2026-03-08T07:00", "2026-03-08T07:30"),
        (Window("02:15", "02:45", tz=NEW_YORK), "2026-03-08T06:30", "2026-03-09T06:15", "2026-03-09T06:45"),
        (Window("01:30", "01:45", tz=NEW_YORK), "2026-11-01T00:00", "2026-11-01T05:30", "2026-11-01T06:45"),
        # Lord Howe goes forward by half an hour on 4 October 2026.
        (
            Window("02:00", "02:10", tz="Australia/Lord_Howe"),
            "2026-10-03T12:00",
            "2026-10-04T15:00",
            "2026-10-04T15:10",
        ),
        # Taipei changes nothing.
        (Window("03:00", "03:15", tz="Asia/Taipei"), "2026-03-08T00:00", "2026-03-08T19:00", "2026-03-08T19:15"),
    ],
)
def test_it_goes_by_the_clocks_of_its_zone(window: Window, moment: str, begin: str, end: str) -> None:
    """What clocks skip is shortened or left out, and what they repeat is closed from first to last."""
    assert spans((window,), at(moment), 1) == [(at(begin), at(end))]


def test_windows_of_two_zones_that_meet_on_one_day_only_are_one_on_that_day_only() -> None:
    """The hour by which New York changes joins what is apart on all other days."""
    windows = (Window("06:00", "06:30"), Window("02:30", "03:00", tz=NEW_YORK))
    assert spans(windows, at("2026-07-01T00:00"), 1) == [(at("2026-07-01T06:00"), at("2026-07-01T07:00"))]
    assert spans(windows, at("2026-12-01T00:00"), 2) == [
        (at("2026-12-01T06:00"), at("2026-12-01T06:30")),
        (at("2026-12-01T07:30"), at("2026-12-01T08:00")),
    ]


# -- declaring -------------------------------------------------------------------------------------------------


def test_one_or_several_are_declared() -> None:
    """A window alone is a tuple of one."""
    other = Window("12:00", "13:00")
    assert declare_hours(About.TASK, "tidy", NIGHT) == ClosedHours(About.TASK, "tidy", (NIGHT,))
    assert declare_hours(About.QUEUE, "mail", [NIGHT, other]).windows == (NIGHT, other)


@pytest.mark.parametrize("window", [None, (), "03:00", (NIGHT, "03:00"), {NIGHT}])
def test_what_is_no_window_is_refused(window: object) -> None:
    """With whose it is, and an example."""
    with pytest.raises(ConfigurationError, match=r"queue 'mail': window must be a Window, .* window=Window\("):
        declare_hours(About.QUEUE, "mail", window)


@pytest.mark.parametrize("name", ["", "e mail", 7, "a" * 65])
def test_what_is_no_name_of_a_queue_is_refused(name: object) -> None:
    """As everywhere else."""
    with pytest.raises(ConfigurationError, match="queue must be 1 to 64 letters"):
        declare_hours(About.QUEUE, name, NIGHT)


@pytest.mark.parametrize(
    "windows",
    [
        (Window("00:00", "12:00"), Window("12:00", "24:00")),
        (
            Window("00:00", "24:00", days=("mon", "tue", "wed", "thu")),
            Window("00:00", "24:00", days=("fri", "sat", "sun")),
        ),
        (Window("00:00", "24:00", months=range(1, 7)), Window("00:00", "24:00", months=range(7, 13))),
        (Window("18:00", "08:00", tz="Asia/Taipei"), Window("00:00", "10:00")),
    ],
)
def test_windows_that_leave_no_time_are_refused(windows: tuple[Window, ...]) -> None:
    """Each alone leaves some, and together they leave none."""
    with pytest.raises(ConfigurationError, match="window: together they leave no time at all; shorten one"):
        declare_hours(About.TASK, "tidy", windows)


def test_windows_that_leave_a_minute_are_not_refused() -> None:
    """However short it is: someone may want it so."""
    hours = declare_hours(About.TASK, "tidy", (Window("00:01", "12:00"), Window("12:00", "24:00")))
    closing = hours.closing_from(MIDSUMMER)
    assert closing is not None
    assert closing.end == at("2026-06-22T00:00")


def test_they_travel_as_json() -> None:
    """A supervisor hears of them from its child, and the command line from the store."""
    hours = declare_hours(About.QUEUE, "mail", (NIGHT, Window("12:00", "13:00", days="sat", reason="lunch")))
    assert msgspec.json.decode(msgspec.json.encode(hours), type=ClosedHours) == hours
