"""Tasks that are closed for a call: their jobs stay where they are, and stand in nobody's way."""

from datetime import timedelta
from typing import Any

import pytest

from conformance.harness import KNOWN, TASK, Harness
from standfast.model.states import Move, State

OTHER = "mail.sort"
LONG_NAME = "task." * 25
QUEUES = [None, ("default",)]
AHEAD: dict[str, Any] = {"look_ahead": timedelta(seconds=10), "ahead_limit": 9}


class PassingOver:
    """A closed task gives nothing in a call; what waits behind its jobs is given as if they were not there."""

    @pytest.mark.parametrize("queues", QUEUES)
    def test_a_closed_task_gives_nothing(self, harness: Harness, queues: tuple[str, ...] | None) -> None:
        """Nothing of it is claimed, due or ahead, by any worker that closes it; the next call is free."""
        waiting, other = harness.enqueue(), harness.enqueue(task=OTHER)
        later = harness.enqueue(delay=timedelta(seconds=1))
        soon = harness.enqueue(task=OTHER, delay=timedelta(seconds=2))
        worker = harness.register()
        closed: dict[str, Any] = {"queues": queues, "closed_tasks": (TASK, "unknown"), **AHEAD}
        assert harness.claimed_ids(worker, **closed) == [other, soon]
        assert (harness.job(waiting).state, harness.job(later).state) == (State.READY, State.SCHEDULED)
        assert harness.claimed_ids(worker, queues=queues, **AHEAD) == [waiting, later]

    @pytest.mark.parametrize("queues", QUEUES)
    @pytest.mark.parametrize("name", ["a", OTHER, LONG_NAME, "größe"])
    def test_many_are_passed_over(self, harness: Harness, queues: tuple[str, ...] | None, name: str) -> None:
        """However many stand before it, and whatever its name begins with, one of an open task is found at once."""
        harness.run(harness.verbs.enqueue([harness.new_job(task=name) for _ in range(1100)]))
        behind = harness.enqueue(task=f"{name[:100]}.behind")
        worker = harness.register()
        asked: dict[str, Any] = {"queues": queues, "closed_tasks": (TASK, name)}
        assert harness.claimed_ids(worker, 3, **asked) == [behind]
        answer = harness.ask(worker, 3, **asked)
        assert (answer.jobs, answer.next_due_at) == ((), None)
        assert len(harness.claim(worker, 2000, queues=queues)) == 1100

    def test_what_comes_later_is_found_behind_many_and_between_them(self, harness: Harness) -> None:
        """Due or ahead of its time, at another time or at the same, in the first call after it came."""
        at = harness.clock.now() + timedelta(seconds=5)
        harness.run(harness.verbs.enqueue([harness.new_job() for _ in range(1100)]))
        harness.run(harness.verbs.enqueue([harness.new_job(run_at=at) for _ in range(1100)]))
        worker = harness.register()
        asked: dict[str, Any] = {"closed_tasks": (TASK,), **AHEAD}
        for _ in range(3):
            assert harness.claimed_ids(worker, 3, **asked) == []
            came = [harness.enqueue(task=OTHER), harness.enqueue(task=OTHER, run_at=at)]
            came.insert(1, harness.enqueue(task=OTHER, delay=timedelta(seconds=2)))
            assert harness.claimed_ids(worker, 3, **asked) == came

    @pytest.mark.parametrize("queues", QUEUES)
    def test_a_closed_task_has_no_next_due_time(self, harness: Harness, queues: tuple[str, ...] | None) -> None:
        """What is due of it, or will be, is not announced, or its worker would ask again and again."""
        now, worker = harness.clock.now(), harness.register()
        harness.enqueue()
        harness.enqueue(delay=timedelta(seconds=5))
        harness.enqueue(task=OTHER, delay=timedelta(seconds=20))
        answer = harness.ask(worker, 0, queues=queues, closed_tasks=(TASK,))
        assert answer.next_due_at == now + timedelta(seconds=20)
        assert harness.ask(worker, 0, queues=queues, closed_tasks=(OTHER,)).next_due_at == now

    def test_what_was_given_back_is_passed_over(self, harness: Harness) -> None:
        """A job that was claimed before is of its task as a fresh one is."""
        placed = harness.place(State.HELD)
        other = harness.enqueue(task=OTHER)
        harness.finish(placed.worker, placed.ref, Move.RELEASE)
        assert harness.claimed_ids(placed.worker, closed_tasks=(TASK,)) == [other]
        assert harness.claimed_ids(placed.worker, closed_tasks=(OTHER,)) == [placed.job_id]

    @pytest.mark.parametrize("queues", QUEUES)
    def test_priorities_and_shares_go_on(self, harness: Harness, queues: tuple[str, ...] | None) -> None:
        """Among those that are given all is as ever: priorities, and places for those that waited long."""
        for _ in range(3):
            harness.enqueue(priority=5)
        low = harness.enqueue(task=OTHER)
        harness.clock.advance(60)
        high = harness.enqueue(task=OTHER, priority=5)
        worker = harness.register()
        closed: dict[str, Any] = {"queues": queues, "closed_tasks": (TASK,), "max_wait": timedelta(seconds=10)}
        first = harness.claimed_ids(worker, 1, **closed)
        assert first + harness.claimed_ids(worker, 1, **closed) in ([low, high], [high, low])
        shared = harness.enqueue(task=OTHER, queue="b")
        asked: dict[str, Any] = {"queues": ("default", "b"), "shares": (1, 1), "closed_tasks": (TASK,)}
        assert harness.claimed_ids(worker, 2, **asked) == [shared]

    def test_one_call_leaves_no_mark_on_the_next(self, harness: Harness) -> None:
        """Calls with and without closed tasks may alternate, and every job is given once."""
        ids = [harness.enqueue(task=(TASK, OTHER)[number % 2]) for number in range(12)]
        worker = harness.register()
        given: list[str] = []
        for closed in ((TASK,), (), (OTHER,), (), (TASK,), ()):
            given += harness.claimed_ids(worker, 2, closed_tasks=closed)
        assert sorted(given) == sorted(ids)

    def test_adopted_jobs_are_not_meant(self, harness: Harness) -> None:
        """What a worker asks to adopt it gets: it would not ask for a task that it closes."""
        placed = harness.place(State.BLOCKED)
        assert harness.claimed_ids(placed.worker, adopt=(KNOWN,), closed_tasks=(OTHER,)) == [placed.job_id]
