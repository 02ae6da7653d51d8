"""Whose turn it is to look: one in each slot, in the order of ranks, and somebody when a turn was missed."""

from datetime import UTC, datetime

import pytest

from standfast.stores.values import Turn
from standfast.worker.lease import AGREED_BEFORE, TOLERANCE, PollTurns, until_agreed

EVERY = 2.0
NOON = 1_767_225_600.0
"""A time at which a round of any small number of workers begins."""

SECONDS_OF_A_ROUND = 60


def at(seconds: float) -> datetime:
    return datetime.fromtimestamp(NOON + seconds, UTC)


def of(rank: int, count: int, polled: float | None = None) -> Turn:
    return Turn(rank, count, None if polled is None else at(polled))


def settled(turn: Turn, now: float = 0.1, every: float = EVERY) -> PollTurns:
    """Return the turns of one who has looked, and heard of its place, at this time."""
    turns = PollTurns(every, beat_every=5.0)
    turns.learn(turn, NOON + now)
    look(turns, now)
    return turns


def look(turns: PollTurns, now: float, *, left: bool = False) -> None:
    """Look by turn."""
    turns.looked(at(now), left=left)
    turns.take(NOON + now)


def looks(turns: PollTurns, until: float, since: float = 0.2) -> list[float]:
    """Return when one looks who does so as soon as it is its turn."""
    now, times = NOON + since, []
    while (now := now + turns.due_in(now)) < NOON + until:
        assert turns.is_up(now)
        times.append(now - NOON)
        look(turns, now + 0.004 - NOON)
        now += 0.005
    return times


@pytest.mark.parametrize("count", [1, 2, 3, 5, 10])
def test_somebody_looks_in_each_slot_and_nobody_else(count: int) -> None:
    """However many there are, the store is looked at every so often, by all of them in turn."""
    each = [looks(settled(of(rank, count)), SECONDS_OF_A_ROUND) for rank in range(count)]
    together = sorted(look for times in each for look in times)
    assert together == pytest.approx([EVERY * slot for slot in range(1, int(SECONDS_OF_A_ROUND / EVERY))])
    assert max(map(len, each)) - min(map(len, each)) <= 1


def test_who_comes_looks_at_once_and_then_in_its_slots() -> None:
    turns = PollTurns(EVERY, beat_every=5.0)
    turns.learn(of(1, 3), NOON + 0.5)
    assert turns.is_up(NOON + 0.5)
    look(turns, 0.5)
    assert looks(turns, 20) == pytest.approx([2, 8, 14])


def test_a_look_because_of_the_bell_is_no_turn() -> None:
    """Not even if it was answered after the turn had come."""
    for answered in (1.9, 2.001):
        turns = settled(of(1, 2))
        turns.looked(at(answered), left=False)
        assert looks(turns, 8, since=1.95) == pytest.approx([2, 6])


def test_a_turn_that_has_come_is_not_lost_by_news_of_another_place() -> None:
    turns = settled(of(1, 2))
    turns.learn(of(0, 3), NOON + 2.001)
    assert turns.is_up(NOON + 2.001)


def test_a_new_place_counts_from_the_next_slot_on() -> None:
    turns = settled(of(0, 2))
    turns.learn(of(2, 3), NOON + 1.0)
    assert looks(turns, 12, since=1.0) == pytest.approx([4, 10])


def test_who_is_told_of_no_place_is_alone() -> None:
    turns = PollTurns(EVERY, beat_every=5.0)
    turns.learn(None, NOON + 0.1)
    look(turns, 0.1)
    assert not turns.has_others
    assert looks(turns, 7) == pytest.approx([2, 4, 6])


def test_when_the_fleet_has_shrunk_the_first_looks_at_once() -> None:
    """Jobs may have come back. One look is enough."""
    first, other = settled(of(0, 3)), settled(of(1, 3))
    first.learn(of(0, 2), NOON + 0.3)
    other.learn(of(1, 2), NOON + 0.3)
    assert first.is_up(NOON + 0.3)
    assert not other.is_up(NOON + 0.3)


@pytest.mark.parametrize("step", [-3600.0, 3600.0])
def test_a_store_whose_clock_was_set_has_turns_as_before(step: float) -> None:
    """Set forth, the next turn has come; set back, none is an hour away."""
    turns = settled(of(1, 3))
    assert turns.due_in(NOON + step) <= 3 * EVERY
    later = [step + seconds for seconds in (14, 20, 26, 32, 38)]
    assert looks(turns, step + 40, since=step + 10)[1:] == pytest.approx(later)


def test_slots_beyond_a_beat_are_watched_over() -> None:
    """A look that nobody made is made up for by whoever hears of it; one's own counts before it was reported."""
    slow = 10.0
    fresh = settled(of(1, 2), 3.0, slow)
    fresh.learn(of(1, 2, polled=3.0), NOON + 3.0 + slow + TOLERANCE - 0.1)
    assert fresh.slow
    assert not fresh.is_up(NOON + 9.0)
    for told in (None, 0.0):
        stale = PollTurns(slow, beat_every=5.0)
        stale.learn(of(1, 2, polled=told), NOON + slow + TOLERANCE + 0.1)
        assert stale.is_up(NOON + slow + TOLERANCE + 0.1)
        look(stale, slow + TOLERANCE + 0.2, left=True)
        stale.learn(of(1, 2, polled=told), NOON + slow + TOLERANCE + 1)
        assert not stale.is_up(NOON + slow + TOLERANCE + 1)


def test_who_comes_where_slots_are_long_looks_only_if_nobody_has() -> None:
    turns = PollTurns(10.0, beat_every=5.0)
    assert not turns.is_up(NOON + 3.0)
    turns.learn(of(1, 2, polled=1.0), NOON + 3.0)
    assert not turns.is_up(NOON + 3.0)


def test_a_look_in_the_future_was_before_the_clock_was_set() -> None:
    turns = PollTurns(10.0, beat_every=5.0)
    turns.learn(of(1, 2, polled=3600.0), NOON)
    assert turns.is_up(NOON)
    look(turns, 0.1)
    turns.learn(of(1, 2, polled=3600.0), NOON + 5)
    assert not turns.is_up(NOON + 5)


def test_short_slots_are_not_watched_over() -> None:
    """The beat would tell too late of a look in time."""
    turns = settled(of(1, 2))
    turns.learn(of(1, 2, polled=-100.0), NOON + 1.0)
    assert not turns.is_up(NOON + 1.0)


def test_what_left_something_is_not_reported() -> None:
    """So that others look as if nobody had."""
    turns = settled(of(0, 2), 1.0)
    turns.looked(at(3.0), left=True)
    assert turns.polled_at == at(1.0)


def test_somebody_looks_before() -> None:
    """With others there is a look in every slot; alone one knows by oneself."""
    turns = settled(of(0, 5))
    assert turns.somebody_looks_before(NOON + 4.5, NOON + 2.5)
    assert not turns.somebody_looks_before(NOON + 3.9, NOON + 2.5)
    assert not settled(of(0, 1)).somebody_looks_before(NOON + 4.5, NOON + 2.5)


@pytest.mark.parametrize("now", [0.0, 3.3, 9.0, 9.69, 9.75, 9.99])
def test_before_each_slot_all_beat_one_after_the_other(now: float) -> None:
    waits = [until_agreed(10.0, of(rank, 4), NOON + now) for rank in range(4)]
    beats = [(now + wait) % 10.0 for wait in waits]
    latest, earliest = AGREED_BEFORE
    assert all(10.0 - earliest <= beat <= 10.0 - latest + 1e-6 for beat in beats)
    assert len({round(beat, 3) for beat in beats}) == 4
    assert all(0 < wait <= 10.0 for wait in waits)


@pytest.mark.parametrize(("count", "next_ones"), [(1, 1), (2, 2), (3, 3), (4, 3), (5, 3), (6, 4), (20, 11)])
@pytest.mark.parametrize("now", [0.1, 2.3, 5.9, 31.0])
def test_more_than_half_are_the_next_ones_and_no_fewer_than_three(count: int, next_ones: int, now: float) -> None:
    """Whatever the time: so half of them may be gone, or two of a few, and one who looks is there."""
    among = [settled(of(rank, count), now).is_among_next(NOON + now) for rank in range(count)]
    assert sum(among) == next_ones
