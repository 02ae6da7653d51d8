"""Claims are shared among queues by weight, whatever the sizes of the claims and whoever has nothing to give."""

from collections import Counter
from collections.abc import Mapping
from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from standfast.model.job import Claim, ClaimRef
from standfast.worker.options import Division, FairShares, interleaved

WEIGHTS = {"critical": 6, "mail": 3, "reports": 1}
TOLERANCE = 2.0
"""Jobs that a queue may be ahead of or behind its weight between any two calls."""


class Shelf:
    """Queues of jobs that answer a claim as a store does: the shares first, then what is left over in order."""

    def __init__(self, stock: Mapping[str, float]) -> None:
        self.stock = dict(stock)

    def claim(self, division: Division, limit: int) -> Counter[str]:
        brought: Counter[str] = Counter()
        for queue, share in zip(*division, strict=True):
            self._take(brought, queue, share)
        for queue in division.queues:
            self._take(brought, queue, limit - brought.total())
        return brought

    def _take(self, brought: Counter[str], queue: str, count: float) -> None:
        taken = int(min(count, self.stock.get(queue, 0.0)))
        self.stock[queue] = self.stock.get(queue, 0.0) - taken
        brought[queue] += taken


def ask(fair: FairShares, shelf: Shelf, limit: int) -> Counter[str]:
    division = fair.divide(limit)
    brought = shelf.claim(division, limit)
    fair.learn(brought)
    return brought


def everything(weights: Mapping[str, int]) -> Shelf:
    return Shelf(dict.fromkeys(weights, float("inf")))


weights_of_queues = st.lists(st.integers(1, 50), min_size=1, max_size=6).map(
    lambda weights: {f"q{number}": weight for number, weight in enumerate(weights)}
)
limits_of_calls = st.lists(st.one_of(st.just(1), st.integers(1, 500)), min_size=1, max_size=60)


@given(weights_of_queues, limits_of_calls)
def test_backlogged_queues_keep_their_proportion_in_every_window(weights, limits):
    """No queue is ever ahead by a whole job; so none is behind by more than the others together may be ahead."""
    fair, shelf = FairShares(weights), everything(weights)
    ahead = [dict.fromkeys(weights, 0.0)]
    whole = sum(weights.values())
    for limit in limits:
        brought = ask(fair, shelf, limit)
        assert brought.total() == limit
        ahead.append(
            {queue: before + brought[queue] - limit * weights[queue] / whole for queue, before in ahead[-1].items()}
        )
    for queue in weights:
        course = [point[queue] for point in ahead]
        assert max(course) < 1
        assert min(course) > -max(len(weights) - 1, 1)


@given(weights_of_queues, limits_of_calls)
def test_a_division_asks_for_the_limit_and_names_each_queue_once(weights, limits):
    """The shares add up, and no share is below 0."""
    fair, shelf = FairShares(weights), Shelf({"q0": 1000.0})
    for limit in limits:
        division = fair.divide(limit)
        assert sorted(division.queues) == sorted(weights)
        assert sum(division.shares) == limit
        assert min(division.shares) >= 0
        fair.learn(shelf.claim(division, limit))


def test_one_job_at_a_time_is_shared_exactly():
    """Ten calls for one job are six, three and one; and no queue has to wait longer than it must."""
    fair, shelf = FairShares(WEIGHTS), everything(WEIGHTS)
    turns = [ask(fair, shelf, 1) for _ in range(1000)]
    for start in range(0, 1000, 10):
        assert sum(turns[start : start + 10], Counter()) == Counter(WEIGHTS)


def test_what_an_idle_queue_does_not_use_goes_to_the_others_by_their_weights():
    """With nothing in the heaviest queue, the two others share all of it three to one."""
    for limit in (1, 7, 100):
        fair = FairShares(WEIGHTS)
        shelf = Shelf({"mail": float("inf"), "reports": float("inf")})
        ask(fair, shelf, limit)  # here it learns
        got = sum((ask(fair, shelf, limit) for _ in range(400)), Counter())
        assert got.total() == 400 * limit
        assert abs(got["mail"] - 300 * limit) <= limit + TOLERANCE


@given(st.integers(1, 500), st.integers(1, 300))
def test_an_idle_queue_that_wakes_gets_its_share_and_no_more(limit, idle_for):
    """However long it was empty, nothing was saved up for it: its weight counts from now on."""
    fair, shelf = FairShares(WEIGHTS), everything(WEIGHTS)
    shelf.stock["critical"] = 0.0
    for _ in range(idle_for):
        ask(fair, shelf, limit)
    shelf.stock["critical"] = float("inf")
    got = 0
    for call in range(1, 60):
        got += ask(fair, shelf, limit)["critical"]
        assert got <= call * limit * 0.6 + 1 + TOLERANCE
    assert got >= 57 * limit * 0.6 - TOLERANCE


def test_the_others_are_not_punished_for_what_they_were_given_instead():
    """Jobs of an empty queue's share, which went to the others, are not reckoned against them when it wakes."""
    fair, shelf = FairShares({"a": 1, "b": 1}), everything({"a": 1, "b": 1})
    shelf.stock["b"] = 0.0
    for _ in range(50):
        assert ask(fair, shelf, 10)["a"] == 10
    shelf.stock["b"] = float("inf")
    ask(fair, shelf, 10)
    assert ask(fair, shelf, 10) == {"a": 5, "b": 5}


def test_every_idle_queue_is_asked_in_turn_by_calls_for_one_job():
    """A worker that takes one job at a time notices the waking of any queue within a round."""
    names = [f"q{number}" for number in range(5)]
    fair, shelf = FairShares(dict.fromkeys(names, 1)), Shelf({"q0": float("inf")})
    for _ in range(20):
        ask(fair, shelf, 1)
    for woken in names[1:]:
        shelf.stock[woken] = 1.0
        assert sum((ask(fair, shelf, 1) for _ in names), Counter())[woken] == 1


@given(
    weights_of_queues,
    st.lists(
        st.tuples(st.integers(1, 60), st.lists(st.integers(0, 40), min_size=6, max_size=6)), min_size=1, max_size=60
    ),
)
def test_nothing_is_left_lying_while_a_worker_wants_jobs(weights, story):
    """Whatever comes and goes, a call brings all that is there, up to its limit."""
    fair, shelf = FairShares(weights), Shelf({})
    for limit, arrivals in story:
        for queue, count in zip(weights, arrivals, strict=False):
            shelf.stock[queue] = shelf.stock.get(queue, 0.0) + count
        there = sum(shelf.stock.values())
        assert ask(fair, shelf, limit).total() == min(limit, there)


@given(st.lists(st.integers(0, 60), min_size=1, max_size=5))
def test_what_a_call_brought_starts_in_fair_shares_too(counts):
    """At any point of a batch each queue has started its part of it, but for a job; its own order is kept."""
    claims = [claim(f"q{queue}", number) for queue, count in enumerate(counts) for number in range(count)]
    order = interleaved(claims)
    started: Counter[str] = Counter()
    for done, each in enumerate(order, 1):
        assert each.fence == started[each.queue], "out of its queue's order"
        started[each.queue] += 1
        for queue, count in enumerate(counts):
            assert abs(started[f"q{queue}"] - done * count / len(claims)) <= len(counts)
    assert len(order) == len(claims)


def claim(queue: str, number: int) -> Claim:
    now = datetime(2026, 1, 1, tzinfo=UTC)
    return Claim(ClaimRef("id", number), "task", 1, b"", queue, 0, now, attempt=0, crashes=0, max_attempts=5)
