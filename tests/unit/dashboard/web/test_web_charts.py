"""Charts show the numbers they are given: scaled to round ones, with gaps where nothing was measured."""

import re
from datetime import UTC, datetime, timedelta

import pytest

from standfast.admin.figures import FiguresSeen, PointSeen
from standfast.dashboard.texts import texts_in
from standfast.dashboard.web.charts import (
    Form,
    Series,
    chart,
    charts_of,
    gauge,
    held,
    nice_ticks,
    sparkline,
    time_ticks,
)
from standfast.dashboard.web.formatting import Formatter, coloured, plain_span, told_time, with_commands, with_times
from standfast.model.validation import read_span

NOON = datetime(2026, 5, 4, 12, tzinfo=UTC)


def at(count: int) -> list[datetime]:
    return [NOON + n * timedelta(minutes=1) for n in range(count)]


@pytest.mark.parametrize(
    ("highest", "ticks"),
    [
        (0, [0, 1]),
        (float("nan"), [0, 1]),
        (3, [0, 1, 2, 3]),
        (7, [0, 2, 4, 6, 8]),
        (100, [0, 25, 50, 75, 100]),
        (101, [0, 50, 100, 150]),
        (0.3, [0, 0.1, 0.2, 0.3]),
        (8_000_000, [0, 2_000_000, 4_000_000, 6_000_000, 8_000_000]),
    ],
)
def test_axes_have_round_numbers(highest, ticks):
    assert nice_ticks(highest) == ticks


@pytest.mark.parametrize(
    ("highest", "ticks"),
    [
        (0.3, [0, 0.1, 0.2, 0.3]),
        (100, [0, 30, 60, 90, 120]),
        (1204, [0, 600, 1200, 1800]),
        (90_000, [0, 43_200, 86_400, 129_600]),
        (900_000, [0, 432_000, 864_000, 1_296_000]),
    ],
)
def test_axes_of_time_have_whole_minutes_hours_and_days(highest, ticks):
    assert time_ticks(highest) == ticks


def test_a_look_at_a_queue_stands_for_a_few_steps_and_no_longer():
    assert held([None, 3, *[None] * 7, 0]) == [None, 3, 3, 3, 3, 3, 3, None, None, 0]


def test_a_line_goes_through_its_points_and_not_through_gaps():
    drawn = chart(at(5), [Series("depth", "waiting", (0, 4, None, 2, 0), Form.LINE)], str, title="t")
    path = re.search(r'<path class="line depth" d="([^"]+)"/>', drawn.picture)
    assert path
    assert path[1] == "M0 160L150 0M450 80L600 160"
    assert drawn.numbers == ("4.0", "3.0", "2.0", "1.0", "0.0")


def test_a_lonely_point_is_seen():
    drawn = chart(at(3), [Series("depth", "waiting", (None, 2, None), Form.AREA)], str, title="t")
    assert 'd="M200 0L400 0"' in drawn.picture


def test_columns_tell_their_numbers_and_foreign_words_are_escaped():
    drawn = chart(
        at(2),
        [Series("a", "<b>", (1, 2)), Series("c", "d", (None, 5))],
        lambda n: f"{n:g}!",
        title="<t>",
        about="&",
    )
    assert re.findall(r"<rect [^>]*><title>([^<]*)</title>", drawn.picture) == [
        "&lt;b&gt; 1!",
        "&lt;b&gt; 2! · d 5!",
    ]
    assert "<title>&lt;t&gt;</title><desc>&amp;</desc>" in drawn.picture


def test_times_below_are_spread_from_the_first_to_the_last():
    drawn = chart(at(61), [Series("a", "a", (0,) * 61)], str, title="t")
    assert [each.minute for each in drawn.times] == [0, 15, 30, 45, 0]
    assert chart(at(2), [Series("a", "a", (0, 1))], str, title="t").times == tuple(at(2))


def test_nothing_is_empty():
    assert chart([], [Series("a", "a", ())], str, title="t").is_empty
    assert chart(at(2), [Series("a", "a", (None, None))], str, title="t").is_empty
    assert not chart(at(2), [Series("a", "a", (0, None))], str, title="t").is_empty


def test_sparklines_and_gauges_stay_inside():
    assert 'points="0,27 60,14.5 120,2"' in sparkline((0, 5, 10), title="t")
    assert "<polyline" in sparkline((), title="t")
    assert 'stroke-dasharray="50 200"' in gauge(4, 8, title="t")
    assert 'class="gauge full"' in gauge(9, 8, title="t")
    assert 'stroke-dasharray="0 200"' in gauge(1, 0, title="t")


def test_numbers_are_said_in_the_readers_language():
    english, chinese = Formatter(texts_in("en")), Formatter(texts_in("zh-Hant"))
    assert [english.span(each) for each in (0.012, 1.26, 200, timedelta(hours=25))] == [
        "12 ms",
        "1.3 s",
        "3 min 20 s",
        "1 d 1 h",
    ]
    assert chinese.span(200) == "3 分 20 秒"
    assert [english.brief(each) for each in (3, 1204, None)] == ["3 s", "20 min", "–"]
    assert [english.short(each) for each in (0, 0.5, 1204, 12_000, 4_211_402)] == [
        "0",
        "0.5",
        "1,204",
        "12k",
        "4.21M",
    ]
    assert [english.number(each) for each in (None, 1200, 0.125)] == ["–", "1,200", "0.12"]


@pytest.mark.parametrize(
    ("seconds", "written"),
    [(0.0, "0s"), (0.25, "0.25s"), (45.0, "45s"), (300.0, "5m"), (5430.0, "1h30m30s"), (86_400.0 * 3, "3d")],
)
def test_a_span_in_a_form_is_read_as_it_was(seconds, written):
    assert plain_span(seconds) == written
    assert read_span(written).total_seconds() == seconds


def test_values_are_shown_in_colours_and_escaped():
    told = coloured({"<a>": ["x", 1, None, {}], "deep": True})
    assert told == (
        '<pre class="json" tabindex="0"><code>{\n  <span class="name">&#34;&lt;a&gt;&#34;</span>: [\n'
        '    <span class="text">&#34;x&#34;</span>,\n    <span class="number">1</span>,\n'
        '    <span class="word">null</span>,\n    <span class="nothing">{}</span>\n  ],\n'
        '  <span class="name">&#34;deep&#34;</span>: <span class="word">true</span>\n}</code></pre>'
    )


def test_commands_are_code_and_escaped():
    assert with_commands("`a <b>` runs <it>") == "<code>a &lt;b&gt;</code> runs &lt;it&gt;"


def test_deep_values_do_no_harm():
    value: object = "<end>"
    for _ in range(300):
        value = [value]
    assert "&lt;end&gt;" in coloured(value)


def test_times_are_utc_for_whoever_has_no_script():
    assert told_time(NOON) == (
        '<time datetime="2026-05-04T12:00:00+00:00" data-form="both">2026-05-04 12:00:00 <abbr>UTC</abbr></time>'
    )


def test_times_in_a_sentence_are_told_and_what_is_none_stays():
    """A day that is in no calendar may have been typed by somebody."""
    said = with_times("until 2026-02-31T00:00Z or 2026-05-04T12:00:00Z <b>")
    assert said.startswith('until 2026-02-31T00:00Z or <time datetime="2026-05-04T12:00:00+00:00"')
    assert said.endswith("</time> &lt;b&gt;")


def test_a_minute_that_is_not_over_is_no_drop():
    """What is done in a minute is known at its end."""
    points = tuple(PointSeen(at=moment, completed=60) for moment in at(3))
    seen = FiguresSeen(now=NOON + timedelta(seconds=150), span="1h", step=60.0, points=points, tasks=())
    completed, failed = charts_of(seen, texts_in("en"))["throughput"].series
    assert completed.values == (60, 60, None)
    assert failed.values == (0, 0, None)
