"""What is counted: how attempts end, by queue and task and minute, how long they ran and how late they began."""

import json
import random
from datetime import timedelta

import msgspec
import pytest

from figures_stage import bucket_of, count, ended
from standfast.model.job import Verdict
from standfast.model.records import Kind, Record
from standfast.model.states import ENDINGS, Move
from standfast.observe.figures.counts import (
    COMPLETED,
    CROWDED,
    DEAD,
    GIVEN_BACK,
    LAG,
    LONGEST_RUN,
    MICROS,
    MINUTES_KEPT,
    OTHER,
    PAIRS,
    ROWS_LIMIT,
    RUN,
    Row,
    Tally,
    add_rows,
    new_count,
    to_rows,
)
from standfast.observe.figures.histogram import BUCKETS, LAST, ends_at, lengthen, percentile, shorten
from standfast.observe.figures.rollup import EMPTY, Rollup, read_rollup
from standfast.observe.figures.series import figures_of
from standfast.testing import FakeClock


@pytest.fixture
def clock():
    return FakeClock()


def test_every_ending_is_counted_once(clock):
    """Each move by which a worker ends a claim has its place; what the store refused has none."""
    tally = Tally(clock)
    count(tally, [ended(clock, move) for move in sorted(ENDINGS)])
    tally.count([ended(clock)], [Verdict.STALE])
    [counts] = tally.take().values()
    assert counts["mail", "send"][:MICROS] == [1, 1, 1, 1, 3]
    assert tally.take() == {}


def test_minutes_and_pairs_are_kept_apart(clock):
    """The minute is that of the store's time at which the answer came."""
    tally = Tally(clock)
    count(tally, [ended(clock), ended(clock, task="print")])
    clock.advance(54.9)
    count(tally, [ended(clock)])
    clock.advance(0.2)
    count(tally, [ended(clock, queue="slow")])
    tally.count_dead("mail", "send")
    first, second = tally.take().items()
    assert {pair: counted[COMPLETED] for pair, counted in first[1].items()} == {
        ("mail", "send"): 2,
        ("mail", "print"): 1,
    }
    assert second[0] == first[0] + 60
    assert (second[1]["slow", "send"][COMPLETED], second[1]["mail", "send"][DEAD]) == (1, 1)


def test_spans_fall_into_the_buckets_that_are_said(clock):
    """The line in the tally that is as short as can be says the same as `bucket_of`; what has not run has none."""
    chance = random.Random(7)
    for _ in range(300):
        seconds, late = 10 ** chance.uniform(-5, 6), chance.choice([-1, 1]) * 10 ** chance.uniform(-5, 6)
        tally = Tally(clock)
        count(tally, [ended(clock, seconds=seconds, late=late)])
        [[counted]] = [counts.values() for counts in tally.take().values()]
        late = timedelta(seconds=late).total_seconds()
        assert counted[RUN:LAG].index(1) == bucket_of(seconds * 1000)
        assert counted[LAG:LONGEST_RUN].index(1) == bucket_of(late * 1000)
        assert counted[MICROS] == int(seconds * 1e6)
    tally = Tally(clock)
    count(tally, [ended(clock, Move.SNOOZE, seconds=0.0)])
    [[counted]] = [counts.values() for counts in tally.take().values()]
    assert sum(counted) == counted[GIVEN_BACK] == 1


def test_a_bucket_ends_where_the_next_begins():
    """From a millisecond to a day, growing by the square root of two; what is longer is in the last."""
    assert [bucket_of(each) for each in (-5, 0, 0.99, 1, 1.42, 2.01, 1e12)] == [0, 0, 0, 1, 2, 3, LAST]
    for bucket in range(1, LAST):
        assert bucket_of(ends_at(bucket) * 0.999) == bucket
        assert bucket_of(ends_at(bucket) * 1.001) == bucket + 1
    assert ends_at(LAST) > 86_400_000 * 0.9


def test_percentiles_are_in_the_right_bucket():
    """Against the true ones of random spans; of nothing there are none."""
    chance = random.Random(3)
    spans = sorted(10 ** chance.uniform(0, 4) for _ in range(2000))
    histogram = [0] * BUCKETS
    for span in spans:
        histogram[bucket_of(span)] += 1
    for part in (0.5, 0.95, 0.99):
        told = percentile(histogram, part) / timedelta(milliseconds=1)
        assert told == pytest.approx(spans[int(part * 2000)], rel=0.2)
    assert percentile([0] * BUCKETS, 0.5) is None
    assert list(lengthen(shorten(histogram))) == [
        (bucket, number)
        for bucket, number in enumerate(histogram)
        if histogram.index(next(filter(None, histogram))) <= bucket <= max(map(bucket_of, spans))
    ]


def test_no_percentile_is_longer_than_the_longest():
    """One run of five seconds took five; and of many alike none took longer than they did."""
    one, many = [0] * BUCKETS, [0] * BUCKETS
    one[bucket_of(5_000)] = 1
    many[bucket_of(803_000)] = 31
    five, thirteen = timedelta(seconds=5), timedelta(minutes=13, seconds=23)
    assert [percentile(one, part, five) for part in (0.5, 0.95, 0.99)] == [five] * 3
    assert all(thirteen * 0.9 < percentile(many, part, thirteen) <= thirteen for part in (0.5, 0.95, 1.0))
    one[LAST] = 1
    assert percentile(one, 1.0, timedelta(days=9)) == timedelta(days=9)


def test_the_longest_are_kept_through_rows(clock):
    """Of several counts the longest counts; of what an older release wrote, the end of its last bucket."""
    tally = Tally(clock)
    count(tally, [ended(clock, seconds=seconds, late=late) for seconds, late in ((5.0, 0.5), (2.0, 803.0))])
    [counts] = tally.take().values()
    [row] = to_rows(counts)
    assert (row.longest_run, row.longest_lag) == (5_000_000, 803_000_000)
    written = msgspec.json.decode(msgspec.json.encode(row))
    before = msgspec.convert(written[:-2], Row)
    assert (before.longest_run, before.longest_lag) == (0, 0)
    for rows, longest in (((row, row), 5.0), ((row, before), ends_at(bucket_of(5_000)) / 1000)):
        sums = {}
        add_rows(sums, rows)
        figures = figures_of(("mail", "send"), sums["mail", "send"])
        assert figures.run_percentile(1.0).total_seconds() == pytest.approx(longest, rel=1e-4)


def test_a_record_has_its_limits(clock):
    """Pairs beyond the most are one, in the tally and in a record, nothing of them lost; and bytes are bounded."""
    tally = Tally(clock)
    for _ in range(2):
        count(tally, [ended(clock, queue=f"customer-{number}") for number in range(CROWDED + 50)])
        clock.advance(60)
    count(tally, [ended(clock)])
    for counts in list(tally.take().values())[:2]:
        assert len(counts) == PAIRS + 1
        assert counts[OTHER][COMPLETED] == CROWDED + 50 - PAIRS

    many = {}
    for number in range(500):
        many["q" * 100, f"task-{number}"] = [number + 1] * len(new_count())
    rows = to_rows(many)
    assert sum(len(repr(row)) for row in rows) < 3 * ROWS_LIMIT
    assert (rows[0].task, rows[-1].task) == ("task-499", "")
    again = {}
    add_rows(again, rows)
    columns = list(zip(*again.values(), strict=True))
    assert [sum(column) for column in columns[:LONGEST_RUN]] == [500 * 501 // 2] * LONGEST_RUN
    assert [max(column) for column in columns[LONGEST_RUN:]] == [500, 500]


def test_what_nobody_takes_does_not_grow_for_ever(clock):
    """Of a process whose store takes no figures the oldest minutes are forgotten."""
    tally = Tally(clock)
    for _ in range(MINUTES_KEPT + 5):
        count(tally, [ended(clock)])
        clock.advance(60)
    assert len(tally.take()) == MINUTES_KEPT


@pytest.mark.parametrize("odd", [-1, 2**56 + 1, 10**30])
def test_numbers_that_cannot_be_are_not_read(odd):
    """Somebody damaged or hostile wrote them: they would make sums that no span can hold, and end every look."""
    row = ["mail", "send", 0, 8, 0, 0, 0, 1701503, [7, 1], [30, 3], 5, 5]
    assert msgspec.json.decode(msgspec.json.encode({"rows": [row]}), type=Rollup).rows
    for place, wrong in ((2, odd), (7, odd), (8, [0, odd]), (10, odd), (11, odd)):
        body = json.dumps({"rows": [[*row[:place], wrong, *row[place + 1 :]]]}).encode()
        assert read_rollup(Record(kind=Kind.TALLY, name="1", version=1, due_at=None, body=body, token="t")) == EMPTY
