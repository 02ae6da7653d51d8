"""What doctor counts in a store, the same in every kind of it."""

from contextlib import closing
from datetime import timedelta

import pytest

from standfast.model.ids import new_job_id
from standfast.model.job import Ending, Failure, NewJob, OnConflict
from standfast.model.states import Move, Reason
from standfast.settings import Settings
from standfast.stores.doctor import UnknownTask
from standfast.stores.url import examine_store, open_backend
from standfast.stores.values import ClaimRequest, WorkerInfo

WORKER = "a1b2c3d4e5f60718"


@pytest.fixture(params=["sqlite", "postgres_url", "redis_url"])
def settings(request, tmp_path):
    url = f"sqlite:///{tmp_path}/jobs.db" if request.param == "sqlite" else request.getfixturevalue(request.param)
    return Settings(url=url)


def test_jobs_of_unknown_tasks_and_dead_ones_are_counted(settings):
    """By task and version; a replacement that waits for the job before it is no such job."""
    with closing(open_backend(settings)) as backend:
        verbs = backend.verbs
        backend.run(verbs.register(WorkerInfo(WORKER, "s1", "web-01", 1, timedelta(seconds=15))))
        empty = examine_store(settings).census
        assert (empty.unknown, empty.dead) == ((), 0)
        ends = [("ship", 1, Move.BLOCK), ("ship", 1, Move.BLOCK), ("ship", 2, Move.BLOCK), ("pack", 1, Move.DIE)]
        jobs = [NewJob(new_job_id(), task, b"{}", version) for task, version, _ in ends]
        held = NewJob(new_job_id(), "keyed", b"{}", key="order-42")
        backend.run(verbs.enqueue([*jobs, held]))
        claims = backend.run(verbs.claim(ClaimRequest(WORKER, 1, 10))).jobs
        refs = {claim.job_id: claim.ref for claim in claims}
        endings = [
            Ending(
                refs[job.id],
                move,
                reason=Reason.NO_WORKER if move is Move.BLOCK else None,
                failure=Failure("E", "no"),
            )
            for job, (*_, move) in zip(jobs, ends, strict=True)
        ]
        backend.run(verbs.finish(WORKER, endings))
        after = NewJob(new_job_id(), "keyed", b"{}", key="order-42", on_conflict=OnConflict.REPLACE)
        backend.run(verbs.enqueue([after]))
        census = examine_store(settings).census
    assert census.unknown == (UnknownTask("ship", 1, 2), UnknownTask("ship", 2, 1))
    assert census.dead == 1
