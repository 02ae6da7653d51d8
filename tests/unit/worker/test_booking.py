"""Which jobs that are held for later would find no place at their time."""

import pytest

from standfast.worker.timers import LONGEST_WAIT, crowded_out


def test_jobs_with_a_place_each_stay() -> None:
    assert crowded_out([5.0] * 20, free=20, ages=[], lasts=60.0) == []


def test_of_too_many_at_the_same_time_the_last_ones_go() -> None:
    assert crowded_out([5.0] * 5, free=3, ages=[], lasts=1.0) == [3, 4]


def test_short_jobs_may_wait_for_each_other() -> None:
    """Three after each other on one place, each of them as long as a third of what one may wait."""
    assert crowded_out([5.0] * 4, free=1, ages=[], lasts=LONGEST_WAIT / 3.1) == []
    assert crowded_out([5.0] * 6, free=1, ages=[], lasts=LONGEST_WAIT / 3.1) == [4, 5]


def test_one_after_the_other_has_the_same_place() -> None:
    assert crowded_out([1.0, 2.0, 3.0, 4.0], free=1, ages=[], lasts=1.0) == []
    assert crowded_out([1.0, 1.5, 2.0, 2.5], free=1, ages=[], lasts=1.0) == [1, 3]


def test_places_that_are_taken_become_free_one_by_one() -> None:
    """Three jobs of 8 s run: they are expected to end 2, 4 and 6 s from now."""
    assert crowded_out([1.0, 2.0, 4.0, 6.0], free=0, ages=[1.0, 2.0, 3.0], lasts=8.0) == [0]


def test_one_that_has_lasted_for_longer_than_others_is_not_expected_to_end_soon() -> None:
    """It has run for 30 s where others last 1 s: the one place that becomes free is that of the other."""
    assert crowded_out([1.0, 1.2, 2.0], free=0, ages=[30.0, 0.5], lasts=1.0) == [1]
    assert crowded_out([1.0, 29.0, 31.0], free=0, ages=[30.0], lasts=1.0) == [0, 1]


@pytest.mark.parametrize(("due_in", "out"), [([5.0] * 3, [2]), ([5.0, 5.05, 5.2], []), ([5.0, 5.0, 5.13], [])])
def test_without_knowing_how_long_jobs_last_only_a_burst_is_too_much(due_in: list[float], out: list[int]) -> None:
    assert crowded_out(due_in, free=2, ages=[], lasts=None) == out
