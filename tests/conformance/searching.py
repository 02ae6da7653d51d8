"""Finding jobs by a span of ids, by who has them, and with a look at some of them only."""

from typing import Any

import pytest
from msgspec.structs import replace

from conformance.harness import Harness
from standfast.model.job import Failure
from standfast.model.states import Move, State
from standfast.stores.contract import count_states
from standfast.stores.values import JobFilter


def _ids(harness: Harness, which: JobFilter) -> list[str]:
    return [job.id for job in harness.run(harness.verbs.list_jobs(which)).jobs]


def _searched(harness: Harness, which: JobFilter, span: int) -> list[str]:
    """Return what all pages of a search have, which end after as many as there are jobs at the most."""
    found: list[str] = []
    for _ in range(100):
        page = harness.run(harness.verbs.list_jobs(which, span))
        assert len(page.jobs) <= which.limit
        found += [job.id for job in page.jobs]
        if page.next is None:
            return found
        assert which.before is None or page.next < which.before
        which = replace(which, before=page.next)
    raise AssertionError("the pages do not end")


def _many(harness: Harness) -> None:
    """Place jobs of every state, queue and kind, one among the other."""
    for number in range(3):
        for state in State:
            harness.place(state, queue=f"{state}{number}", tags=("t", f"n{number}"), metadata={"n": str(number)})
        harness.enqueue(queue="q", task="rare", key="k")
        harness.enqueue(queue="q", priority=3)


FILTERS: list[dict[str, Any]] = [
    {},
    *({"states": (state,)} for state in State),
    {"states": (State.READY, State.SCHEDULED, State.DEAD, State.CANCELLED)},
    {"states": (State.DEAD,), "error": "NO"},
    {"queue": "q"},
    {"queue": "nowhere"},
    {"task": "rare"},
    {"key": "k"},
    {"tags": ("t",)},
    {"tags": ("t", "n1")},
    {"metadata": {"n": "2"}},
    {"error": "ValueError"},
    {"error": "nowhere"},
    {"worker": "worker-16"},
]


class Searching:
    """Every bound holds on every walk, and a search in small steps finds what a long one does."""

    def test_after_is_where_a_list_ends(self, harness: Harness) -> None:
        """Only ids between both bounds are shown; a bound need not be the id of a job, nor any."""
        ids = [harness.enqueue() for _ in range(5)][::-1]
        assert _ids(harness, JobFilter(after=ids[2])) == ids[:2]
        assert _ids(harness, JobFilter(after=ids[4], before=ids[1])) == ids[2:4]
        assert _ids(harness, JobFilter(after=ids[0])) == []
        assert _ids(harness, JobFilter(after="00000000")) == ids
        assert _ids(harness, JobFilter(after=f"{ids[1]}x")) == ids[:1]
        assert _ids(harness, JobFilter(after="zzz")) == []

    @pytest.mark.parametrize("number", range(len(FILTERS)))
    def test_both_bounds_hold_with_every_filter(self, harness: Harness, number: int) -> None:
        """Whichever walk a store takes, it begins and ends at the bounds."""
        _many(harness)
        which = JobFilter(**FILTERS[number])
        everything = _ids(harness, which)
        bounds = _ids(harness, JobFilter())[5::15]
        between = [job_id for job_id in everything if bounds[-1] < job_id < bounds[0]]
        assert _ids(harness, replace(which, before=bounds[0], after=bounds[-1])) == between

    @pytest.mark.parametrize("number", range(len(FILTERS)))
    def test_a_search_finds_every_job_once(self, harness: Harness, number: int) -> None:
        """Page by page, however short its span and its pages, it finds what a list has, in the same order."""
        _many(harness)
        which = JobFilter(**FILTERS[number])
        everything = _ids(harness, which)
        for span, limit in ((1, 50), (4, 2), (1000, 3), (1000, 50)):
            assert _searched(harness, replace(which, limit=limit), span) == everything

    def test_a_search_stops_at_its_span(self, harness: Harness) -> None:
        """What no index leads to is not looked for beyond it, and the page says where to go on."""
        rare = harness.enqueue(task="rare")
        others = [harness.enqueue() for _ in range(9)]
        page = harness.run(harness.verbs.list_jobs(JobFilter(task="rare"), 6))
        assert (page.jobs, page.next) == ((), others[3])
        page = harness.run(harness.verbs.list_jobs(JobFilter(task="rare", before=page.next), 6))
        assert ([job.id for job in page.jobs], page.next) == ([rare], None)

    def test_a_worker_has_its_claims(self, harness: Harness) -> None:
        """Held and running jobs are those of a worker; what it has ended, or given back, is not."""
        placed = harness.place(State.RUNNING)
        ended = [harness.enqueue() for _ in range(3)]
        refs = [claim.ref for claim in harness.claim(placed.worker)]
        harness.finish(placed.worker, refs[0], Move.COMPLETE)
        harness.finish(placed.worker, refs[1], Move.RETRY, failure=Failure("ValueError", "no"))
        other = harness.place(State.HELD, queue="other")
        assert _ids(harness, JobFilter(worker=placed.worker)) == [ended[2], placed.job_id]
        assert _ids(harness, JobFilter((State.RUNNING,), worker=placed.worker)) == [placed.job_id]
        assert _ids(harness, JobFilter((State.COMPLETED,), worker=placed.worker)) == []
        assert _ids(harness, JobFilter(worker=other.worker)) == [other.job_id]
        assert _ids(harness, JobFilter(worker="nobody")) == []

    def test_a_job_that_completed_has_no_error(self, harness: Harness) -> None:
        """Its failures of before are in its history."""
        placed = harness.place(State.RUNNING)
        harness.finish(placed.worker, placed.ref, Move.RETRY, failure=Failure("ValueError", "oh"))
        assert _ids(harness, JobFilter(error="oh")) == [placed.job_id]
        harness.finish(placed.worker, harness.claim_one(placed.worker), Move.COMPLETE)
        assert _ids(harness, JobFilter(error="oh")) == []

    def test_counts_follow_what_is_forgotten_and_repeated(self, harness: Harness) -> None:
        """Jobs that were known already are not counted again."""
        jobs = [harness.new_job(queue=queue) for queue in ("a", "a", "b")]
        for _ in range(2):
            harness.run(harness.verbs.enqueue(jobs))
        harness.run(
            harness.verbs.enqueue([harness.new_job(queue="a"), jobs[0], harness.new_job(queue="b", tags=("t",))])
        )
        worker = harness.register()
        for claim in harness.claim(worker):
            harness.finish(worker, claim.ref, Move.COMPLETE)
        counted = {queue.name: dict(queue.states) for queue in harness.run(harness.verbs.queues())}
        assert counted == {"a": {State.COMPLETED: 3}, "b": {State.COMPLETED: 2}}
        assert harness.run(count_states(harness.verbs))[State.COMPLETED] == 5
