"""A drained worker ends what it runs and leaves; with the last one its supervisor ends."""

import pytest
from fleet import wait_until

from standfast.model.states import State

pytestmark = pytest.mark.timeout(120)


def test_workers_drain(fleet_on):
    """One of two: its jobs finish there, the other takes the rest. Then all: the supervisor exits with 0."""
    fleet = fleet_on()
    [tree] = fleet.start_workers(1, lease=2, processes=2, concurrency=2)
    wait_until(lambda: len(fleet.workers()) == 2)
    jobs = [fleet.enqueue("nap", seconds=5) for _ in range(4)]
    for job in jobs:
        fleet.wait_for_start(job)
    drained = fleet.job(jobs[0]).worker
    theirs = [job for job in jobs if fleet.job(job).worker == drained]
    later = [fleet.enqueue("nap", seconds=0.1) for _ in range(10)]

    [answer] = fleet.standfast_json("workers", "drain", drained)
    assert answer == {"worker": drained, "gone": True, "replaced_by": None, "error": None}
    assert {fleet.job(job).worker for job in theirs} == {drained}
    fleet.wait_for_completed(len(jobs) + len(later))
    [other] = fleet.workers()
    assert {fleet.job(job).worker for job in later} == {other.info.id}
    assert tree.process.poll() is None

    last = fleet.enqueue("nap", seconds=2)
    fleet.wait_for_start(last)
    assert f"Worker {other.info.id} is gone, and its place stays empty." in fleet.standfast(
        "workers", "drain", "--all", "--yes"
    )
    assert tree.exit_code() == 0
    assert "it was the last one: its supervisor ends" in tree.told
    assert fleet.workers() == ()
    for job in fleet.jobs():
        assert (job.state, job.attempt, job.crashes) == (State.COMPLETED, 0, 0), job
    assert {len(runs) for runs in fleet.ledger.runs().values()} == {1}
