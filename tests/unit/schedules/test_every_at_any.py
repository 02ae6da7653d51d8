"""Intervals, single moments, and unions of rules."""

from datetime import UTC, datetime, timedelta
from itertools import islice

import pytest

from standfast import AnyOf, At, Cron, Every
from standfast.errors import ConfigurationError
from standfast.model.clock import LATEST
from standfast.schedules.rules import Ground, Rule

NEW_YEAR = datetime(2026, 1, 1, tzinfo=UTC)
GROUND = Ground("test", NEW_YEAR + timedelta(minutes=7))


def times(rule: Rule, count: int, after: datetime = NEW_YEAR) -> list[str]:
    return [f"{time:%d %H:%M:%S}" for time in islice(rule.times_after(after, GROUND), count)]


class TestEvery:
    def test_it_counts_from_when_the_schedule_was_made(self):
        assert times(Every(1800), 3) == ["01 00:37:00", "01 01:07:00", "01 01:37:00"]

    def test_it_does_not_come_before_the_schedule_was_made(self):
        assert times(Every(1800), 1, NEW_YEAR - timedelta(days=9)) == ["01 00:37:00"]

    def test_it_is_the_same_whenever_one_asks(self):
        assert times(Every(timedelta(minutes=30)), 1, NEW_YEAR + timedelta(hours=5)) == ["01 05:07:00"]
        assert times(Every(1800), 1, NEW_YEAR + timedelta(hours=5, minutes=7)) == ["01 05:37:00"]

    def test_anchored_it_comes_at_multiples_since_1970(self):
        assert times(Every(1800, anchored=True), 2) == ["01 00:30:00", "01 01:00:00"]
        seven = Every(7, anchored=True).times_after(NEW_YEAR, GROUND)
        assert all(time.timestamp() % 7 == 0 for time in islice(seven, 5))

    def test_from_a_start_it_counts_from_there(self):
        start = datetime(2026, 1, 2, 9, tzinfo=UTC)
        assert times(Every(3600, start=start), 2) == ["02 09:00:00", "02 10:00:00"]
        assert times(Every(3600, start=start), 1, start) == ["02 10:00:00"]

    def test_anchored_from_a_start_it_stays_anchored(self):
        start = datetime(2026, 1, 2, 9, 20, tzinfo=UTC)
        assert times(Every(3600, anchored=True, start=start), 1) == ["02 10:00:00"]

    def test_a_long_row_does_not_drift(self):
        found = list(islice(Every(0.1).times_after(NEW_YEAR, GROUND), 10_001))
        assert found[-1] - found[0] == timedelta(seconds=1000)

    def test_it_ends(self):
        assert times(Every(1800, end=NEW_YEAR + timedelta(hours=1, minutes=7)), 9) == ["01 00:37:00", "01 01:07:00"]
        assert len(list(Every(86400).times_after(datetime(9999, 12, 29, tzinfo=UTC), GROUND))) <= 3

    @pytest.mark.parametrize("interval", [0, -1, 0.05, float("inf"), float("nan"), "60", None, True, 1e12])
    def test_a_bad_interval_is_refused(self, interval):
        with pytest.raises(ConfigurationError, match=r"from 0.1 s to a hundred years, as in Every\(60\), not "):
            Every(interval)


class TestAt:
    def test_each_moment_comes_once_in_order_in_utc(self):
        second, first = NEW_YEAR + timedelta(hours=2), (NEW_YEAR + timedelta(hours=1)).astimezone()
        rule = At(second, first, second)
        assert list(rule.times_after(NEW_YEAR, GROUND)) == [NEW_YEAR + timedelta(hours=hour) for hour in (1, 2)]
        assert all(time.tzinfo is UTC for time in rule.moments)

    def test_strictly_after(self):
        assert list(At(NEW_YEAR).times_after(NEW_YEAR, GROUND)) == []
        assert list(At(NEW_YEAR).times_after(NEW_YEAR - timedelta(microseconds=1), GROUND)) == [NEW_YEAR]

    def test_start_and_end_hold_here_too(self):
        days = [NEW_YEAR + timedelta(days=day) for day in range(5)]
        assert list(At(*days, start=days[2], end=days[3]).times_after(NEW_YEAR, GROUND)) == days[2:4]

    def test_there_must_be_a_moment(self):
        with pytest.raises(ConfigurationError, match=r"At has no moment; give one, as in At\("):
            At()

    @pytest.mark.parametrize("moment", [datetime(2026, 1, 1), "2026-01-01", 5])  # noqa: DTZ001
    def test_it_must_have_a_zone(self, moment):
        with pytest.raises(ConfigurationError, match=r"time zone.* as in datetime\(2026, "):
            At(moment)


class TestAnyOf:
    def test_it_comes_whenever_one_does_and_once(self):
        rule = AnyOf(Cron("0,30 * * * *"), Cron("0 */2 * * *"), At(NEW_YEAR + timedelta(minutes=45)))
        expected = ["01 00:30:00", "01 00:45:00", "01 01:00:00", "01 01:30:00", "01 02:00:00", "01 02:30:00"]
        assert times(rule, 6) == expected

    def test_it_ends_when_all_have_ended(self):
        moments = [NEW_YEAR + timedelta(hours=hour) for hour in range(1, 5)]
        assert list(AnyOf(At(*moments[::2]), At(*moments[1::2])).times_after(NEW_YEAR, GROUND)) == moments

    def test_members_have_bounds_of_their_own_and_the_union_has_some_too(self):
        noon = NEW_YEAR + timedelta(hours=12)
        rule = AnyOf(
            Every(3600, anchored=True, end=noon), Cron("30 * * * *", start=noon), end=noon + timedelta(hours=1)
        )
        assert times(rule, 9, noon - timedelta(hours=1, minutes=1)) == ["01 11:00:00", "01 12:00:00", "01 12:30:00"]

    def test_a_bar_makes_one(self):
        rule = Cron("0 9 * * *") | Every(60) | At(NEW_YEAR)
        assert rule == AnyOf(Cron("0 9 * * *"), Every(60), At(NEW_YEAR))
        assert Every(60) | (Every(90) | Every(100)) == AnyOf(Every(60), Every(90), Every(100))

    def test_a_union_with_bounds_of_its_own_stays_whole(self):
        bounded = AnyOf(Every(60), Every(90), end=NEW_YEAR)
        assert bounded | Every(100) == AnyOf(bounded, Every(100))

    def test_only_rules_can_be_joined(self):
        with pytest.raises(TypeError):
            Cron("0 9 * * *") | 5

    @pytest.mark.parametrize(
        "member",
        [
            Cron("0 9 * * *", overlap="allow"),
            Every(60, misfire="all"),
            Every(60, jitter=5),
            Every(60, exclude="sat"),
        ],
    )
    def test_options_belong_to_the_union(self, member):
        with pytest.raises(
            ConfigurationError, match="inside of a union, which has one for all its rules; give it there"
        ):
            AnyOf(member, Every(60))
        with pytest.raises(ConfigurationError, match="give it there, as in AnyOf"):
            Every(60) | member

    @pytest.mark.parametrize("members", [(), ("0 9 * * *",), (5,), (None,)])
    def test_there_must_be_rules(self, members):
        with pytest.raises(ConfigurationError, match=r"as in AnyOf\(Cron\("):
            AnyOf(*members)

    def test_bare_days_go_by_the_clock_of_the_members(self):
        rule = AnyOf(Cron("0 9 * * *", tz="Asia/Taipei"), Every(60), exclude="sat")
        friday_evening = datetime(2026, 1, 2, 17, tzinfo=UTC)
        assert str(rule.excluded(friday_evening)) == "Saturday"
        assert AnyOf(Every(60), exclude="sat").excluded(friday_evening) is None

    def test_bare_days_are_refused_where_the_members_disagree(self):
        members = (Cron("0 9 * * *", tz="Asia/Taipei"), Cron("0 9 * * *"))
        with pytest.raises(ConfigurationError, match=r"different clocks \(Asia/Taipei and UTC\).*Calendar\("):
            AnyOf(*members, exclude="sat")
        assert AnyOf(*members)


def test_a_run_is_not_put_off_beyond_the_calendar():
    """A time near its end with jitter has a run that can be told."""
    rule, planned = At(LATEST, jitter=86_400.0 * 365), LATEST
    assert rule.run_at(planned, GROUND) == LATEST
    last = datetime.max.replace(tzinfo=UTC)
    assert At(last, jitter=60).run_at(last, GROUND) == last
