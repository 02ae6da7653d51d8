"""Every store keeps every promise of the contract."""

from collections import Counter
from datetime import timedelta

import pytest

from conformance import Harness, StoreConformance
from standfast.admin.job_search import Changes, change_many
from standfast.errors import ConfigurationError
from standfast.model.job import Ending, JobAction
from standfast.model.states import Move, State
from standfast.stores.postgres import supervise as of_postgres
from standfast.stores.redis import supervise as of_redis
from standfast.stores.sqlite import supervise as of_sqlite
from standfast.stores.values import JobFilter
from standfast.stores.verb import run_procedure


class TestStores(StoreConformance):
    pass


def test_no_promise_hides_another() -> None:
    """Each test of the suite has a name of its own, so that none is lost when they become one class."""
    names = Counter(name for part in StoreConformance.__bases__ for name in vars(part) if name.startswith("test_"))
    assert [name for name, times in names.items() if times > 1] == []


def test_dead_jobs_that_stay_do_not_keep_others_for_ever(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a call looks at a few, the next one goes on behind them; a round ends where all came lately."""
    for store in (of_sqlite, of_postgres, of_redis):
        monkeypatch.setattr(store, "STRETCH", 5)
    age, worker = timedelta(hours=1), harness.register(lease=10_000)
    slow = [harness.enqueue() for _ in range(12)]
    refs = [claim.ref for claim in harness.claim(worker, 12)]
    for _ in range(3):
        harness.place(State.DEAD)
    harness.clock.advance(age.total_seconds())
    harness.run(harness.verbs.finish(worker, [Ending(ref, Move.DIE) for ref in refs]))
    young = [harness.place(State.DEAD).job_id for _ in range(12)]
    assert sum(harness.run(harness.verbs.forget_dead(age, 10)) for _ in range(4)) == 3
    assert {job.id for job in harness.run(harness.verbs.list_jobs(JobFilter())).jobs} == {*slow, *young}


def test_a_new_time_has_to_be_said(harness: Harness) -> None:
    """Without one no job is changed, and no time does not mean another action."""
    job_id, at = harness.enqueue(), harness.clock.now() + timedelta(hours=1)
    with pytest.raises(ConfigurationError, match="say when"):
        run_procedure(harness.backend.run, change_many(harness.verbs, Changes(), JobAction.RESCHEDULE, [job_id]))
    assert harness.job(job_id).state is State.READY
    harness.run(harness.verbs.change_jobs(JobAction.RESCHEDULE, [job_id], at))
    assert harness.job(job_id).run_at == at
