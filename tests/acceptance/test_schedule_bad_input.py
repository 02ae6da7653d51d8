"""What cannot be a schedule is refused where it is written, with the reason and an example of what is right."""

from datetime import UTC, datetime, timedelta

import pytest

from standfast import AnyOf, At, Calendar, ConfigurationError, Cron, Every, Window
from standfast.schedules.rules import Ground

NAIVE = datetime(2026, 3, 1, 9)  # noqa: DTZ001 - as people forget
EXAMPLE = 'as in Cron("30 2 * * *"), each day at 02:30'

BAD_CRON = [
    ("61 * * * *", "has '61' as its minute, which takes 0 to 59"),
    ("* 24 * * *", "has '24' as its hour, which takes 0 to 23"),
    ("* * 0 * *", "has '0' as its day of the month, which takes 1 to 31"),
    ("* * 15W * *", "has '15W' as its day of the month, which takes 1 to 31, L (the last day) or LW"),
    ("* * * 13 *", "has '13' as its month, which takes 1 to 12 or JAN to DEC"),
    ("* * * * 8", "has '8' as its day of the week, which takes 0 to 7 (0 and 7 are Sunday) or SUN to SAT"),
    ("* * * * FRI#6", "has 'FRI#6' as its day of the week"),
    ("60 * * * * *", "has '60' as its second, which takes 0 to 59"),
    ("*/0 * * * *", "has '*/0' as its minute"),
    ("5-1 * * * *", "has '5-1' as its minute"),
    ("a b c d e", "has 'A' as its minute"),
    ("-1 * * * *", "has '-1' as its minute"),
    ("1,,2 * * * *", "has '1,,2' as its minute"),
    ("* * * *", "has 4 of the five fields: minute, hour, day of the month, month, day of the week; or of six"),
    ("* * * * * * *", "has 7 of the five fields"),
    ("", "has 0 of the five fields"),
    ("@reboot", "there is no cron expression '@reboot'; there are @yearly, @annually, @monthly, @weekly, @daily"),
]


@pytest.mark.parametrize(("expression", "reason"), BAD_CRON)
def test_a_bad_cron_expression(expression, reason):
    refused = refusal(Cron, expression)
    assert reason in refused
    assert EXAMPLE in refused


@pytest.mark.parametrize("expression", [None, 5, b"* * * * *", ["* * * * *"]])
def test_what_is_no_text_is_no_cron_expression(expression):
    assert "a cron expression is a text, as in Cron(" in refusal(Cron, expression)


@pytest.mark.parametrize(
    ("expression", "reason"),
    [
        ("0 0 31 2 *", "never comes: there is no 31 February"),
        ("0 0 30 FEB *", "never comes: there is no 30 February"),
        ("0 0 31 4,6,9,11 *", "never comes: there is no 31 April or June or September or November"),
        ("0 0 30-31 2 */2", "never comes: there is no 30 February"),
        ("0 0 LW * */7", "never comes: its days of the month never fall on its days of the week"),
        ("0 0 */20 * 1L", "never comes: its days of the month never fall on its days of the week"),
    ],
)
def test_a_date_that_never_comes(expression, reason):
    refused = refusal(Cron, expression)
    assert reason in refused
    assert 'as in Cron("0 0 L 2 *")' in refused


@pytest.mark.parametrize("expression", ["0 0 29 2 *", "0 0 31 1,2 *", "0 0 31 2 MON", "0 0 L 2 *", "0 0 * 2 MON#5"])
def test_a_date_that_comes_seldom_is_taken(expression):
    created = datetime(2026, 1, 1, tzinfo=UTC)
    assert next(Cron(expression).times_after(created, Ground("test", created)))


@pytest.mark.parametrize("kind", [Cron, Window, Calendar])
def test_an_unknown_zone(kind):
    declare = {
        Cron: lambda: Cron("0 2 * * *", tz="Asia/Tapei"),
        Window: lambda: Window("03:00", "03:15", tz="Asia/Tapei"),
        Calendar: lambda: Calendar("office", weekdays="sat", tz="Asia/Tapei"),
    }[kind]
    refused = refusal(declare)
    assert "there is no time zone 'Asia/Tapei'; did you mean 'Asia/Taipei'?" in refused
    assert 'as in tz="Asia/Taipei"' in refused


@pytest.mark.parametrize(("start", "end"), [("00:00", "24:00"), ("00:00", "00:00"), ("03:00", "03:00")])
def test_a_window_that_covers_the_whole_day(start, end):
    refused = refusal(Window, start, end)
    assert (
        f"the window {start}–{end} UTC covers the whole day, every day, so that nothing would ever run" in refused
    )
    assert 'as in Window("03:00", "03:15", tz="Asia/Taipei")' in refused


def test_a_window_over_whole_days_of_the_week_is_taken():
    assert Window("00:00", "24:00", days=("sat", "sun"))


@pytest.mark.parametrize(
    "declare",
    [
        lambda: At(NAIVE),
        lambda: Every(60, start=NAIVE),
        lambda: Cron("0 2 * * *", end=NAIVE),
        lambda: AnyOf(Every(60), start=NAIVE),
        lambda: Every(60).times_after(NAIVE, Ground("test", datetime(2026, 1, 1, tzinfo=UTC))),
    ],
)
def test_a_moment_without_a_zone(declare):
    refused = refusal(declare)
    assert "must have a time zone, and 2026-03-01T09:00:00 has none" in refused
    assert "as in datetime(2026, 3, 1, tzinfo=UTC)" in refused


@pytest.mark.parametrize("interval", [0, -5, 0.01, timedelta(0), "1h", None])
def test_a_bad_interval(interval):
    assert "from 0.1 s to a hundred years, as in Every(60), not " in refusal(Every, interval)


def test_an_option_that_is_not_there():
    assert refusal(Cron, "0 2 * * *", zzz="UTC").startswith("Cron has no option 'zzz'; there are: expression, ")
    assert refusal(Cron, "0 2 * * *", zone="UTC") == "Cron has no option 'zone'; did you mean tz?"
    assert refusal(Cron, "0 2 * * *", missfire="once") == "Cron has no option 'missfire'; did you mean misfire?"


def test_options_of_a_member_of_a_union():
    assert refusal(lambda: Cron("0 2 * * *", overlap="allow") | Every(60)) == (
        "overlap is given to the Cron inside of a union, which has one for all its rules; "
        'give it there, as in AnyOf(Cron("0 9 * * *"), Every(3600), overlap="allow")'
    )


def refusal(declare, *args, **options) -> str:
    with pytest.raises(ConfigurationError) as refused:
        declare(*args, **options)
    return str(refused.value)
