"""`standfast locks`: who holds what, and taking it away."""

import json

import pytest

from standfast import Standfast
from standfast.errors import LockLostError


@pytest.fixture
def app(world):
    with Standfast(world.url) as app:
        yield app


def test_locks_are_listed_with_their_holders(standfast, app):
    """A table for people, the same for programs."""
    assert "No lock was held in the last 30 days." in standfast("locks").output
    with app.lock("nightly") as held, app.semaphore("api", 5), app.semaphore("api", 5):
        listed = json.loads(standfast("locks", "list", "--json").output)
        assert [(each["name"], each["places"], len(each["holders"])) for each in listed] == [
            ("api", 5, 2),
            ("nightly", 1, 1),
        ]
        assert listed[1]["last_token"] == listed[1]["holders"][0]["token"] == held.token
        assert listed[1]["waiting"] == 0
        text = standfast("locks").output
        assert "nightly" in text
        assert "2/5" in text
        assert " pid " in text
    assert [each["holders"] for each in json.loads(standfast("locks", "--json").output)] == [[], []]


def test_a_lock_is_taken_from_its_holder_after_asking(standfast, app):
    """Who held it hears of it; the warning names it."""
    lock = app.lock("nightly", ttl=1)
    assert lock.acquire(timeout=0)
    refused = standfast("locks", "release", "nightly", input="n\n")
    assert refused.exit_code == 1
    assert "may go on for a while beside the next holder" in refused.output
    assert lock.held
    done = standfast("locks", "release", "nightly", input="y\n")
    assert done.exit_code == 0
    assert "taken from 1 holder" in done.output
    with pytest.raises(LockLostError):
        lock.release()


def test_a_program_takes_it_without_asking(standfast, app):
    lock = app.lock("nightly", ttl=1)
    assert lock.acquire(timeout=0)
    token = lock.token
    answer = json.loads(standfast("locks", "release", "nightly", "--yes", "--json").output)
    assert (answer["name"], [each["token"] for each in answer["released"]]) == ("nightly", [token])
    with pytest.raises(LockLostError):
        lock.release()
    assert "Nobody holds lock 'nightly'" in standfast("locks", "release", "nightly", "--yes").output


def test_nobody_there_to_ask(standfast, app):
    with app.lock("nightly"):
        assert standfast("locks", "release", "nightly").exit_code == 2


def test_an_unknown_lock_is_told_of(standfast, app):
    app.prepare()
    answer = standfast("locks", "release", "nothing", "--yes")
    assert answer.exit_code == 1
    assert "there is no lock 'nothing'" in answer.output
