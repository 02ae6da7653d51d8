"""How a claim is shared out: among queues by their shares, and between the urgent and those that waited long."""

from collections import Counter
from collections.abc import Iterable
from datetime import timedelta
from typing import Any

import pytest

from conformance.harness import KNOWN, Harness
from standfast.model.crash import DeathKind
from standfast.model.job import Claim
from standfast.model.states import State

ODD, EVEN = 1, 2
MAX_WAIT = timedelta(seconds=60)
HALF = 30


def _fill(harness: Harness, *queues: str, each: int = 10, **fields: Any) -> None:
    for queue in queues:
        harness.run(harness.verbs.enqueue([harness.new_job(queue=queue, **fields) for _ in range(each)]))


def _per_queue(claims: Iterable[Claim]) -> dict[str, int]:
    return dict(Counter(claim.queue for claim in claims))


def _per_priority(claims: Iterable[Claim]) -> dict[int, int]:
    return dict(Counter(claim.priority for claim in claims))


class Sharing:
    """Each queue gives its share before any gives more."""

    def test_every_queue_gives_its_share(self, harness: Harness) -> None:
        """Where all queues have enough, the claim is divided as asked, in the order of the queues."""
        _fill(harness, "a", "b", "c")
        claims = harness.claim(harness.register(), 6, queues=("c", "a", "b"), shares=(3, 2, 1))
        assert [claim.queue for claim in claims] == ["c", "c", "c", "a", "a", "b"]

    def test_what_is_left_goes_in_order(self, harness: Harness) -> None:
        """What a queue cannot give is not lost: the first queue that has more gives it."""
        _fill(harness, "a", "b")
        _fill(harness, "c", each=1)
        claims = harness.claim(harness.register(), 10, queues=("c", "b", "a"), shares=(4, 3, 3))
        assert _per_queue(claims) == {"c": 1, "b": 6, "a": 3}

    def test_a_limit_above_all_shares(self, harness: Harness) -> None:
        """Shares are where giving begins, not where it ends."""
        _fill(harness, "a", "b", each=4)
        worker = harness.register()
        assert _per_queue(harness.claim(worker, 5, queues=("a", "b"), shares=(1, 1))) == {"a": 4, "b": 1}
        assert _per_queue(harness.claim(worker, 100, queues=("a", "b"), shares=(1, 1))) == {"b": 3}

    def test_a_limit_below_all_shares(self, harness: Harness) -> None:
        """The limit holds; the first queues give first."""
        _fill(harness, "a", "b", "c")
        worker = harness.register()
        assert _per_queue(harness.claim(worker, 3, queues=("a", "b", "c"), shares=(2, 2, 2))) == {"a": 2, "b": 1}
        assert harness.claim(worker, 0, queues=("a", "b"), shares=(2, 2)) == ()

    def test_a_queue_without_a_share_gives_what_is_left(self, harness: Harness) -> None:
        """A share of nothing lets the others go first."""
        _fill(harness, "a", "b", each=3)
        claims = harness.claim(harness.register(), 5, queues=("a", "b"), shares=(0, 3))
        assert _per_queue(claims) == {"a": 2, "b": 3}

    def test_priority_decides_within_a_share(self, harness: Harness) -> None:
        """What a queue gives are its most urgent jobs; no job is given twice."""
        _fill(harness, "a", each=2)
        urgent = [harness.enqueue(queue="a", priority=9) for _ in range(2)]
        worker = harness.register()
        assert harness.claimed_ids(worker, 2, queues=("a", "b"), shares=(2, 5)) == urgent
        assert len(set(harness.claimed_ids(worker, 9, queues=("a", "b"), shares=(1, 5)))) == 2

    def test_a_paused_queue_leaves_its_share_to_others(self, harness: Harness) -> None:
        """Shares belong to queues by name: a pause shifts nobody's share to the wrong queue."""
        _fill(harness, "a", "b", "c")
        harness.run(harness.verbs.pause("a"))
        claims = harness.claim(harness.register(), 6, queues=("a", "b", "c"), shares=(1, 1, 4))
        assert _per_queue(claims) == {"b": 2, "c": 4}

    def test_shares_need_queues(self, harness: Harness) -> None:
        """Who asks for every queue has none to share among: the shares say nothing."""
        _fill(harness, "a", "b", each=3)
        claims = harness.claim(harness.register(), 4, call=ODD, shares=(1, 3))
        assert _per_queue(claims) == {"a": 3, "b": 1}

    def test_only_due_jobs_are_shared(self, harness: Harness) -> None:
        """Jobs claimed ahead go by time, whatever the shares."""
        _fill(harness, "a", each=1)
        _fill(harness, "b", each=3, delay=timedelta(seconds=5))
        ahead: dict[str, Any] = {"look_ahead": timedelta(seconds=10), "ahead_limit": 2}
        claims = harness.claim(harness.register(), 4, queues=("a", "b"), shares=(1, 0), **ahead)
        assert _per_queue(claims) == {"a": 1, "b": 2}

    def test_adopted_jobs_are_shared(self, harness: Harness) -> None:
        """What a worker adopts counts in its queue's share like any due job."""
        adopted = harness.place(State.BLOCKED, queue="a", priority=1).job_id
        _fill(harness, "a", "b", each=2)
        claims = harness.claim(harness.register(), 2, queues=("a", "b"), shares=(1, 1), adopt=(KNOWN,))
        assert [(claim.queue, claim.job_id == adopted) for claim in claims] == [("a", True), ("b", False)]

    def test_suspects_are_shared(self, harness: Harness) -> None:
        """A claim for suspects keeps to the shares too."""
        worker = harness.register()
        _fill(harness, "a", "b", each=2)
        refs = frozenset(claim.ref for claim in harness.claim(worker))
        harness.bury(worker, DeathKind.CRASHED, refs)
        claims = harness.claim(harness.register(), 2, queues=("a", "b"), shares=(1, 1), group=2)
        assert _per_queue(claims) == {"a": 1, "b": 1}


class WaitingLongEnough:
    """Nothing starves: every second place is for those that have waited for half of the longest wait."""

    @pytest.mark.parametrize(("call", "priority"), [(ODD, 0), (EVEN, 9), (ODD + 2, 0), (EVEN + 2, 9)])
    def test_single_places_alternate(self, harness: Harness, call: int, priority: int) -> None:
        """A worker that claims one by one takes the starved job in odd calls and the urgent one in even calls."""
        harness.enqueue()
        harness.clock.advance(HALF)
        harness.enqueue(priority=9)
        (claim,) = harness.claim(harness.register(), 1, call=call, max_wait=MAX_WAIT)
        assert claim.priority == priority

    @pytest.mark.parametrize("call", [ODD, EVEN])
    def test_every_second_place(self, harness: Harness, call: int) -> None:
        """Of four places two are for the starved, and the oldest of them come first."""
        old = [harness.enqueue() for _ in range(5)]
        harness.clock.advance(HALF)
        _fill(harness, "default", priority=9)
        claims = harness.claim(harness.register(), 4, call=call, max_wait=MAX_WAIT)
        assert _per_priority(claims) == {0: 2, 9: 2}
        assert {claim.job_id for claim in claims if claim.priority == 0} == set(old[:2])

    @pytest.mark.parametrize(("call", "starved"), [(ODD, 2), (EVEN, 1)])
    def test_odd_calls_begin_with_the_starved(self, harness: Harness, call: int, starved: int) -> None:
        """Of three places the starved get two in odd calls and one in even calls."""
        _fill(harness, "default")
        harness.clock.advance(HALF)
        _fill(harness, "default", priority=9)
        claims = harness.claim(harness.register(), 3, call=call, max_wait=MAX_WAIT)
        assert _per_priority(claims) == {0: starved, 9: 3 - starved}

    def test_half_of_the_longest_wait(self, harness: Harness) -> None:
        """A job counts as starved from half of `max_wait` on, not a moment before."""
        worker = harness.register()
        harness.enqueue()
        harness.clock.advance(HALF - 0.001)
        _fill(harness, "default", priority=9)
        (claim,) = harness.claim(worker, 1, call=ODD, max_wait=MAX_WAIT)
        assert claim.priority == 9
        harness.clock.advance(0.001)
        (claim,) = harness.claim(worker, 1, call=ODD, max_wait=MAX_WAIT)
        assert claim.priority == 0

    def test_the_wait_counts_from_the_jobs_time(self, harness: Harness) -> None:
        """A job that was enqueued long before its time has not waited for long."""
        harness.enqueue(delay=timedelta(seconds=2 * HALF))
        harness.clock.advance(2 * HALF)
        harness.enqueue(priority=9)
        (claim,) = harness.claim(harness.register(), 1, call=ODD, max_wait=MAX_WAIT)
        assert claim.priority == 9

    def test_without_it_priority_decides_alone(self, harness: Harness) -> None:
        """Who sets no longest wait gets the most urgent jobs, however long others waited."""
        _fill(harness, "default")
        harness.clock.advance(10**6)
        _fill(harness, "default", priority=9)
        assert _per_priority(harness.claim(harness.register(), 4, call=ODD)) == {9: 4}

    def test_starved_priorities_take_turns(self, harness: Harness) -> None:
        """The places for the starved go round the priorities that have them, from the lowest up."""
        oldest = {harness.enqueue(priority=priority) for priority in (3, -1, 0)}
        for priority in (-1, 0, 3):
            _fill(harness, "default", priority=priority)
        harness.clock.advance(HALF)
        _fill(harness, "default", priority=9)
        claims = harness.claim(harness.register(), 6, call=ODD, max_wait=MAX_WAIT)
        assert _per_priority(claims) == {-1: 1, 0: 1, 3: 1, 9: 3}
        assert {claim.job_id for claim in claims} >= oldest

    def test_the_lowest_priority_has_the_first_turn(self, harness: Harness) -> None:
        """Fewer places than priorities go to the lowest; those without jobs left are passed over."""
        harness.enqueue(priority=-1)
        for priority in (0, 3):
            _fill(harness, "default", priority=priority)
        harness.clock.advance(HALF)
        _fill(harness, "default", priority=9)
        worker = harness.register()
        assert _per_priority(harness.claim(worker, 4, call=ODD, max_wait=MAX_WAIT)) == {-1: 1, 0: 1, 9: 2}
        assert _per_priority(harness.claim(worker, 8, call=ODD, max_wait=MAX_WAIT)) == {0: 2, 3: 2, 9: 4}

    def test_the_oldest_of_a_priority_goes_first(self, harness: Harness) -> None:
        """Among the starved of one priority the time decides, then the arrival."""
        now = harness.clock.now()
        harness.enqueue(run_at=now - timedelta(seconds=40))
        first = harness.enqueue(run_at=now - timedelta(seconds=50))
        harness.enqueue(run_at=now - timedelta(seconds=50))
        harness.enqueue(priority=9)
        assert harness.claimed_ids(harness.register(), 1, call=ODD, max_wait=MAX_WAIT) == [first]

    @pytest.mark.parametrize("call", [ODD, EVEN])
    def test_places_without_a_starved_job_are_not_lost(self, harness: Harness, call: int) -> None:
        """Where nobody has waited long enough, or too few have, the limit is filled by priority."""
        starved = harness.enqueue()
        harness.clock.advance(HALF)
        _fill(harness, "default", priority=9, each=2)
        _fill(harness, "default", priority=1, each=2)
        worker = harness.register()
        claims = harness.claim(worker, 4, call=call, max_wait=MAX_WAIT)
        assert _per_priority(claims) == {0: 1, 1: 1, 9: 2}
        assert starved in {claim.job_id for claim in claims}
        assert _per_priority(harness.claim(worker, 4, call=call, max_wait=MAX_WAIT)) == {1: 1}

    @pytest.mark.parametrize("call", [ODD, EVEN])
    def test_places_without_an_urgent_job_are_not_lost(self, harness: Harness, call: int) -> None:
        """Where all have waited long, every place is filled, and nobody is given twice."""
        for priority in (0, 5):
            _fill(harness, "default", priority=priority, each=4)
        harness.clock.advance(HALF)
        worker = harness.register()
        first = harness.claimed_ids(worker, 6, call=call, max_wait=MAX_WAIT)
        second = harness.claimed_ids(worker, 6, call=call, max_wait=MAX_WAIT)
        assert (len(set(first)), len(set(second)), len({*first, *second})) == (6, 2, 8)

    @pytest.mark.parametrize(("call", "priority"), [(ODD, 0), (EVEN, 9)])
    def test_each_queue_counts_its_own_places(self, harness: Harness, call: int, priority: int) -> None:
        """The places of a queue begin anew, however many another queue gave before it."""
        _fill(harness, "a", "b", each=1)
        harness.clock.advance(HALF)
        _fill(harness, "a", "b", each=1, priority=9)
        claims = harness.claim(harness.register(), 3, call=call, queues=("a", "b"), max_wait=MAX_WAIT)
        assert [claim.priority for claim in claims if claim.queue == "b"] == [priority]

    def test_shares_and_waits_go_together(self, harness: Harness) -> None:
        """Within its share every queue gives every second place to its starved jobs."""
        _fill(harness, "a", "b")
        harness.clock.advance(HALF)
        _fill(harness, "a", "b", priority=9)
        worker = harness.register()
        claims = harness.claim(worker, 6, call=ODD, queues=("a", "b"), shares=(4, 2), max_wait=MAX_WAIT)
        places = Counter((claim.queue, claim.priority) for claim in claims)
        assert places == {("a", 0): 2, ("a", 9): 2, ("b", 0): 1, ("b", 9): 1}

    def test_starved_jobs_can_be_adopted(self, harness: Harness) -> None:
        """A job that waited for a worker to know its task has waited like any other."""
        adopted = harness.place(State.BLOCKED).job_id
        harness.clock.advance(HALF)
        harness.enqueue(priority=9)
        worker = harness.register()
        fields: dict[str, Any] = {"call": ODD, "max_wait": MAX_WAIT, "adopt": (KNOWN,)}
        assert harness.claimed_ids(worker, 1, **fields) == [adopted]

    def test_suspects_starve_no_less(self, harness: Harness) -> None:
        """A claim for suspects takes the starved suspect in its turn, and no other job."""
        starved = harness.place(State.RUNNING)
        harness.bury(starved.worker, DeathKind.CRASHED, frozenset({starved.ref}))
        harness.clock.advance(HALF)
        urgent = harness.place(State.RUNNING, priority=9)
        harness.bury(urgent.worker, DeathKind.CRASHED, frozenset({urgent.ref}))
        harness.enqueue(priority=-1, run_at=harness.clock.now() - MAX_WAIT)
        worker = harness.register()
        fields: dict[str, Any] = {"call": ODD, "max_wait": MAX_WAIT, "group": 1}
        assert harness.claimed_ids(worker, 1, **fields) == [starved.job_id]
        assert harness.claimed_ids(worker, 9, **fields) == [urgent.job_id]
