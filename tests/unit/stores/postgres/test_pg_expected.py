"""A claim that expects fresh jobs alone, as the one before found them, heeds at once whatever came since."""

from contextlib import closing
from datetime import timedelta

import pytest
from pg_underway import LONG

from standfast.errors import WorkerBuriedError
from standfast.model.crash import Death, DeathKind
from standfast.model.job import ClaimRef
from standfast.model.states import Move, State
from standfast.stores.postgres.store import PostgresBackend
from standfast.stores.values import ClaimRequest
from standfast.stores.verb import Try

MAX_WAIT = timedelta(seconds=60)
SECOND = timedelta(seconds=1)
STOPPED = Death(DeathKind.STOPPED)
QUEUES = [None, ("default", "other")]


@pytest.fixture(params=QUEUES, ids=["every queue", "named"])
def served(crossing, request):
    """Give a worker, whose next claim is a short one, and what it asks for."""
    return warm(crossing, queues=request.param)


def warm(crossing, **asked):
    """Let a worker claim a job of each queue; return it with what it asks for."""
    worker = crossing.register()
    for queue in ("default", "other"):
        crossing.enqueue(queue=queue)
    assert len(crossing.claim(worker, **asked)) == 2
    assert is_short(crossing, worker, **asked)
    return worker, asked


def is_short(crossing, worker, **asked):
    """Tell whether a claim would begin with the short statement."""
    steps = crossing.verbs.claim(ClaimRequest(worker, 999, 9, **asked)).steps
    with closing(steps):
        begins = next(steps)
        return isinstance(begins, Try) and begins.statement.sql == crossing.verbs._sql["claim_fresh"]


def test_fresh_jobs_come_by_the_short_way(crossing, served):
    """Again and again, in their order: queue by queue, and in a queue as they arrived."""
    worker, asked = served
    for call in (11, 13):  # odd ones, in which the first of two queues is the first
        other = crossing.enqueue(queue="other")
        jobs = [crossing.enqueue(), crossing.enqueue()]
        assert crossing.claimed_ids(worker, call=call, **asked) == [*jobs, other]
        assert is_short(crossing, worker, **asked)


def test_every_queue_has_its_turn_by_the_short_way(crossing):
    """Who asks for all of them starts with each in turn."""
    worker, asked = warm(crossing)
    firsts = set()
    for call in (11, 12):
        crossing.enqueue()
        crossing.enqueue(queue="other")
        firsts.add(crossing.claim(worker, 1, call=call, **asked)[0].queue)
        crossing.claim(worker, **asked)
    assert firsts == {"default", "other"}


def test_it_says_what_is_left(crossing, served):
    """The first that became due, if any is left; else the first that will."""
    worker, asked = served
    later = crossing.clock.now() + 60 * SECOND
    crossing.enqueue(run_at=later)
    now = crossing.clock.now()
    assert crossing.ask(worker, 0, **asked).next_due_at == later
    for queue in ("default", "other", "other"):
        crossing.enqueue(queue=queue)
        crossing.clock.advance(1)
    for left in (now + SECOND, now + 2 * SECOND, later, later):
        assert crossing.ask(worker, 1, call=21, **asked).next_due_at == left
        assert is_short(crossing, worker, **asked)


def test_a_job_of_a_new_level_is_found(crossing, served, emptied_url):
    """Another process brought the first job of its queue, or of its priority."""
    worker, asked = served
    with closing(PostgresBackend(emptied_url, clock=crossing.clock)) as elsewhere:
        job = crossing.new_job(priority=3)
        elsewhere.run(elsewhere.verbs.enqueue([job]))
        assert crossing.claimed_ids(worker, **asked) == [job.id]
        if asked["queues"] is None:
            job = crossing.new_job(queue="new")
            elsewhere.run(elsewhere.verbs.enqueue([job]))
            assert crossing.claimed_ids(worker, **asked) == [job.id]
    assert is_short(crossing, worker, **asked)


def test_a_pause_is_heeded_and_its_end(crossing, served):
    """At once, whichever queue it is."""
    worker, asked = served
    for queue in ("default", "other"):
        crossing.run(crossing.verbs.pause(queue))
        job = crossing.enqueue(queue=queue)
        assert crossing.claimed_ids(worker, **asked) == []
        assert crossing.ask(worker, **asked).next_due_at is None
        crossing.run(crossing.verbs.resume(queue))
        assert crossing.claimed_ids(worker, **asked) == [job]


def test_one_pause_may_take_the_place_of_another(crossing, served):
    """As many queues are paused as before, but not the same."""
    worker, asked = served
    crossing.run(crossing.verbs.pause("other"))
    crossing.claim(worker, **asked)
    assert is_short(crossing, worker, **asked)
    crossing.run(crossing.verbs.resume("other"))
    crossing.run(crossing.verbs.pause("default"))
    jobs = [crossing.enqueue(queue=queue) for queue in ("default", "other")]
    assert crossing.claimed_ids(worker, **asked) == jobs[1:]


def test_a_closed_queue_gives_nothing(crossing, served):
    """By the long way and by the short one, which follows where the same queues are closed."""
    worker, asked = served
    jobs = [crossing.enqueue(queue=queue) for queue in ("default", "other", "other")]
    assert crossing.claimed_ids(worker, 1, closed=("default",), **asked) == jobs[1:2]
    assert is_short(crossing, worker, closed=("default",), **asked)
    assert crossing.claimed_ids(worker, closed=("default",), **asked) == jobs[2:]
    assert crossing.ask(worker, closed=("default",), **asked).next_due_at is None


def test_a_queue_that_opens_again_is_found_at_once(crossing, served):
    """What a claim learns while a queue is closed is not what others expect."""
    worker, asked = served
    job = crossing.enqueue()
    for _ in range(2):
        assert crossing.claimed_ids(worker, closed=("default",), **asked) == []
    assert is_short(crossing, worker, **asked)
    assert crossing.claimed_ids(worker, **asked) == [job]


def test_the_open_queues_take_turns_by_the_short_way(crossing):
    """Each of those that are open is the first in its turn."""
    worker, asked = warm(crossing)
    crossing.enqueue(queue="third")
    crossing.claim(worker, **asked)
    asked["closed"] = ("other",)
    crossing.claim(worker, **asked)
    for queue in ("default", "third") * 2:
        crossing.enqueue(queue=queue)
    assert is_short(crossing, worker, **asked)
    firsts = [crossing.claim(worker, 1, call=call, **asked)[0].queue for call in (11, 12, 13, 14)]
    assert firsts == ["default", "third"] * 2


def test_a_new_level_is_found_while_a_queue_is_closed(crossing, served, emptied_url):
    """Another process brought it; and one of the closed queue is left where it is."""
    worker, asked = served
    asked["closed"] = ("other",)
    crossing.claim(worker, **asked)
    with closing(PostgresBackend(emptied_url, clock=crossing.clock)) as elsewhere:
        for queue, found in (("default", 1), ("other", 0)):
            elsewhere.run(elsewhere.verbs.enqueue([crossing.new_job(queue=queue, priority=7)]))
            assert len(crossing.claim(worker, **asked)) == found


def test_a_job_whose_time_comes_is_found(crossing, served):
    """Not before, and among the fresh ones in its order."""
    worker, asked = served
    delayed = crossing.enqueue(delay=2 * SECOND)
    assert crossing.claimed_ids(worker, **asked) == []
    assert is_short(crossing, worker, **asked)
    crossing.clock.advance(1)
    early = crossing.enqueue()
    crossing.clock.advance(1)
    late = crossing.enqueue()
    assert crossing.claimed_ids(worker, **asked) == [early, delayed, late]


def test_a_job_within_reach_is_taken_ahead_of_its_time(crossing, served):
    """As far as the claim looks ahead, and no further."""
    worker, asked = served
    ahead = {"look_ahead": 10 * SECOND, "ahead_limit": 5}
    soon, far = crossing.enqueue(delay=10 * SECOND), crossing.enqueue(delay=11 * SECOND)
    assert crossing.claimed_ids(worker, **asked) == []
    assert crossing.claimed_ids(worker, **asked, **ahead) == [soon]
    crossing.clock.advance(1)
    assert crossing.claimed_ids(worker, **asked, **ahead) == [far]


def test_a_job_that_was_given_back_is_found(crossing, served):
    """It is not fresh any more."""
    worker, asked = served
    job_id = crossing.enqueue()
    ref = crossing.claim_one(worker, **asked)
    crossing.finish(worker, ref, Move.RELEASE)
    assert [claim.ref for claim in crossing.claim(worker, **asked)] == [ClaimRef(job_id, 2)]


def test_who_has_waited_long_has_a_turn(crossing):
    """Where priorities meet, jobs of the lower are not passed over for ever."""
    worker = crossing.register()
    asked = {"max_wait": MAX_WAIT}
    crossing.enqueue()
    crossing.enqueue(priority=9)
    assert len(crossing.claim(worker, **asked)) == 2
    assert is_short(crossing, worker, **asked)
    old = crossing.enqueue()
    crossing.clock.advance(MAX_WAIT.total_seconds() / 2)
    crossing.enqueue(priority=9)
    assert crossing.claimed_ids(worker, 1, call=13, **asked) == [old]


def test_suspects_are_no_business_of_the_short_way(crossing, served):
    """Who asks for them alone gets nothing else."""
    worker, asked = served
    crossing.enqueue()
    assert not is_short(crossing, worker, group=1, **asked)
    assert crossing.claimed_ids(worker, group=1, **asked) == []


def test_an_expectation_goes_with_the_marks(crossing, served):
    """After an error, or on a new connection, it may be another server that answers."""
    worker, asked = served
    crossing.verbs.forget_server()
    assert not is_short(crossing, worker, **asked)


def test_a_claim_that_finds_nothing_writes_nothing(crossing, served):
    """Not even a lock on its worker's row: idle workers cost the server no write."""
    worker, asked = served
    question = crossing.named("SELECT xmax::text, ctid::text FROM {}.worker WHERE id = %s")
    before = crossing.own.execute(question, (worker,)).fetchone()
    assert crossing.claimed_ids(worker, **asked) == []
    assert crossing.own.execute(question, (worker,)).fetchone() == before
    crossing.enqueue()
    assert len(crossing.claim(worker, **asked)) == 1
    assert crossing.own.execute(question, (worker,)).fetchone() != before


# -- two at once ---------------------------------------------------------------------------------------------------


def test_both_get_work(crossing, served):
    """What one is about to take, the other passes over."""
    worker, asked = served
    jobs = [crossing.enqueue() for _ in range(4)]
    with crossing.underway(crossing.verbs.claim(ClaimRequest(worker, 11, 2, **asked))) as commit:
        assert crossing.claimed_ids(worker, 2, call=13, **asked) == jobs[2:]
        assert [claim.job_id for claim in commit().jobs] == jobs[:2]


def test_a_burial_gives_back_what_was_under_way(crossing, served):
    """It waits for the claim's commit, and then sees what was claimed."""
    worker, asked = served
    job_id = crossing.enqueue()
    with crossing.underway(crossing.verbs.claim(ClaimRequest(worker, 11, 9, **asked))) as commit:
        burial = crossing.later(crossing.verbs.bury(worker, STOPPED))
        crossing.wait_until_it_waits()
        (claim,) = commit().jobs
    assert claim.ref in burial.result(LONG)
    assert crossing.job(job_id).state is State.READY


def test_a_claim_that_meets_a_burial_is_refused(crossing, served):
    """It waits for the burial's commit, and takes nothing."""
    worker, asked = served
    job_id = crossing.enqueue()
    with crossing.underway(crossing.verbs.bury(worker, STOPPED)) as commit:
        claim = crossing.later(crossing.verbs.claim(ClaimRequest(worker, 11, 9, **asked)))
        crossing.wait_until_it_waits()
        commit()
        with pytest.raises(WorkerBuriedError):
            claim.result(LONG)
    assert (crossing.job(job_id).state, crossing.job(job_id).fence) == (State.READY, 0)
    with pytest.raises(WorkerBuriedError):
        crossing.claim(worker, **asked)
