"""`kill -9` again and again under load. Judged from the handlers' own ledger and from the store's history.

Short by default; `make prove NAME=kill_tree` and `make prove NAME=kill_child` run them at full size.
"""

import os
import random
import signal
from collections import Counter, defaultdict
from datetime import timedelta
from itertools import pairwise

import pytest
from fleet import PATIENCE, PROVE, sizes, wait_until

from standfast.model.job import ClaimRef, Ending, Verdict
from standfast.model.states import Move, State

WORKERS = sizes(short=3, full=5)
OPTIONS = {"lease": 3, "concurrency": 2}
JOBS = sizes(short=150, full=5_000)
KILLS = sizes(short=4, full=30)
LONG = 600 if PROVE else PATIENCE

pytestmark = pytest.mark.timeout(900 if PROVE else 120)


@pytest.fixture
def fleet(fleet_on_each_store):
    return fleet_on_each_store


@pytest.mark.parametrize(
    "fleet_on_each_store", sizes(short=["sqlite", "postgres"], full=["sqlite", "postgres", "redis"]), indirect=True
)
def test_kill_tree(fleet):
    """Whole worker trees die by `kill -9`: each job completes, under one valid claim at a time."""
    enqueue_naps(fleet)
    trees = fleet.start_workers(WORKERS, **OPTIONS)
    for kill in range(KILLS):
        wait_for_share(fleet, kill)
        victim = random.randrange(WORKERS)
        trees[victim].kill_tree()
        trees[victim] = fleet.start(**OPTIONS)
    fleet.wait_for_completed(JOBS, LONG)

    judge(fleet)
    hows = Counter(attempt.how for history in histories(fleet).values() for attempt in history)
    assert hows["vanished"] > 0, f"no kill hit a claim: {hows}"
    assert hows.keys() <= {"complete", "vanished", "release"}


@pytest.mark.parametrize(
    "fleet_on_each_store", sizes(short=["redis"], full=["sqlite", "postgres", "redis"]), indirect=True
)
def test_kill_child(fleet):
    """Children alone die by `kill -9`: each job completes, and nobody pays for what another may have done."""
    enqueue_naps(fleet)
    trees = fleet.start_workers(WORKERS, **OPTIONS)
    killed = set()
    for kill in range(KILLS):
        wait_for_share(fleet, kill)
        killed.add(kill_a_child(fleet, random.choice(trees), killed))
    fleet.wait_for_completed(JOBS, LONG)

    judge(fleet)
    assert [tree for tree in trees if tree.process.poll() is not None] == [], "a supervisor ended with its child"
    judge_who_paid(fleet, killed)


def enqueue_naps(fleet):
    for task in ("nap", "nap_in_thread"):
        naps = [{"seconds": random.uniform(0.001, 0.2)} for _ in range(JOBS // 2)]
        fleet.app.tasks[task].enqueue_many(naps)


def kill_a_child(fleet, tree, killed):
    """End a child of the tree at once; return which worker it was."""
    while True:
        victim = fleet.worker_of(tree, other_than=killed)
        try:
            os.kill(victim.info.pid, signal.SIGKILL)
        except ProcessLookupError:  # a suspect's own child, which has just left by itself
            continue
        return victim.info.id


def wait_for_share(fleet, kill):
    """Wait for so much of the work that the kills spread over all of it."""
    fleet.wait_for_completed(JOBS * (kill + 1) // (KILLS + 2), LONG)


def histories(fleet):
    return {job.id: fleet.history(job.id) for job in fleet.jobs()}


def judge(fleet):
    """Hold the ledger and the store's history against the promises."""
    jobs = {job.id: job for job in fleet.jobs()}
    history = histories(fleet)
    runs = fleet.ledger.runs()
    assert len(jobs) == JOBS
    assert Counter(job.state for job in jobs.values()) == {State.COMPLETED: JOBS}
    assert [tree.log.name for tree in fleet.trees if "declared dead by others" in tree.told] == []
    for job_id, job in jobs.items():
        judge_claims(job, history[job_id])
        judge_runs(job, history[job_id], runs[job_id])
    assert stale_finishes_refused(fleet, history) > 0
    assert {job.id: job for job in fleet.jobs()} == jobs, "a refused finish has changed something"


def judge_claims(job, history):
    """Each claim has a fence of its own, ended before the next began, and only the last one completed the job."""
    assert [attempt.fence for attempt in history] == list(range(1, job.fence + 1))
    assert [attempt.fence for attempt in history if attempt.how == "complete"] == [job.fence]
    for earlier, later in pairwise(history):
        assert earlier.ended_at is not None
        assert later.started_at is None or earlier.ended_at <= later.started_at, history


def judge_runs(job, history, runs):
    """No handler ran while another did, or after a younger claim had run; the completed claim ran to its end."""
    fences = [run.fence for run in runs]
    assert fences == sorted(set(fences)), f"a stale start: {runs}"
    for earlier, later in pairwise(runs):
        assert earlier.end is None or earlier.end.boot <= later.start.boot, f"two at once: {earlier} {later}"
    ended = {attempt.fence: attempt.ended_at for attempt in history}
    for run in runs:
        before = [ended[fence] for fence in ended if fence < run.fence]
        assert all(at <= run.start.at + timedelta(milliseconds=1) for at in before), f"two claims at once: {job.id}"
    assert runs[-1].fence == job.fence
    assert runs[-1].end is not None


def stale_finishes_refused(fleet, history):
    """Finish every ended claim once more, as its worker would have done had it been stopped and not killed."""
    refused = 0
    for job_id, attempts in history.items():
        for attempt in attempts[:-1]:
            ending = Ending(ClaimRef(job_id, attempt.fence), Move.COMPLETE, result=b'"stale"')
            if attempt.how != "release":
                assert fleet.app.call(fleet.app.verbs.finish(attempt.worker, [ending])) == (Verdict.STALE,)
                refused += 1
    return refused


def judge_who_paid(fleet, killed):
    """Who ran alone in a killed child is charged; of several each is suspected; what had not started is not."""
    jobs = {job.id: job for job in fleet.jobs()}
    started = {(job_id, run.fence): run for job_id, runs in fleet.ledger.runs().items() for run in runs}
    by_worker = defaultdict(Counter)
    for job_id, history in histories(fleet).items():
        for attempt in history:
            by_worker[attempt.worker][attempt.how] += 1
            run = started.get((job_id, attempt.fence))
            if attempt.worker in killed and run is not None and run.end is None:
                assert attempt.how in {"crashed", "suspected"}, attempt
            if attempt.how in {"crashed", "suspected"}:
                assert attempt.worker in killed, attempt
                assert "SIGKILL" in attempt.error
        hows = Counter(attempt.how for attempt in history)
        assert jobs[job_id].attempt == hows["crashed"], history
        assert jobs[job_id].crashes == hows["crashed"] + hows["suspected"], history
    harmed = [hows for worker, hows in by_worker.items() if worker in killed]
    for hows in harmed:
        assert (hows["crashed"], hows["suspected"]) in {(0, 0), (1, 0), (0, 2)}, hows
    assert sum(hows["crashed"] + hows["suspected"] for hows in harmed) > 0, "no kill hit a running job"
    wait_until(lambda: not killed & {worker.info.id for worker in fleet.workers()}, what="the burial of all killed")
