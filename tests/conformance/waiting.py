"""Jobs that may not run now: paused and closed queues, and tasks that nobody knows."""

from datetime import timedelta
from typing import Any

import pytest

from conformance.harness import KNOWN, TASK, Harness
from standfast.model.crash import DeathKind
from standfast.model.job import KnownTask
from standfast.model.states import Move, Reason, State


class Pausing:
    """A paused queue gives nothing; its jobs stay where they are."""

    def test_a_paused_queue_gives_nothing(self, harness: Harness) -> None:
        """Nothing of a paused queue is claimed, due or ahead, named or not; other queues go on."""
        harness.run(harness.verbs.pause("mail"))
        waiting = harness.enqueue(queue="mail")
        harness.enqueue(queue="mail", delay=timedelta(seconds=1))
        other = harness.enqueue(queue="other")
        worker = harness.register()
        ahead: dict[str, Any] = {"look_ahead": timedelta(seconds=10), "ahead_limit": 9}
        assert harness.claim(worker, queues=("mail",), **ahead) == ()
        assert harness.claimed_ids(worker, **ahead) == [other]
        assert harness.job(waiting).state is State.READY

    def test_a_paused_queue_has_no_next_due_time(self, harness: Harness) -> None:
        """What cannot be claimed is not announced, or workers would ask again and again."""
        harness.enqueue()
        harness.run(harness.verbs.pause("default"))
        assert harness.ask(harness.register()).next_due_at is None

    def test_resume_lets_it_go_on(self, harness: Harness) -> None:
        """After `resume` the jobs that waited are claimed."""
        job_id = harness.enqueue()
        harness.run(harness.verbs.pause("default"))
        harness.run(harness.verbs.resume("default"))
        assert harness.claimed_ids(harness.register()) == [job_id]

    def test_resume_of_a_queue_that_is_not_paused(self, harness: Harness) -> None:
        """Resuming what is not paused, or was never seen, does nothing."""
        before = harness.snapshot()
        harness.run(harness.verbs.resume("never seen"))
        assert harness.snapshot() == before

    def test_pause_keeps_its_first_time(self, harness: Harness) -> None:
        """A queue paused again has been paused since the first time."""
        paused_at = harness.clock.now()
        harness.run(harness.verbs.pause("default"))
        harness.clock.advance(5)
        harness.run(harness.verbs.pause("default"))
        (queue,) = harness.run(harness.verbs.queues())
        assert queue.paused_at == paused_at

    def test_the_beat_names_paused_queues(self, harness: Harness) -> None:
        """A beat tells which queues are paused, so that what is held of them does not start."""
        worker = harness.place(State.HELD).worker
        assert harness.beat(worker).paused == frozenset()
        harness.run(harness.verbs.pause("default"))
        harness.run(harness.verbs.pause("empty"))
        answer = harness.beat(worker)
        assert answer.paused == {"default", "empty"}
        assert answer.revoked == {}
        harness.run(harness.verbs.resume("default"))
        assert harness.beat(worker).paused == {"empty"}

    def test_a_release_into_a_paused_queue_waits(self, harness: Harness) -> None:
        """A claim given back to a paused queue is not handed out again."""
        placed = harness.place(State.HELD)
        harness.run(harness.verbs.pause("default"))
        harness.finish(placed.worker, placed.ref, Move.RELEASE)
        assert harness.job(placed.job_id).state is State.READY
        assert harness.claim(placed.worker) == ()


class Closing:
    """Queues that are closed for a call give nothing in it, as if they were paused."""

    @pytest.mark.parametrize("queues", [None, ("mail", "other"), ("other", "mail")])
    def test_a_closed_queue_gives_nothing(self, harness: Harness, queues: tuple[str, ...] | None) -> None:
        """Nothing of it is claimed, due or ahead, named or not; other queues go on, and the next call is free."""
        waiting = harness.enqueue(queue="mail")
        later = harness.enqueue(queue="mail", delay=timedelta(seconds=1))
        other = harness.enqueue(queue="other")
        soon = harness.enqueue(queue="other", delay=timedelta(seconds=2))
        worker = harness.register()
        asked: dict[str, Any] = {"queues": queues, "look_ahead": timedelta(seconds=10), "ahead_limit": 9}
        assert harness.claimed_ids(worker, **asked, closed=("mail", "unknown")) == [other, soon]
        assert (harness.job(waiting).state, harness.job(later).state) == (State.READY, State.SCHEDULED)
        assert harness.claimed_ids(worker, **asked) == [waiting, later]

    @pytest.mark.parametrize("queues", [None, ("a", "b")])
    def test_every_queue_may_be_closed(self, harness: Harness, queues: tuple[str, ...] | None) -> None:
        """Where all are closed or paused nothing is given, and nothing is announced."""
        for queue in "ab":
            harness.enqueue(queue=queue)
            harness.enqueue(queue=queue, delay=timedelta(seconds=1))
        worker = harness.register()
        ahead: dict[str, Any] = {"look_ahead": timedelta(seconds=10), "ahead_limit": 9}
        answer = harness.ask(worker, queues=queues, closed=("b", "a"), **ahead)
        assert (answer.jobs, answer.next_due_at) == ((), None)
        harness.run(harness.verbs.pause("b"))
        answer = harness.ask(worker, queues=queues, closed=("a",), **ahead)
        assert (answer.jobs, answer.next_due_at) == ((), None)

    @pytest.mark.parametrize("queues", [None, ("a", "b")])
    def test_a_closed_queue_has_no_next_due_time(self, harness: Harness, queues: tuple[str, ...] | None) -> None:
        """What is due in it, or will be, is not announced; what others have is."""
        now, worker = harness.clock.now(), harness.register()
        harness.enqueue(queue="a")
        harness.enqueue(queue="a", delay=timedelta(seconds=5))
        harness.enqueue(queue="b", delay=timedelta(seconds=20))
        answer = harness.ask(worker, 0, queues=queues, closed=("a",))
        assert answer.next_due_at == now + timedelta(seconds=20)
        assert harness.ask(worker, 0, queues=queues, closed=("b",)).next_due_at == now
        assert harness.ask(worker, queues=queues, closed=("b",)).next_due_at == now + timedelta(seconds=5)

    @pytest.mark.parametrize("queues", [None, ("default",)])
    def test_nothing_is_adopted_from_a_closed_queue(self, harness: Harness, queues: tuple[str, ...] | None) -> None:
        """What waits there for a worker that knows its task waits on, due or not."""
        due = harness.place(State.BLOCKED)
        worker = due.worker
        later = harness.enqueue(delay=timedelta(seconds=5))
        ahead: dict[str, Any] = {"look_ahead": timedelta(seconds=10), "ahead_limit": 9, "queues": queues}
        harness.finish(worker, harness.claim_one(worker, **ahead), Move.BLOCK, reason=Reason.NO_WORKER)
        answer = harness.ask(worker, adopt=(KNOWN,), closed=("default",), **ahead)
        assert (answer.jobs, answer.next_due_at) == ((), None)
        assert harness.beat(worker).blocked == {KNOWN}
        assert harness.claimed_ids(worker, adopt=(KNOWN,), closed=("else",), **ahead) == [due.job_id, later]

    @pytest.mark.parametrize("queues", [None, ("default",)])
    def test_suspects_of_a_closed_queue(self, harness: Harness, queues: tuple[str, ...] | None) -> None:
        """A claim for suspects takes none from it; nor are those unblocked that wait there for a worker."""
        placed = harness.place(State.RUNNING)
        harness.bury(placed.worker, DeathKind.CRASHED, frozenset({placed.ref}))
        worker = harness.register()
        alone: dict[str, Any] = {"queues": queues, "group": 1}
        answer = harness.ask(worker, closed=("default",), **alone)
        assert (answer.jobs, answer.next_due_at) == ((), None)
        harness.finish(worker, harness.claim_one(worker, **alone), Move.BLOCK, reason=Reason.NO_WORKER)
        assert harness.claim(worker, adopt=(KNOWN,), closed=("default",), **alone) == ()
        assert harness.job(placed.job_id).state is State.BLOCKED
        assert harness.claim(worker, adopt=(KNOWN,), queues=queues) == ()
        assert harness.claimed_ids(worker, **alone) == [placed.job_id]

    def test_the_share_of_a_closed_queue(self, harness: Harness) -> None:
        """It goes to the others, each of which gives its own share first."""
        for queue in "abc":
            for _ in range(9):
                harness.enqueue(queue=queue)
        shares: dict[str, Any] = {"queues": ("a", "b", "c"), "shares": (3, 2, 1)}
        claims = harness.claim(harness.register(), 6, closed=("a",), **shares)
        assert sorted(claim.queue for claim in claims) == ["b"] * 5 + ["c"]

    def test_the_others_take_turns(self, harness: Harness) -> None:
        """Of the queues that are open each is the first in its turn."""
        worker = harness.register()
        for queue in "abc" * 3:
            harness.enqueue(queue=queue)
        first = [harness.claim(worker, 1, call=call, closed=("b",))[0].queue for call in (1, 2, 3, 4)]
        assert first == ["a", "c", "a", "c"]

    def test_those_that_waited_long_in_a_closed_queue(self, harness: Harness) -> None:
        """However long a job has waited there, it is not given; in the others long waits count as ever."""
        for queue in "ab":
            harness.enqueue(queue=queue)
        harness.clock.advance(30)
        for queue in "ab":
            harness.enqueue(queue=queue, priority=9)
        max_wait = timedelta(seconds=60)
        claims = harness.claim(harness.register(), 1, call=1, queues=("a", "b"), closed=("a",), max_wait=max_wait)
        assert [(claim.queue, claim.priority) for claim in claims] == [("b", 0)]

    def test_a_closed_queue_stays_as_it_is(self, harness: Harness) -> None:
        """Only the call knows of it: nobody sees the queue as paused, and its claims go on."""
        placed = harness.place(State.HELD)
        before = harness.snapshot()
        harness.claim(placed.worker, closed=("default",))
        assert harness.snapshot() == before
        assert harness.beat(placed.worker).paused == frozenset()


class Adopting:
    """A job whose task nobody knew waits for a worker that knows it."""

    def test_blocked_is_not_claimed_by_others(self, harness: Harness) -> None:
        """A worker that does not adopt it leaves a blocked job alone."""
        placed = harness.place(State.BLOCKED)
        assert harness.job(placed.job_id).reason == Reason.NO_WORKER
        answer = harness.ask(harness.register(), adopt=(KnownTask("other.task", 9),))
        assert answer.jobs == ()
        assert answer.next_due_at is None

    def test_a_worker_that_knows_the_task_adopts_it(self, harness: Harness) -> None:
        """A worker that names the task and at least its version claims it straight from blocked."""
        placed = harness.place(State.BLOCKED, version=2)
        worker = harness.register()
        assert harness.claim(worker, adopt=(KnownTask(TASK, 1),)) == ()
        (claim,) = harness.claim(worker, adopt=(KnownTask(TASK, 2),))
        assert (claim.job_id, claim.fence, claim.attempt) == (placed.job_id, 2, 0)

    def test_a_newer_worker_adopts_older_payloads(self, harness: Harness) -> None:
        """Knowing version 3 is knowing what came before it."""
        placed = harness.place(State.BLOCKED, version=2)
        assert harness.claimed_ids(harness.register(), adopt=(KnownTask(TASK, 3),)) == [placed.job_id]

    def test_only_no_worker_is_adopted(self, harness: Harness) -> None:
        """A job blocked for another reason waits for that reason to go."""
        placed = harness.place(State.HELD)
        harness.finish(placed.worker, placed.ref, Move.BLOCK, reason="waits for a signal")
        assert harness.claim(harness.register(), adopt=(KNOWN,)) == ()
        assert harness.beat(placed.worker).blocked == frozenset()
        assert harness.job(placed.job_id).reason == "waits for a signal"

    def test_adoption_keeps_to_queues_pause_and_limit(self, harness: Harness) -> None:
        """An adopted job counts in the limit and comes only from queues that were asked for and are not paused."""
        worker = harness.place(State.BLOCKED, queue="mail").worker
        assert harness.claim(worker, queues=("other",), adopt=(KNOWN,)) == ()
        assert harness.claim(worker, 0, adopt=(KNOWN,)) == ()
        harness.run(harness.verbs.pause("mail"))
        assert harness.claim(worker, adopt=(KNOWN,)) == ()
        harness.run(harness.verbs.resume("mail"))
        harness.enqueue(queue="mail")
        assert len(harness.claim(worker, 1, adopt=(KNOWN,))) == 1
        assert len(harness.claim(worker, 9, adopt=(KNOWN,))) == 1

    def test_what_is_not_given_stays_blocked(self, harness: Harness) -> None:
        """Adopted is what the call gives: of two jobs and one place, the other one waits as before."""
        first, other = (harness.place(State.BLOCKED, queue=queue) for queue in ("a", "b"))
        assert harness.claimed_ids(harness.register(), 1, queues=("a", "b"), adopt=(KNOWN,)) == [first.job_id]
        assert harness.job(other.job_id).state is State.BLOCKED
        assert harness.beat(other.worker).blocked == {KNOWN}

    def test_the_beat_tells_what_is_blocked(self, harness: Harness) -> None:
        """Every beat brings the names and versions that wait for a worker, so that one that knows them can come."""
        harness.place(State.BLOCKED, queue="a", version=1)
        harness.place(State.BLOCKED, queue="b", version=1)
        harness.place(State.BLOCKED, queue="c", version=2)
        harness.place(State.BLOCKED, queue="d", task="other")
        worker = harness.register()
        assert harness.beat(worker).blocked == {KnownTask(TASK, 1), KnownTask(TASK, 2), KnownTask("other", 1)}

    def test_those_that_many_wait_for_go_in_their_order(self, harness: Harness) -> None:
        """By priority and then by time, whichever versions and tasks, with the ready ones between them."""
        worker = harness.register()
        known = (KnownTask(TASK, 2), KnownTask("other", 1))
        now = harness.clock.now()
        ids = {
            (priority, second, version): harness.enqueue(
                task=task, version=version, priority=priority, run_at=now + timedelta(seconds=second)
            )
            for second, (task, version) in enumerate([(TASK, 1), ("other", 1), (TASK, 2), (TASK, 3)])
            for priority in (0, 5)
        }
        harness.clock.advance(10)
        harness.claim(worker, 0, unknown=(KnownTask(TASK, 1), KnownTask("other", 1)))
        ready = harness.enqueue(run_at=now + timedelta(seconds=1), priority=5)
        order = [ids[key] for key in sorted(ids, key=lambda key: (-key[0], key[1])) if key[2] < 3]
        given = [harness.claimed_ids(worker, 1, adopt=known)[0] for _ in range(7)]
        assert [job_id for job_id in given if job_id != ready] == order
        assert given.index(ready) in {1, 2}


class Unknown:
    """What a worker does not know is put aside as a task, and not one job after the other."""

    def test_the_jobs_of_an_unknown_task_are_put_aside(self, harness: Harness) -> None:
        """All that are due wait for a worker that knows them, without a claim; what is behind them is given."""
        first = [harness.enqueue() for _ in range(3)]
        behind, later = harness.enqueue(task="other"), harness.enqueue(delay=timedelta(seconds=9))
        worker = harness.register()
        assert harness.claimed_ids(worker, 1, unknown=(KnownTask(TASK, 0),)) == [behind]
        for job_id in first:
            job = harness.job(job_id)
            assert (job.state, job.reason, job.fence, job.worker) == (State.BLOCKED, Reason.NO_WORKER, 0, None)
            assert harness.history(job_id) == ()
        assert harness.job(later).state is State.SCHEDULED
        assert harness.beat(worker).blocked == {KNOWN}
        assert harness.claimed_ids(worker, adopt=(KNOWN,)) == first

    def test_only_versions_that_are_too_new(self, harness: Harness) -> None:
        """A worker of an older release goes on with the payloads that it knows."""
        old, new = harness.enqueue(version=1), harness.enqueue(version=2)
        assert harness.claimed_ids(harness.register(), unknown=(KnownTask(TASK, 2),)) == [old]
        assert harness.job(new).state is State.BLOCKED

    def test_only_in_queues_that_are_asked_for_and_open(self, harness: Harness) -> None:
        """What the call does not look at stays as it is."""
        ids = {queue: harness.enqueue(queue=queue) for queue in ("asked", "else", "closed", "paused")}
        harness.run(harness.verbs.pause("paused"))
        asked: dict[str, Any] = {"queues": ("asked", "closed", "paused"), "closed": ("closed",)}
        assert harness.claim(harness.register(), unknown=(KnownTask(TASK, 1),), **asked) == ()
        states = {queue: harness.job(job_id).state for queue, job_id in ids.items()}
        assert states == {**dict.fromkeys(ids, State.READY), "asked": State.BLOCKED}

    def test_what_was_tried_before(self, harness: Harness) -> None:
        """A job that comes back after a failure keeps its numbers and its history."""
        placed = harness.place(State.HELD)
        harness.finish(placed.worker, placed.ref, Move.RETRY)
        assert harness.claim(placed.worker, unknown=(KNOWN,)) == ()
        job = harness.job(placed.job_id)
        assert (job.state, job.attempt, job.fence) == (State.BLOCKED, 1, 1)
        assert [attempt.how for attempt in harness.history(placed.job_id)] == ["retry"]
        (claim,) = harness.claim(placed.worker, adopt=(KNOWN,))
        assert (claim.attempt, claim.fence) == (1, 2)
