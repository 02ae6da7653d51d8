"""Spans, times and foreign text are told as people say them, in the machine's own zone."""

from datetime import UTC, datetime, timedelta

import pytest

from standfast.model.display import counted, dated, moment, one_line, ordinal, relative, short_id, span

pytestmark = pytest.mark.usefixtures("utc")

NOW = datetime(2026, 5, 4, 14, 3, 4, tzinfo=UTC)
SECOND = timedelta(seconds=1)


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0, "0 ms"),
        (0.0123, "12 ms"),
        (0.9999, "1 s"),
        (1.26, "1.3 s"),
        (9.96, "10 s"),
        (59.4, "59 s"),
        (59.6, "1 min"),
        (200, "3 min 20 s"),
        (7500, "2 h 5 min"),
        (90000, "1 d 1 h"),
        (-3, "3 s"),
    ],
)
def test_spans_have_two_units_at_most(seconds, words):
    assert span(timedelta(seconds=seconds)) == words


def test_distances_have_one_unit():
    assert relative(NOW - 200 * SECOND, NOW) == "3 min ago"
    assert relative(NOW + 7500 * SECOND, NOW) == "in 2 h"
    assert relative(NOW + 3599 * SECOND, NOW) == "in 1 h"
    assert relative(NOW - timedelta(hours=8, minutes=59), NOW) == "9 h ago"
    assert relative(NOW - timedelta(hours=40), NOW) == "2 d ago"
    assert relative(NOW + SECOND / 2, NOW) == "now"


def test_another_day_is_named():
    assert moment(NOW - timedelta(days=1), NOW) == "2026-05-03 14:03:04"
    assert dated(NOW - timedelta(days=1), NOW) == "2026-05-03 14:03:04 (1 d ago)"


@pytest.mark.parametrize(
    ("number", "word"), [(1, "first"), (10, "tenth"), (11, "11th"), (21, "21st"), (112, "112th"), (23, "23rd")]
)
def test_ordinals(number, word):
    assert ordinal(number) == word


def test_nouns_follow_their_number():
    assert counted(1, "job") == "1 job"
    assert counted(1200, "job") == "1,200 jobs"
    assert counted(2, "crash", "crashes") == "2 crashes"


def test_foreign_text_cannot_move_the_cursor_or_break_the_line():
    assert one_line("a\r\nb\x1b[2J\x07c") == "a b�[2J�c"
    assert one_line("abcdef", 4) == "abc…"


def test_the_end_of_an_id_tells_neighbours_apart():
    assert short_id("0197b1c2-7d1e-7c3a-9f60-5a4b3c2d1e0f") == "3c2d1e0f"
