"""`jobs signal`: a job that waits goes on, any other keeps the signal, and what cannot be sent is refused."""

from datetime import timedelta

import pytest
from cli_world import answer, assert_refused

from standfast.model.memos import signal_reason
from standfast.model.states import Move, State


@pytest.fixture
def waiting(world):
    """A job that waits for an approval."""
    job_id = world.enqueue()
    world.end(job_id, Move.SNOOZE, delay=timedelta(days=1), reason=signal_reason("approved"))
    return job_id


def bodies(world, job_id):
    return [memo.body for memo in world.do(world.verbs.memos(job_id))]


def test_a_job_that_waits_goes_on(world, standfast, waiting):
    result = standfast("jobs", "signal", waiting, "approved", '{"by": "ada"}')
    assert (result.exit_code, result.stdout) == (0, f"{waiting}  goes on\n")
    assert world.state(waiting) is State.READY
    assert bodies(world, waiting) == [b'{"by":"ada"}']


def test_without_data_it_is_null(world, standfast, waiting):
    """And the end of an id is enough."""
    said = answer(standfast("jobs", "signal", waiting[-8:], "approved", "--json"))
    assert (said["id"], said["answer"], said["waited"]) == (waiting, "sent", True)
    assert bodies(world, waiting) == [b"null"]


def test_another_signal_is_kept(world, standfast, waiting):
    result = standfast("jobs", "signal", waiting, "paid", "7")
    assert result.stdout == f"{waiting}  has it, for when it waits for it; now it waits for signal 'approved'\n"
    assert world.state(waiting) is State.SCHEDULED


@pytest.mark.parametrize("state", [State.COMPLETED, State.DEAD, State.CANCELLED])
def test_a_job_that_is_over_is_refused(world, standfast, state):
    job_id = world.one_of_each()[state]
    assert_refused(standfast("jobs", "signal", job_id, "approved"), 1, "is over, and takes no signal 'approved'")


def test_an_unknown_job_is_refused(standfast):
    assert_refused(standfast("jobs", "signal", "nope", "approved"), 1, "there is no job 'nope'")


@pytest.mark.parametrize(
    ("words", "said"),
    [(("approved", "yes"), "is no JSON"), (("a:b",), "without ':'"), (("sleep",), "choose another")],
)
def test_what_cannot_be_sent_is_refused(standfast, waiting, words, said):
    result = standfast("jobs", "signal", waiting, *words)
    assert result.exit_code == 2
    assert said in result.stderr


def test_why_tells_what_it_waits_for(standfast, waiting):
    told = answer(standfast("why", waiting, "--json"))
    assert told["cause"] == "waiting_for_signal"
    assert told["text"].startswith("It waits for signal 'approved', until ")
    assert told["remedy"] == f"`standfast jobs signal {waiting} approved` sends it"
