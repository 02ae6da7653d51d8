"""Locks and semaphores, on every store: atomic, fenced, and ending by the store's time."""

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from functools import partial

from conformance import Harness
from standfast.durable.lockstate import LockRequest, Look, draw_token, free, give_back, look_at_all, renew, take
from standfast.model.records import Kind
from standfast.stores.verb import run_procedure

TTL = 15.0


def ask(harness: Harness, holder: str, places: int = 1, *, name: str = "a", waits: bool = False) -> Look:
    bid = LockRequest(holder, timedelta(seconds=TTL), places)
    return run_procedure(harness.backend.run, take(harness.verbs, Kind.LOCK, name, bid, waits=waits))


def leave(harness: Harness, holder: str) -> bool:
    return run_procedure(harness.backend.run, give_back(harness.verbs, Kind.LOCK, "a", holder))


def stay(harness: Harness, **held: list[str]) -> dict[str, bool]:
    wish = {name: dict.fromkeys(holders, timedelta(seconds=TTL)) for name, holders in held.items()}
    return dict(run_procedure(harness.backend.run, renew(harness.verbs, Kind.LOCK, wish)))


def test_one_holds_it_until_it_is_given_back(harness: Harness) -> None:
    """Meanwhile nobody else does; who does not hold it gives nothing back."""
    first = ask(harness, "one").token
    assert ask(harness, "two").token is None
    assert not leave(harness, "two")
    assert leave(harness, "one")
    assert not leave(harness, "one")
    second = ask(harness, "two").token
    assert first is not None
    assert second is not None
    assert second > first


def test_it_ends_by_the_stores_time_unless_it_is_renewed(harness: Harness) -> None:
    """A renewal is for the whole span. After the end there is none."""
    first = ask(harness, "one").token
    for _ in range(3):
        harness.clock.advance(TTL - 1)
        assert stay(harness, a=["one"]) == {"one": True}
    harness.clock.advance(TTL - 0.001)
    assert ask(harness, "two").token is None
    harness.clock.advance(0.001)
    assert stay(harness, a=["one"]) == {"one": False}
    second = ask(harness, "two").token
    assert first is not None
    assert second is not None
    assert second > first
    assert not leave(harness, "one")
    assert ask(harness, "three").token is None


def test_many_are_renewed_together(harness: Harness) -> None:
    """One procedure is for all locks, and for several holders of one."""
    assert ask(harness, "one", 2).token
    assert ask(harness, "two", 2).token
    assert ask(harness, "other", name="b").token
    harness.clock.advance(TTL - 1)
    stays = stay(harness, a=["one", "two", "gone"], b=["other"], c=["nobody"])
    assert stays == {"one": True, "two": True, "gone": False, "other": True, "nobody": False}
    harness.clock.advance(TTL - 1)
    assert ask(harness, "three", 2).token is None


def test_asking_again_after_a_lost_answer_is_the_same_place(harness: Harness) -> None:
    """It has the same token, and is held once."""
    first = ask(harness, "one", 2)
    assert ask(harness, "one", 2).token == first.token
    assert ask(harness, "two", 2).token is not None
    assert ask(harness, "three", 2).token is None


def test_its_tokens_outlive_everything(harness: Harness) -> None:
    """However long nobody holds it and whatever the clock does, the next token is greater."""
    seen = 0
    for number in range(4):
        token = ask(harness, f"holder-{number}").token
        assert token is not None
        assert token > seen
        seen = token
        assert leave(harness, f"holder-{number}")
        harness.clock.step_wall(-86_400.0 * 30)
    drawn = run_procedure(harness.backend.run, draw_token(harness.verbs, "a"))
    assert drawn > seen


def test_the_line_is_kept_by_the_store(harness: Harness) -> None:
    """The first has the place when it is free; one who goes away makes room."""
    assert ask(harness, "one").token
    assert ask(harness, "first", waits=True).rank == 0
    assert ask(harness, "second", waits=True).rank == 1
    assert leave(harness, "one")
    assert ask(harness, "stranger").token is None
    assert ask(harness, "second", waits=True).token is None
    assert not leave(harness, "first")
    assert ask(harness, "second", waits=True).token is not None


def test_a_person_takes_it_from_its_holder(harness: Harness) -> None:
    """The holder hears of it when it renews."""
    assert ask(harness, "one").token
    was = run_procedure(harness.backend.run, free(harness.verbs, "a"))
    assert was is not None
    assert [holder.id for holder in was.holders] == ["one"]
    assert stay(harness, a=["one"]) == {"one": False}
    now, rolls = run_procedure(harness.backend.run, look_at_all(harness.verbs))
    assert now == harness.clock.now()
    assert rolls["a"].holders == ()
    assert run_procedure(harness.backend.run, free(harness.verbs, "nothing")) is None


def test_nobody_is_woken_by_it(harness: Harness) -> None:
    """It is never due: beats have nothing to tell of it, and its record stays."""
    assert ask(harness, "one").token
    assert harness.beat(harness.register()).record_due_at is None
    assert leave(harness, "one")
    assert harness.record("a", Kind.LOCK) is not None


def test_of_many_at_a_time_as_many_hold_it_as_there_are_places(harness: Harness) -> None:
    """However they meet: at first, after the end of others, and when it was given back."""
    for places in (1, 3):
        with ThreadPoolExecutor(8) as pool:
            holders = [f"{places}-{number}" for number in range(8)]
            looks = list(pool.map(partial(ask, harness, places=places), holders))
        tokens = [look.token for look in looks if look.token is not None]
        assert len(set(tokens)) == len(tokens)
        assert 1 <= len(tokens) <= places
        _, rolls = run_procedure(harness.backend.run, look_at_all(harness.verbs))
        assert len(rolls["a"].holders) == len(tokens)
        harness.clock.advance(TTL)
