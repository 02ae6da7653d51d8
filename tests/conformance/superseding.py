"""A dead job makes place for another: both happens, or neither."""

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest

from conformance.harness import Harness
from standfast.errors import JobNotFoundError, JobStateError, KeyTakenError
from standfast.model.job import JobAction, OnConflict
from standfast.model.states import Reason, State
from standfast.stores.contract import change_job, count_states
from standfast.stores.verb import Verb

RACES = 50


class Superseding:
    """Another job takes the place of a dead one in one step."""

    def test_the_other_takes_its_place(self, harness: Harness) -> None:
        """The dead one is discarded and frees its key, the other is ready and has it."""
        placed, other = harness.place(State.DEAD, key="k"), harness.new_job(key="k", tags=("vip",))
        harness.run(change_job(harness.verbs, JobAction.DISCARD, placed.job_id, instead=other))
        job = harness.job(placed.job_id)
        assert (job.state, job.reason) == (State.CANCELLED, Reason.DISCARDED)
        assert harness.job(other.id).state is State.READY
        assert harness.taken_by(key="k") == other.id
        assert harness.claimed_ids(placed.worker) == [other.id]
        counts = harness.run(count_states(harness.verbs))
        assert (counts[State.DEAD], counts[State.CANCELLED]) == (0, 1)

    @pytest.mark.parametrize("state", sorted(frozenset(State) - {State.DEAD}))
    def test_what_is_not_dead_keeps_its_place(self, harness: Harness, state: State) -> None:
        """It is refused, and the other is not stored."""
        placed, before = harness.place(state), harness.snapshot()
        with pytest.raises(JobStateError, match=state):
            harness.run(change_job(harness.verbs, JobAction.DISCARD, placed.job_id, instead=harness.new_job()))
        assert harness.snapshot() == before

    def test_a_key_that_is_taken_leaves_both_as_they_are(self, harness: Harness) -> None:
        """The dead job stays dead, the other is not stored."""
        placed = harness.place(State.DEAD, key="k")
        harness.enqueue(key="k")
        before, other = harness.snapshot(), harness.new_job(key="k", on_conflict=OnConflict.RAISE)
        with pytest.raises(KeyTakenError):
            harness.run(change_job(harness.verbs, JobAction.DISCARD, placed.job_id, instead=other))
        assert harness.snapshot() == before

    def test_an_unknown_job_has_no_place(self, harness: Harness) -> None:
        """There is nothing to take the place of without a job."""
        with pytest.raises(JobNotFoundError, match="unknown"):
            harness.run(change_job(harness.verbs, JobAction.DISCARD, "unknown", instead=harness.new_job()))

    def test_of_all_who_decide_at_once_one_does(self, harness: Harness) -> None:
        """A dead job that is retried, discarded and superseded at the same time runs at most once."""
        verbs, start = harness.verbs, Barrier(3)

        def decide(verb: Verb[None]) -> bool:
            start.wait()
            try:
                harness.run(verb)
            except (JobStateError, KeyTakenError):
                return False
            return True

        with ThreadPoolExecutor(3) as threads:
            for number in range(RACES):
                key = f"k{number}" if number % 2 else None
                placed = harness.place(State.DEAD, key=key)
                other = harness.new_job(key=key, on_conflict=OnConflict.RAISE)
                makes = [
                    change_job(verbs, JobAction.DISCARD, placed.job_id, instead=other),
                    change_job(verbs, JobAction.RETRY, placed.job_id),
                ]
                done = list(threads.map(decide, [*makes, change_job(verbs, JobAction.DISCARD, placed.job_id)]))
                assert sum(done) == 1
                assert harness.claimed_ids(placed.worker) == [
                    job_id for job_id, is_done in zip((other.id, placed.job_id), done, strict=False) if is_done
                ]
