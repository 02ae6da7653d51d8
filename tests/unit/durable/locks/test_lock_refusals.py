"""What cannot be asked of a lock is refused, in words that help."""

import pytest

from standfast import ConfigurationError, Standfast, StoreUnavailableError
from standfast.durable.lockstate import MOST_PLACES
from standfast.errors import LockStateError


@pytest.mark.parametrize("ttl", [0, -1, 0.01, 10**9, float("nan"), float("inf"), "30", None, True])
def test_a_ttl_that_cannot_be(app, ttl) -> None:
    with pytest.raises(ConfigurationError, match="ttl must be from"):
        app.lock("a", ttl=ttl)


@pytest.mark.parametrize("name", ["", " ", "a b", "a" * 129, "ä\n", 3, None, "a/b"])
def test_a_name_that_cannot_be(app, name) -> None:
    with pytest.raises(ConfigurationError, match="a lock's name must be"):
        app.lock(name)


@pytest.mark.parametrize("places", [0, -1, 1.5, MOST_PLACES + 1, True, "5", None])
def test_a_semaphore_that_cannot_be(app, places) -> None:
    with pytest.raises(ConfigurationError, match="a semaphore must have from 1"):
        app.semaphore("a", places)


@pytest.mark.parametrize("timeout", [-1, float("nan"), float("inf"), "5"])
def test_a_timeout_that_cannot_be(app, timeout) -> None:
    with pytest.raises(ConfigurationError, match="timeout must be"):
        app.lock("a", timeout=timeout)
    with pytest.raises(ConfigurationError, match="timeout must be"):
        app.lock("a").acquire(timeout=timeout)


def test_an_option_that_does_not_exist(app) -> None:
    with pytest.raises(ConfigurationError, match="ttl"):
        app.lock("a", tll=3)


def test_one_object_holds_it_once(app) -> None:
    lock = app.lock("a")
    with lock, pytest.raises(LockStateError, match="already"):
        lock.acquire(timeout=0)
    assert lock.acquire(timeout=0)


def test_who_does_not_hold_it_cannot_release_it(app) -> None:
    with app.lock("a") as held:
        with pytest.raises(LockStateError, match="not held by this object"):
            app.lock("a").release()
        assert held.held
    with pytest.raises(LockStateError, match="not held by this object"):
        held.release()
    with pytest.raises(LockStateError):
        _ = held.token


def test_session_locks_are_refused_where_there_are_no_sessions(app) -> None:
    with pytest.raises(
        ConfigurationError, match="session=True needs a postgresql:// store, and this one is sqlite"
    ):
        app.lock("a", session=True)


@pytest.mark.parametrize("retry_for", [0, 30])
@pytest.mark.parametrize("timeout", [0, 0.1])
def test_a_store_that_is_away_is_told_of(timeout, retry_for) -> None:
    """However long it would be tried again: it is not said that somebody else has the lock."""
    with Standfast("redis://127.0.0.1:1/0", retry_for=retry_for) as app, pytest.raises(StoreUnavailableError):
        app.lock("a").acquire(timeout=timeout)
