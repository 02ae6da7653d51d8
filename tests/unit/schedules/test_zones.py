"""Time zones: names that there are, names that were meant, and when a clock shows what."""

from datetime import UTC, datetime, timedelta

import pytest

from standfast import Cron
from standfast.errors import ConfigurationError
from standfast.schedules.zones import change_between, find_zone, first_instant, last_instant, offset_at

NEW_YORK = find_zone("America/New_York")


@pytest.mark.parametrize("name", ["UTC", "Asia/Taipei", "America/Argentina/Buenos_Aires", "Etc/GMT+8"])
def test_iana_names_are_known(name):
    assert find_zone(name).utcoffset(datetime(2026, 1, 1)) is not None  # noqa: DTZ001


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("Asia/Tapei", "Asia/Taipei"),
        ("asia/taipei", "Asia/Taipei"),
        ("Taipei", "Asia/Taipei"),
        ("new york", "America/New_York"),
        ("America/NewYork", "America/New_York"),
        ("Europe/Berln", "Europe/Berlin"),
    ],
)
def test_a_near_name_is_told(name, meant):
    with pytest.raises(ConfigurationError, match=f"there is no time zone '{name}'; did you mean '{meant}'"):
        Cron("0 2 * * *", tz=name)


@pytest.mark.parametrize(
    "name", ["", " ", "Nowhere/At_All", "../../etc/passwd", "/etc/localtime", "America", "\0", "UTC+8"]
)
def test_what_is_no_zone_is_refused_with_an_example(name):
    with pytest.raises(ConfigurationError, match='an IANA name, as in tz="Asia/Taipei"'):
        Cron("0 2 * * *", tz=name)


@pytest.mark.parametrize("name", ["localtime", "posixrules", "posix/Asia/Taipei", "right/Asia/Taipei", "Factory"])
def test_what_means_another_thing_on_each_machine_is_refused(name):
    with pytest.raises(ConfigurationError, match="there is no time zone"):
        Cron("0 2 * * *", tz=name)


@pytest.mark.parametrize("tz", [None, 8, UTC])
def test_a_zone_is_given_by_its_name(tz):
    with pytest.raises(ConfigurationError, match='tz must be the name of a time zone, as in tz="Asia/Taipei"'):
        Cron("0 2 * * *", tz=tz)


def test_a_skipped_time_is_the_end_of_the_skip():
    skipped = datetime(2026, 3, 8, 2, 30)  # noqa: DTZ001
    assert (
        first_instant(NEW_YORK, skipped) == last_instant(NEW_YORK, skipped) == datetime(2026, 3, 8, 7, tzinfo=UTC)
    )


def test_a_repeated_time_has_a_first_and_a_last():
    repeated = datetime(2026, 11, 1, 1, 30)  # noqa: DTZ001
    assert first_instant(NEW_YORK, repeated) == datetime(2026, 11, 1, 5, 30, tzinfo=UTC)
    assert last_instant(NEW_YORK, repeated) == datetime(2026, 11, 1, 6, 30, tzinfo=UTC)


@pytest.mark.parametrize("change", [datetime(2026, 3, 8, 7, tzinfo=UTC), datetime(2026, 11, 1, 6, tzinfo=UTC)])
def test_a_change_is_found_to_the_microsecond(change):
    assert change_between(NEW_YORK, change - timedelta(hours=20), change + timedelta(hours=3.3)) == change
    just_before = change - timedelta(microseconds=1)
    assert change_between(NEW_YORK, just_before, change) == change
    assert offset_at(NEW_YORK, just_before) != offset_at(NEW_YORK, change)
