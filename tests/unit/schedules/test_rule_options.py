"""What every rule takes: options in their one form, refused where they are wrong; and rules as JSON."""

import copy
import pickle
from datetime import UTC, date, datetime, timedelta

import msgspec
import pytest

from standfast import AnyOf, At, Calendar, Cron, Every, Window
from standfast.errors import ConfigurationError
from standfast.schedules.rules import AnyRule, Ground, Misfire, Overlap

decode_rule = msgspec.json.Decoder(AnyRule).decode
NEW_YEAR = datetime(2026, 1, 1, tzinfo=UTC)
GROUND = Ground("test", NEW_YEAR)

RULES = [
    Cron("0 2 * * *"),
    Cron(
        "H/15 9-17 * * MON-FRI",
        tz="Asia/Taipei",
        misfire="all",
        overlap="queue_one",
        jitter=2.5,
        catch_up_window=None,
    ),
    Cron(
        "0 2 * * *",
        start=NEW_YEAR.astimezone(),
        end=NEW_YEAR + timedelta(days=9),
        pause_on_failure=True,
        exclude=[
            "Saturday",
            date(2026, 12, 25),
            "12-26",
            Window(
                "03:00",
                "03:15",
                tz="Asia/Taipei",
                days=["sun"],
                months=12,
                dates="12-25",
                notice=5,
                reason="recycle",
            ),
            Calendar(
                "office", weekdays="sun", dates=date(2026, 5, 1), holidays={"12-25": "Christmas"}, tz="Asia/Taipei"
            ),
        ],
    ),
    Every(timedelta(minutes=5), anchored=True, misfire_after=timedelta(minutes=1), catch_up_limit=3),
    At(NEW_YEAR + timedelta(days=1, microseconds=1), NEW_YEAR),
    Cron("0 9 * * *") | AnyOf(Every(60), At(NEW_YEAR), start=NEW_YEAR),
]


@pytest.mark.parametrize("rule", RULES, ids=str)
def test_a_rule_travels_as_json_and_is_the_same(rule):
    written = msgspec.json.encode(rule)
    assert decode_rule(written) == rule
    assert msgspec.json.encode(decode_rule(written)) == written
    assert decode_rule(written.decode()) == rule
    assert hash(decode_rule(written)) == hash(rule)


@pytest.mark.parametrize("rule", RULES, ids=str)
def test_a_rule_is_copied_and_pickled_whole(rule):
    assert copy.deepcopy(rule) == rule
    assert pickle.loads(pickle.dumps(rule)) == rule
    assert msgspec.structs.replace(rule, catch_up_limit=7).catch_up_limit == 7


def test_options_have_one_form():
    rule = Every(
        60, misfire="all", overlap="allow", jitter=timedelta(seconds=2), misfire_after=5, exclude=("SUN", "sun")
    )
    assert (rule.misfire, rule.overlap) == (Misfire.ALL, Overlap.ALLOW)
    assert (rule.jitter, rule.misfire_after, rule.exclude) == (2.0, 5.0, ("sun",))
    assert isinstance(rule.misfire, Misfire)


def test_defaults_are_as_promised():
    rule = Cron("0 2 * * *")
    assert (rule.misfire, rule.misfire_after, rule.catch_up_limit, rule.catch_up_window) == ("once", 60, 100, 86400)
    assert (rule.overlap, rule.pause_on_failure, rule.jitter, rule.exclude) == ("skip", False, 0, ())
    assert (rule.start, rule.end, rule.tz) == (None, None, "UTC")


def test_blanks_do_not_make_another_rule():
    assert Cron("  0  2 * * *") == Cron("0 2 * * *")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"misfire": "sometimes"}, 'misfire must be one of "skip", "once", "all", not \'sometimes\''),
        ({"overlap": None}, 'overlap must be one of "allow", "skip", "queue_one", "queue_all", "cancel_running"'),
        ({"jitter": -1}, "jitter must be a timedelta or seconds, from 0 to a hundred years, as in jitter=60"),
        ({"misfire_after": "1m"}, "misfire_after must be a timedelta or seconds"),
        ({"misfire_after": None}, "misfire_after must be a timedelta or seconds"),
        ({"catch_up_window": float("nan")}, "catch_up_window must be a timedelta or seconds"),
        (
            {"catch_up_limit": 0},
            'catch_up_limit must be 1 or more, as in catch_up_limit=100 (for none: misfire="skip")',
        ),
        ({"catch_up_limit": True}, "catch_up_limit must be 1 or more"),
        ({"pause_on_failure": "yes"}, "pause_on_failure must be True or False, not 'yes'"),
        ({"start": datetime(2026, 1, 1)}, "start must have a time zone, and 2026-01-01T00:00:00 has none"),  # noqa: DTZ001
        ({"end": "2026-01-01"}, "end must be a datetime with a time zone, as in datetime(2026, 3, 1, tzinfo=UTC)"),
        ({"start": NEW_YEAR, "end": NEW_YEAR - timedelta(1)}, "must not be after end"),
        ({"exclude": "someday"}, '\'someday\' is no weekday; write one as "mon" or "monday"'),
        (
            {"exclude": "2026-02-30"},
            "'2026-02-30' is no date; write datetime.date(2026, 12, 25), \"2026-12-25\", or",
        ),
        ({"exclude": "02-30"}, "'02-30' is no date"),
        ({"exclude": NEW_YEAR}, "is no date"),
        ({"exclude": 5}, "5 is no date"),
        (
            {"exclude": ["mon", "tue", "wed", "thu", "fri", "sat", "sun"]},
            "exclude names every weekday, so that nothing",
        ),
        ({"jiter": 5}, "Every has no option 'jiter'; did you mean jitter?"),
        ({"anchord": True}, "Every has no option 'anchord'; did you mean anchored?"),
        ({"minutes": 5}, "Every has no option 'minutes'; write Every(timedelta(minutes=5))"),
        ({"anchored": 1}, "anchored must be True or False, not 1"),
    ],
    ids=str,
)
def test_bad_options_are_refused(options, words):
    with pytest.raises(ConfigurationError) as refused:
        Every(60, **options)
    assert words in str(refused.value)


def test_all_that_is_wrong_is_said_at_once():
    with pytest.raises(ConfigurationError, match=r"misfire must be .*; jitter must be .*; catch_up_limit must be "):
        Every(60, misfire="no", jitter=-1, catch_up_limit=0)


@pytest.mark.parametrize(
    ("written", "words"),
    [
        ('{"rule": "cron", "expression": "0 0 31 2 *"}', "never comes: there is no 31 February"),
        ('{"rule": "cron", "expression": "0 0 * * *", "tz": "Asia/Tapei"}', "did you mean 'Asia/Taipei'?"),
        ('{"rule": "cron", "expression": "0 0 * * *", "misfire": "no"}', "Invalid enum value 'no'"),
        ('{"rule": "cron", "expression": "0 0 * * *", "jiter": 5}', "unknown field `jiter`"),
        ('{"rule": "at", "moments": ["2026-01-01T00:00:00"]}', "must have a time zone"),
        ('{"rule": "any", "rules": [{"rule": "every", "interval": 0}]}', "from 0.1 s to a hundred years"),
        ('{"rule": "daily"}', "Invalid value 'daily' - at `$.rule`"),
        ("nothing", "JSON is malformed"),
    ],
)
def test_bad_json_is_refused_in_words(written, words):
    with pytest.raises((ConfigurationError, msgspec.MsgspecError)) as refused:
        decode_rule(written)
    assert words in str(refused.value)


def test_a_bad_rule_inside_of_a_record_keeps_its_words():
    """A record is decoded as a whole."""
    with pytest.raises(ConfigurationError, match="there is no 31 February"):
        msgspec.json.decode('[{"rule": "cron", "expression": "0 0 31 2 *"}]', type=list[AnyRule])


class TestJitter:
    def test_a_run_is_put_off_by_an_amount_of_its_own_that_never_changes(self):
        rule = Every(60, jitter=30)
        planned = [NEW_YEAR + timedelta(minutes=minute) for minute in range(200)]
        put_off = [(rule.run_at(time, GROUND) - time).total_seconds() for time in planned]
        assert put_off == [(rule.run_at(time, GROUND) - time).total_seconds() for time in planned]
        assert all(0 <= seconds < 30 for seconds in put_off)
        assert len(set(put_off)) == 200
        assert min(put_off) < 3
        assert max(put_off) > 27

    def test_it_depends_on_the_name(self):
        rule = Every(60, jitter=30)
        assert rule.run_at(NEW_YEAR, Ground("a", NEW_YEAR)) != rule.run_at(NEW_YEAR, Ground("b", NEW_YEAR))

    def test_it_does_not_depend_on_how_the_time_is_written(self):
        rule = Every(60, jitter=30)
        assert rule.run_at(NEW_YEAR.astimezone(), GROUND) == rule.run_at(NEW_YEAR, GROUND)

    def test_it_is_the_same_in_every_process(self):
        assert Every(60, jitter=3600).run_at(NEW_YEAR, GROUND).isoformat() == "2026-01-01T00:32:32.830142+00:00"

    def test_without_it_a_run_starts_when_it_is_planned(self):
        assert Every(60).run_at(NEW_YEAR, GROUND) == NEW_YEAR
