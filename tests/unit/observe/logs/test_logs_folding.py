"""Folding: a storm of one kind is a few lines, and no event is missing from the counts."""

from datetime import timedelta

import pytest

from standfast import events
from standfast.model.job import Failure
from standfast.observe.logs.narrator import AT_ONCE, PERIOD, Folding
from standfast.testing.clock import FakeClock


@pytest.fixture
def clock():
    return FakeClock()


@pytest.fixture
def folding(clock):
    return Folding(clock)


def failed(number=1, task="send", error="ConnectionError"):
    failure = Failure(error, f"no answer {number}")
    return events.JobRetrying(f"job-{number}", task, "mail", 1, 5, failure, timedelta())


def test_the_first_ones_are_told_and_the_others_counted(folding, clock):
    assert [folding.tells(failed(number)) for number in range(10)] == [True] * AT_ONCE + [False] * 7
    clock.advance(PERIOD - 0.1)
    assert folding.due() == []
    clock.advance(0.1)
    (folded,) = folding.due()
    assert (folded.count, folded.cause, folded.last, folded.seconds) == (7, "ConnectionError", failed(9), PERIOD)


def test_a_storm_that_goes_on_has_one_line_per_period(folding, clock):
    told = counted = 0
    for number in range(1_000):
        told += folding.tells(failed(number))
        clock.advance(0.1)
        counted += sum(folded.count for folded in folding.due())
    counted += sum(folded.count for folded in folding.rest())
    assert told == AT_ONCE
    assert told + counted == 1_000


def test_what_comes_now_and_then_is_told_each_time(folding, clock):
    for number in range(20):
        assert folding.tells(failed(number))
        clock.advance(PERIOD / 2)
        assert folding.due() == []


def test_after_a_quiet_period_a_kind_begins_anew(folding, clock):
    for number in range(5):
        folding.tells(failed(number))
    clock.advance(PERIOD)
    assert [folded.count for folded in folding.due()] == [2]
    assert not folding.tells(failed())
    clock.advance(PERIOD)
    assert [folded.count for folded in folding.due()] == [1]
    clock.advance(PERIOD)
    assert folding.due() == []
    assert folding.tells(failed())


def test_kinds_differ_by_class_task_and_error(folding):
    for _ in range(AT_ONCE):
        assert folding.tells(failed())
    assert not folding.tells(failed())
    assert folding.tells(failed(task="report"))
    assert folding.tells(failed(error="TimeoutError"))
    assert folding.tells(events.JobDied("job", "send", "mail", 5, 5, Failure("ConnectionError", "no answer")))


def test_a_handlers_own_reasons_are_one_kind_however_they_differ(folding):
    told = [folding.tells(events.JobCancelled(f"job-{n}", "send", "mail", 1, 5, f"order {n}")) for n in range(10)]
    assert told.count(True) == AT_ONCE


def test_the_rest_is_told_at_the_end_and_only_once(folding, clock):
    for number in range(5):
        folding.tells(failed(number))
    clock.advance(1)
    (folded,) = folding.rest()
    assert (folded.count, folded.seconds) == (2, 1.0)
    assert folding.rest() == []
