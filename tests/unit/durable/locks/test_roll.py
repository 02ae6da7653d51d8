"""Who holds a lock and who waits for it, decided purely."""

from datetime import UTC, datetime, timedelta

import msgspec
import pytest
from msgspec.structs import replace

from standfast.durable.lockstate import (
    LONGEST_LINE,
    PASSED_KEPT,
    PLACE_KEPT,
    PRECEDENCE,
    LockRequest,
    LockState,
    granted,
    in_line,
    next_token,
    read_lock_state,
    renewed,
    without,
)
from standfast.model.records import Kind, Record

NOW = datetime(2030, 1, 2, 3, 4, 5, tzinfo=UTC)
TTL = timedelta(seconds=30)


def bid(name: str, places: int = 1) -> LockRequest:
    return LockRequest(name, TTL, places)


def given(roll: LockState, name: str, places: int = 1, now: datetime = NOW) -> LockState:
    fresh = granted(roll, bid(name, places), now)
    assert fresh is not None
    return fresh


def waiting(*names: str, roll: LockState | None = None) -> LockState:
    roll = roll or given(LockState(), "holder")
    for name in names:
        fresh = in_line(roll, bid(name), NOW)
        assert fresh is not None
        roll = fresh
    return roll


def read_again(roll: LockState, now: datetime) -> LockState:
    return read_lock_state(Record(Kind.LOCK, "a", 1, None, msgspec.json.encode(roll), "token"), now)


def test_one_holds_a_lock_and_others_wait() -> None:
    roll = given(LockState(), "one")
    assert granted(roll, bid("two"), NOW) is None
    assert granted(without(roll, "one", NOW), bid("two"), NOW) is not None


def test_a_semaphore_has_so_many_places_and_no_more() -> None:
    roll = LockState()
    for name in "abcde":
        roll = given(roll, name, 5)
    assert granted(roll, bid("f", 5), NOW) is None
    assert len(given(roll, "f", 6).holders) == 6
    assert granted(without(roll, "a", NOW), bid("f", 4), NOW) is None


def test_a_token_is_greater_than_any_before_it_even_if_the_clock_went_back() -> None:
    first = given(LockState(), "one")
    later = given(without(first, "one", NOW), "two", now=NOW - timedelta(days=2))
    assert later.last_token == first.last_token + 1


def test_a_token_grows_with_the_time_where_the_store_lost_what_it_knew() -> None:
    """A promoted replica, or a backup, does not know of the last holders."""
    first = given(LockState(), "one")
    assert given(LockState(), "two", now=NOW + timedelta(microseconds=1)).last_token > first.last_token


def test_a_renewal_keeps_the_token() -> None:
    roll = given(LockState(), "one")
    again = given(roll, "one", now=NOW + TTL / 2)
    assert again.last_token == roll.last_token
    assert again.holders[0].until == NOW + TTL / 2 + TTL


def test_a_holder_is_gone_when_its_time_is_over_and_cannot_be_renewed() -> None:
    roll = given(LockState(), "one")
    assert read_again(roll, NOW + TTL - timedelta(microseconds=1)).holder("one") is not None
    over = read_again(roll, NOW + TTL)
    assert over.holder("one") is None
    assert renewed(over, "one", NOW + 2 * TTL) is None
    assert over.freed_at == NOW + TTL


def test_the_first_in_line_has_the_place_at_once_and_others_later() -> None:
    roll = without(waiting("first", "second"), "holder", NOW)
    assert granted(roll, bid("newcomer"), NOW) is None
    assert granted(roll, bid("second"), NOW) is None
    assert given(roll, "first").line[0].id == "second"


def test_who_does_not_come_keeps_those_behind_it_waiting_for_a_little_and_no_more() -> None:
    roll = without(waiting("dead", "second", "third"), "holder", NOW)
    assert granted(roll, bid("second"), NOW + PRECEDENCE * 0.99) is None
    assert granted(roll, bid("second"), NOW + PRECEDENCE) is not None
    assert granted(roll, bid("third"), NOW + PRECEDENCE) is None
    assert granted(roll, bid("third"), NOW + PRECEDENCE * 2) is not None


def test_a_long_line_of_the_dead_is_soon_passed() -> None:
    """As when a whole machine of those who wait is gone."""
    roll = without(waiting(*(f"dead-{number}" for number in range(15))), "holder", NOW)
    assert granted(roll, bid("newcomer"), NOW + PRECEDENCE * 3.99) is None
    assert granted(roll, bid("newcomer"), NOW + PRECEDENCE * 4) is not None


def test_who_did_not_come_soon_loses_its_place_unless_it_looks() -> None:
    """Many who wait may die at once: those behind them need not wait for each of them again and again."""
    roll = without(waiting("dead", "second", "third"), "holder", NOW)
    later = given(roll, "second", now=NOW + PRECEDENCE)
    soon = NOW + PRECEDENCE + PASSED_KEPT
    assert [each.id for each in read_again(later, soon).line] == ["third"]
    alive = in_line(later, bid("dead"), NOW + PRECEDENCE * 2)
    assert alive is not None
    assert read_again(alive, soon).rank("dead") == 0


def test_free_places_of_a_semaphore_are_for_as_many_of_the_line() -> None:
    roll = LockState()
    for name in "abc":
        roll = given(roll, name, 3)
    roll = waiting("first", "second", "third", roll=roll)
    roll = without(without(roll, "a", NOW), "b", NOW)
    assert granted(roll, bid("first", 3), NOW) is not None
    assert granted(roll, bid("second", 3), NOW) is not None
    assert granted(roll, bid("third", 3), NOW) is None


def test_a_place_in_line_ends_unless_it_is_kept_and_is_written_seldom() -> None:
    roll = waiting("one")
    assert in_line(roll, bid("one"), NOW + PLACE_KEPT / 3) is None
    kept = in_line(roll, bid("one"), NOW + PLACE_KEPT * 0.6)
    assert kept is not None
    assert read_again(roll, NOW + PLACE_KEPT).line == ()
    assert read_again(kept, NOW + PLACE_KEPT).rank("one") == 0
    assert read_again(kept, NOW + PLACE_KEPT).waits("one")


def test_the_line_has_an_end() -> None:
    roll = waiting(*(f"w{number}" for number in range(LONGEST_LINE)))
    assert in_line(roll, bid("one more"), NOW) is None
    assert roll.rank("one more") == LONGEST_LINE


def test_a_person_frees_it_and_the_line_stays() -> None:
    roll = replace(waiting("first"), holders=(), freed_at=NOW)
    assert roll.holders == ()
    assert granted(roll, bid("first"), NOW) is not None
    assert granted(roll, bid("other"), NOW) is None


@pytest.mark.parametrize("body", [b"", b"{", b'{"holders": 3}', b'{"holders":[{"id":1}]}', b"\xff", b"[]"])
def test_what_cannot_be_read_is_held_by_nobody_and_tokens_still_grow(body: bytes) -> None:
    roll = read_lock_state(Record(Kind.LOCK, "a", 1, None, body, "token"), NOW)
    assert roll == LockState()
    assert next_token(roll, NOW) > 10**15


def test_nobody_holds_for_longer_than_anyone_is_granted() -> None:
    """The clock of the store was wrong by years when it was written, or somebody wrote nonsense."""
    roll = given(LockState(), "one", now=NOW + timedelta(days=400))
    assert read_again(roll, NOW).holders == ()


def test_a_clock_that_was_set_back_keeps_nobody_in_line_for_longer() -> None:
    """The dead would stand before the others until the clock is where it was."""
    roll = without(waiting("dead", "second"), "holder", NOW)
    back = NOW - timedelta(hours=1)
    assert granted(read_again(roll, back), bid("second"), back) is not None
    slow = NOW - PLACE_KEPT / 2  # as somebody reads who asked for the time a while ago
    assert read_again(roll, slow).rank("second") == 1
