"""Claims that pass over jobs of closed tasks go on behind them, and begin there the next time."""

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from standfast.stores.redis.claim import AT_ONCE, SHARE, SWEEP_EVERY, ScanMarks
from standfast.stores.redis.store import RedisStore
from standfast.stores.rows import to_micros
from standfast.stores.values import ClaimAnswer, ClaimRequest

NOW = datetime(2026, 1, 1, tzinfo=UTC)
REQUEST = ClaimRequest("w", 1, limit=3, look_ahead=timedelta(seconds=10), ahead_limit=5, closed_tasks=("full",))
LANE = "lane:0:5"


def micros(seconds: float) -> int:
    return to_micros(NOW + timedelta(seconds=seconds))


def mark(seconds: float, size: int = 0) -> list[Any]:
    return [LANE.encode(), str(micros(seconds)).encode(), size]


def claim(store: RedisStore, *marks: list[Any]) -> tuple[list[Any], ClaimAnswer]:
    """Answer the scripts of a claim with these marks, none at the end; return the places that each was told."""
    steps, told = store.claim(REQUEST).steps, []
    script: Any = next(steps)
    for more in (*marks, []):
        told.append(msgspec.msgpack.decode(script.args[-1])[5])
        try:
            script = steps.send([str(micros(0)).encode(), None, [], [], more])
        except StopIteration as stop:
            return told, stop.value
    raise AssertionError("it asks on and on")


def test_a_claim_begins_at_the_front_and_goes_on_where_another_has_ended() -> None:
    """But not at a time to come: what is enqueued later may be due before."""
    store = RedisStore()
    told, answer = claim(store, mark(-9), mark(-5, 7), mark(4, 2))
    places = [{LANE: [micros(seconds), size]} for seconds, size in ((-9, 0), (-5, 7), (4, 2))]
    assert told == [None, *places]
    assert answer == ClaimAnswer((), NOW, None)
    assert claim(store, mark(-9), mark(-2))[0] == [None, places[1], {LANE: [micros(-2), 0]}]
    assert claim(store, mark(-9))[0] == [None, {LANE: [micros(-2), 0]}]
    assert claim(store)[0] == [None]


def test_a_claim_that_has_looked_at_many_goes_on_soon() -> None:
    """It asks for so many scripts at most, and says that there may be more."""
    store = RedisStore()
    told, answer = claim(store, *(mark(-100 + place) for place in range(AT_ONCE + 1)))
    assert len(told) == AT_ONCE + 1
    assert answer.next_due_at == NOW
    assert claim(store, mark(-100))[0][1] == {LANE: [micros(-100 + AT_ONCE), 0]}


def test_everything_is_looked_at_again_from_time_to_time() -> None:
    """The less often the longer it takes."""
    now = [0.0]
    passing = ScanMarks(lambda: now[0])
    passing.marks(REQUEST)[LANE] = (1, 2)
    with passing.behind():
        now[0] += SWEEP_EVERY - 1
    assert passing.marks(REQUEST)
    now[0] += (SWEEP_EVERY - 1) / SHARE - SWEEP_EVERY
    assert passing.marks(REQUEST)
    now[0] += 1
    assert not passing.marks(REQUEST)
    passing.marks(REQUEST)[LANE] = (1, 2)
    now[0] += SWEEP_EVERY
    assert not passing.marks(REQUEST)
