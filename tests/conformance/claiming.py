"""Which jobs a claim brings, in which order, and how far it looks ahead."""

from datetime import timedelta

import pytest

from conformance.harness import Harness
from standfast.errors import WorkerBuriedError
from standfast.model.states import Move, State


def _in(seconds: float) -> timedelta:
    return timedelta(seconds=seconds)


class Claiming:
    """A claim gives each due job once, in order, and no more than was asked for."""

    def test_a_claim_carries_the_job(self, harness: Harness) -> None:
        """A claim tells the worker all it needs to run the job."""
        job = harness.new_job(payload=b"\x00\xff", version=3, queue="mail", priority=-2, max_attempts=7)
        harness.run(harness.verbs.enqueue([job]))
        worker = harness.register()
        answer = harness.ask(worker)
        (claim,) = answer.jobs
        assert answer.now == harness.clock.now()
        assert (claim.job_id, claim.fence, claim.task, claim.version) == (job.id, 1, job.task, 3)
        assert (claim.payload, claim.queue, claim.priority) == (b"\x00\xff", "mail", -2)
        assert (claim.run_at, claim.attempt, claim.crashes) == (harness.clock.now(), 0, 0)
        assert claim.max_attempts == 7

    def test_a_claim_tells_the_attempts_before_it(self, harness: Harness) -> None:
        """`attempt` of a claim counts the charged runs before it, not the claims."""
        worker = harness.register()
        harness.enqueue()
        attempts = []
        for move in (Move.RETRY, Move.RELEASE, Move.RETRY, Move.SNOOZE):
            (claim,) = harness.claim(worker)
            attempts.append(claim.attempt)
            harness.finish(worker, claim.ref, move)
        assert attempts == [0, 1, 1, 2]

    def test_no_job_is_claimed_twice(self, harness: Harness) -> None:
        """What one worker has, no other gets."""
        ids = [harness.enqueue() for _ in range(5)]
        first = harness.claimed_ids(harness.register(), 3)
        second = harness.claimed_ids(harness.register(), 3)
        assert first == ids[:3]
        assert second == ids[3:]

    def test_order_within_a_queue(self, harness: Harness) -> None:
        """Higher priority goes first, then the earlier time, then the earlier arrival."""
        now = harness.clock.now()
        later = harness.enqueue(run_at=now - _in(10))
        tie_one = harness.enqueue(run_at=now - _in(20))
        tie_two = harness.enqueue(run_at=now - _in(20))
        urgent = harness.enqueue(priority=1, run_at=now)
        lowest = harness.enqueue(priority=-1, run_at=now - _in(99))
        assert harness.claimed_ids(harness.register()) == [urgent, tie_one, tie_two, later, lowest]

    def test_arrival_within_one_batch_decides(self, harness: Harness) -> None:
        """Jobs of one enqueue go in the order given, whatever their ids."""
        jobs = [harness.new_job() for _ in range(4)]
        harness.run(harness.verbs.enqueue(jobs[::-1]))
        assert harness.claimed_ids(harness.register()) == [job.id for job in jobs[::-1]]

    def test_queues_go_in_the_order_asked_for(self, harness: Harness) -> None:
        """The first queue is emptied before the second is touched, whatever the priorities; others are left."""
        low = harness.enqueue(queue="first", priority=-5)
        high = harness.enqueue(queue="second", priority=5)
        harness.enqueue(queue="third")
        assert harness.claimed_ids(harness.register(), queues=("first", "second")) == [low, high]
        assert harness.job(high).state is State.HELD

    def test_the_order_asked_for_is_not_the_alphabet(self, harness: Harness) -> None:
        """A limit is spent on the queue that was named first."""
        harness.enqueue(queue="a")
        named_first = harness.enqueue(queue="z")
        assert harness.claimed_ids(harness.register(), 1, queues=("z", "a")) == [named_first]

    def test_every_queue_by_name(self, harness: Harness) -> None:
        """Without queues, all of them are served, by name."""
        second = harness.enqueue(queue="b", priority=5)
        first = harness.enqueue(queue="a")
        assert harness.claimed_ids(harness.register()) == [first, second]

    def test_every_queue_has_its_turn(self, harness: Harness) -> None:
        """However long one queue is, a worker that serves all of them starts a call with each in turn."""
        worker = harness.register()
        for queue in "abc" * 3:
            harness.enqueue(queue=queue)
        first = [harness.claim(worker, 1, call=call)[0].queue for call in (1, 2, 3, 4, 5, 6)]
        assert first == ["a", "b", "c", "a", "b", "c"]

    def test_no_queue_gives_nothing(self, harness: Harness) -> None:
        """An empty list of queues is not the same as every queue."""
        harness.enqueue()
        assert harness.claim(harness.register(), queues=()) == ()

    @pytest.mark.parametrize("limit", [0, 1, 3])
    def test_limit(self, harness: Harness, limit: int) -> None:
        """No more due jobs than `limit` in all queues together."""
        for queue in "aabb":
            harness.enqueue(queue=queue)
        assert len(harness.claim(harness.register(), limit)) == limit

    def test_nothing_is_due_early(self, harness: Harness) -> None:
        """A job that is not due is not claimed without look-ahead; at its very time it is."""
        job_id = harness.enqueue(delay=_in(10))
        worker = harness.register()
        harness.clock.advance(9.999)
        assert harness.claim(worker) == ()
        assert harness.job(job_id).state is State.SCHEDULED
        harness.clock.advance(0.001)
        assert harness.job(job_id).state is State.READY
        assert harness.claimed_ids(worker) == [job_id]

    def test_due_is_judged_by_the_clock_as_it_stands(self, harness: Harness) -> None:
        """When the wall clock is set back, a job that was due before is not started early."""
        job_id = harness.enqueue(delay=_in(10))
        harness.clock.advance(10)
        assert harness.job(job_id).state is State.READY
        harness.clock.step_wall(-5)
        assert harness.claim(harness.register()) == ()

    def test_look_ahead_takes_the_soonest(self, harness: Harness) -> None:
        """Jobs within the look-ahead are claimed by time, whatever their priority or queue, up to their limit."""
        late = harness.enqueue(delay=_in(9), priority=9, queue="a")
        soon = harness.enqueue(delay=_in(3), queue="b")
        sooner = harness.enqueue(delay=_in(1), queue="c")
        beyond = harness.enqueue(delay=_in(11))
        worker = harness.register()
        assert harness.claimed_ids(worker, look_ahead=_in(10), ahead_limit=2) == [sooner, soon]
        assert harness.claimed_ids(worker, look_ahead=_in(10), ahead_limit=2) == [late]
        assert harness.job(beyond).state is State.SCHEDULED

    def test_look_ahead_has_a_limit_of_its_own(self, harness: Harness) -> None:
        """Due jobs do not use up the places for jobs ahead, nor the other way round."""
        due = [harness.enqueue() for _ in range(3)]
        ahead = [harness.enqueue(delay=_in(second)) for second in (1, 2, 3)]
        claimed = harness.claimed_ids(harness.register(), 2, look_ahead=_in(10), ahead_limit=1)
        assert claimed == [*due[:2], ahead[0]]

    def test_a_job_claimed_ahead_keeps_its_time(self, harness: Harness) -> None:
        """A claim made ahead tells when to start; given back, the job waits for its time again."""
        job_id = harness.enqueue(delay=_in(5))
        worker = harness.register()
        (claim,) = harness.claim(worker, look_ahead=_in(10), ahead_limit=1)
        assert claim.run_at == harness.clock.now() + _in(5)
        harness.finish(worker, claim.ref, Move.RELEASE)
        job = harness.job(job_id)
        assert (job.state, job.run_at, job.attempt) == (State.SCHEDULED, claim.run_at, 0)

    def test_next_due_at_is_the_first_job_left(self, harness: Harness) -> None:
        """The answer tells when the next unclaimed job of these queues is due, or None without any."""
        now = harness.clock.now()
        worker = harness.register()
        assert harness.ask(worker).next_due_at is None
        harness.enqueue(delay=_in(30))
        harness.enqueue(delay=_in(20))
        harness.enqueue(delay=_in(10), queue="other")
        assert harness.ask(worker, queues=("default",)).next_due_at == now + _in(20)
        assert harness.ask(worker).next_due_at == now + _in(10)
        answer = harness.ask(worker, look_ahead=_in(25), ahead_limit=9)
        assert answer.next_due_at == now + _in(30)
        assert harness.ask(worker, look_ahead=_in(60), ahead_limit=9).next_due_at is None

    def test_a_claim_of_nothing_only_tells_what_is_there(self, harness: Harness) -> None:
        """Who has no place for a job may look on behalf of others, under the number of its last call."""
        worker = harness.register()
        became_due_at = harness.clock.now()
        for _ in range(2):  # a store may remember what it found
            assert harness.ask(worker, 0, call=1).jobs == ()
        job_id = harness.enqueue()
        harness.enqueue(delay=_in(5))
        harness.clock.advance(1)
        for _ in range(2):
            answer = harness.ask(worker, 0, call=1)
            assert (answer.jobs, answer.next_due_at) == ((), became_due_at)
        assert harness.job(job_id).state is State.READY
        assert harness.claimed_ids(worker) == [job_id]
        assert harness.ask(worker, 0, call=1).next_due_at == became_due_at + _in(5)

    def test_next_due_at_is_past_when_work_is_left(self, harness: Harness) -> None:
        """When the limit left due jobs behind, the answer says so by a time that has come."""
        harness.enqueue()
        became_due_at = harness.clock.now()
        harness.enqueue()
        harness.clock.advance(4)
        assert harness.ask(harness.register(), 1).next_due_at == became_due_at

    def test_a_stranger_gets_nothing(self, harness: Harness) -> None:
        """A worker that is not registered cannot claim, and takes nothing in trying."""
        job_id = harness.enqueue()
        with pytest.raises(WorkerBuriedError):
            harness.claim("stranger")
        assert harness.job(job_id).state is State.READY

    def test_run_at_wins_over_delay(self, harness: Harness) -> None:
        """A time given is the time; a delay counts from the store's own now."""
        now = harness.clock.now()
        timed = harness.enqueue(run_at=now + _in(60), delay=_in(5))
        delayed = harness.enqueue(delay=_in(5))
        assert harness.job(timed).run_at == now + _in(60)
        assert harness.job(delayed).run_at == now + _in(5)
