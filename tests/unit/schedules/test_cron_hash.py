"""`H` in cron expressions: drawn from the schedule's name, spread, in range, and the same for ever."""

from collections import Counter
from datetime import UTC, datetime, timedelta
from itertools import islice, pairwise

import pytest

from standfast import Cron
from standfast.errors import ConfigurationError
from standfast.schedules.rules import Ground

NEW_YEAR = datetime(2026, 1, 1, tzinfo=UTC)


def times(expression: str, name: str, count: int) -> list[datetime]:
    return list(islice(Cron(expression).times_after(NEW_YEAR, Ground(name, NEW_YEAR)), count))


def test_a_name_draws_the_same_for_ever():
    """What these are is of no matter; that they never change is."""
    drawn = {name: f"{times('H H * * *', name, 1)[0]:%H:%M}" for name in ("nightly", "report", "sync")}
    assert drawn == {"nightly": "16:13", "report": "13:30", "sync": "00:37"}


def test_names_are_spread_over_the_hour():
    minutes = Counter(times("H * * * *", f"schedule-{number}", 1)[0].minute for number in range(600))
    assert len(minutes) == 60
    assert max(minutes.values()) < 30


def test_fields_are_drawn_apart():
    """Those that share a minute do not all share an hour."""
    drawn = [times("H H * * *", f"schedule-{number}", 1)[0] for number in range(600)]
    of_one_minute = {time.hour for time in drawn if time.minute == drawn[0].minute}
    assert len(of_one_minute) > 1


@pytest.mark.parametrize("name", ["a", "b", "c"])
def test_steps_begin_at_a_minute_of_its_own(name):
    found = times("H/15 * * * *", name, 8)
    assert {later - sooner for sooner, later in pairwise(found)} == {timedelta(minutes=15)}
    assert found[0] - NEW_YEAR <= timedelta(minutes=15)


def test_ranges_are_kept():
    names = [f"schedule-{number}" for number in range(300)]
    assert {times("H(0-29) 2 * * *", name, 1)[0].minute for name in names} == set(range(30))
    assert {times("0 H(2-4) * * *", name, 1)[0].hour for name in names} == {2, 3, 4}
    assert {times("0 0 * * H(1-5)", name, 1)[0].weekday() for name in names} == {0, 1, 2, 3, 4}
    assert {tuple(time.minute for time in times("H(10-29)/10 2 * * *", name, 2)) for name in names} == {
        (minute, minute + 10) for minute in range(10, 20)
    }


def test_a_day_of_the_month_comes_in_every_month():
    for number in range(200):
        found = times("0 0 H * *", f"schedule-{number}", 12)
        assert [time.month for time in found] in ([*range(1, 13)], [*range(2, 13), 1])


def test_two_in_one_list_keep_their_distance():
    """H(0-29),H(30-59) is twice an hour, half an hour apart."""
    found = times("H(0-29),H(30-59) * * * *", "nightly", 6)
    assert {later - sooner for sooner, later in pairwise(found)} == {timedelta(minutes=30)}


def test_names_of_days_and_months_are_not_hashes():
    assert times("0 0 * * THU", "nightly", 1) == [datetime(2026, 1, 8, tzinfo=UTC)]
    assert times("0 0 1 MAR *", "nightly", 1) == [datetime(2026, 3, 1, tzinfo=UTC)]


@pytest.mark.parametrize("term", ["H(0-60)", "H(30-10)", "H/0", "H(0-99999)", "H-5", "H(5)", "HH"])
def test_bad_hashes_are_refused(term):
    with pytest.raises(ConfigurationError, match=r'as in Cron\("'):
        Cron(f"{term} * * * *")


@pytest.mark.parametrize("expression", ["0 0 H(29-31) 2 *", "0 0 31 H *", "0 0 H(1-31) 4 *"])
def test_what_may_never_come_is_refused_whatever_the_name(expression):
    with pytest.raises(ConfigurationError, match="never comes: there is no 31 "):
        Cron(expression)
