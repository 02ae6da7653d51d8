"""Children are replaced by overlap: nothing is lost, nothing is charged, and there is always one that works."""

import csv
import json
import os
import signal
import threading
import time
from datetime import datetime
from itertools import pairwise
from pathlib import Path

import pytest
from fleet import PROVE, now, sizes, wait_until

from standfast.model.states import State
from standfast.stores.verb import run_procedure
from standfast.supervisor.orders import RECYCLE, give_order
from standfast.supervisor.process import memory_of

pytestmark = pytest.mark.timeout(sizes(short=180, full=1800))

PLOTS = "STANDFAST_TEST_PLOTS"
"""Where the environment names a folder for figures of the full size."""

MOST_DIP = 0.2


@pytest.fixture(params=["sqlite", "postgres"])
def fleet(request, fleet_on):
    return fleet_on(None if request.param == "sqlite" else request.getfixturevalue("postgres_url"))


def told(tree):
    """Return what a tree has said, one JSON object for each line."""
    return [json.loads(line) for line in tree.told.splitlines() if line.startswith("{") and line.endswith("}")]


def heard(tree, *kinds):
    return [line for line in told(tree) if line["event"] in kinds]


def at(line):
    return datetime.fromisoformat(line["time"]).timestamp()


def fewest_at_work(tree):
    """Return how many children worked at least, from the first that was ready until the first word of a stop."""
    working, counts = 0, []
    for line in heard(tree, "worker_ready", "worker_stopping", "worker_crashed"):
        working += 1 if line["event"] == "worker_ready" else -1
        counts.append(working)
    return min(counts)


def recycle_one(fleet, tree, *, within=60):
    """Have the oldest worker of a tree replaced, and wait until it is gone."""
    worker = fleet.worker_of(tree).info.id
    run_procedure(fleet.app.call, give_order(fleet.app.verbs, RECYCLE, worker))
    wait_until(lambda: worker not in [each.info.id for each in fleet.workers()], within, f"the end of {worker}")


def assert_nothing_charged(fleet, jobs):
    for job in fleet.jobs():
        assert (job.state, job.attempt, job.crashes) == (State.COMPLETED, 0, 0), job
    runs = fleet.ledger.runs()
    assert set(runs) == set(jobs)
    assert {len(each) for each in runs.values()} == {1}


def rates(fleet, since, until, window):
    """Return how many jobs ended in a second, on average and in the worst stretch of so many seconds."""
    ends = [entry.boot for entry in fleet.ledger.entries() if entry.what == "end" and since <= entry.boot < until]
    stretches = max(1, int((until - since) / window))
    counts = [0] * stretches
    for end in ends:
        counts[min(stretches - 1, int((end - since) / window))] += 1
    return len(ends) / (until - since), min(counts) / window


@pytest.mark.parametrize("fleet", sizes(short=["postgres"], full=["sqlite", "postgres"]), indirect=True)
def test_recycling_under_load(fleet, measured):
    """Jobs flow while children are replaced again and again: none is lost, none burns an attempt, at no moment is
    there none that works, and the rate hardly sinks."""
    jobs, recycles, steady_for = sizes(short=(160, 3, 1.0), full=(2000, 20, 10.0))
    tree = fleet.start(concurrency=4, lease=2, **{"log-format": "json"})
    fleet.worker_of(tree)
    task = fleet.app.tasks["nap"]
    ids = [handle.id for handle in task.enqueue_many([{"seconds": 0.1}] * jobs)]
    fleet.wait_for_start(ids[0])

    steady_from = time.clock_gettime(time.CLOCK_BOOTTIME)
    wait_until(lambda: time.clock_gettime(time.CLOCK_BOOTTIME) >= steady_from + steady_for)
    from_here = time.clock_gettime(time.CLOCK_BOOTTIME)
    for _ in range(recycles):
        recycle_one(fleet, tree)
        if fleet.count(State.COMPLETED) > len(ids) - 50:  # there must be work until the last of them
            ids += [handle.id for handle in task.enqueue_many([{"seconds": 0.1}] * 100)]
    to_here = time.clock_gettime(time.CLOCK_BOOTTIME)
    fleet.wait_for_completed(len(ids), within=sizes(short=60, full=600))

    assert len(heard(tree, "worker_recycling")) == recycles
    assert fewest_at_work(tree) >= 1
    assert_nothing_charged(fleet, ids)
    steady, _ = rates(fleet, steady_from, from_here, 1.0)
    rate, worst = rates(fleet, from_here, to_here, 5.0)
    dip = 1 - rate / steady
    measured(
        f"{len(ids)} jobs, {recycles} recycles in {to_here - from_here:.1f} s: {steady:.1f} jobs/s before,"
        f" {rate:.1f} during ({dip:+.1%} dip), {worst:.1f} in the worst 5 s"
    )
    if PROVE:
        assert dip < MOST_DIP


@pytest.mark.parametrize("fleet", sizes(short=["sqlite"], full=["sqlite", "postgres"]), indirect=True)
def test_recycling_of_a_leak(fleet, measured, tmp_path):
    """A handler that leaks is survived for good: at its limit of memory each child is replaced by overlap."""
    jobs, megabytes, limit, concurrency = sizes(short=(40, 20, "200MB", 1), full=(3000, 1, "200MB", 4))
    tree = fleet.start(
        {"STANDFAST_RECYCLE_MEMORY": limit}, concurrency=concurrency, lease=2, **{"log-format": "json"}
    )
    fleet.worker_of(tree)
    sampled, stop = [], threading.Event()

    def sample():
        begun = time.monotonic()
        while not stop.wait(0.2):
            pids = [worker.info.pid for worker in fleet.workers()]
            sampled.extend((time.monotonic() - begun, pid, size) for pid, size in memory_of(pids).items())

    sampler = threading.Thread(target=sample)
    sampler.start()
    try:
        ids = [handle.id for handle in fleet.app.tasks["leak"].enqueue_many([{"megabytes": megabytes}] * jobs)]
        fleet.wait_for_completed(jobs, within=sizes(short=60, full=900))
    finally:
        stop.set()
        sampler.join()

    replaced = heard(tree, "worker_recycling")
    assert len(replaced) >= sizes(short=1, full=5)
    assert all("of memory exceed recycle_memory" in line["reason"] for line in replaced)
    assert heard(tree, "worker_crashed") == []
    assert fewest_at_work(tree) >= 1
    assert_nothing_charged(fleet, ids)
    most = max(size for *_, size in sampled)
    measured(f"{jobs} jobs of {megabytes} MB: {len(replaced)} recycles, at most {most / 1e6:.0f} MB in one child")
    if PROVE:
        draw(Path(os.environ.get(PLOTS) or tmp_path), sampled, limit)


def draw(folder, sampled, limit):
    """Write the memory of each child over time, as a table and, where matplotlib is installed, as a picture."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "leak.csv").open("w", newline="") as file:
        csv.writer(file).writerows([("seconds", "pid", "bytes"), *sampled])
    try:
        import matplotlib as mpl  # noqa: PLC0415 - of an extra
    except ImportError:
        return
    mpl.use("Agg")
    from matplotlib import pyplot as plt  # noqa: PLC0415 - after the choice of where it draws

    figure, axes = plt.subplots(figsize=(10, 4))
    for pid in dict.fromkeys(pid for _, pid, _ in sampled):
        points = [(seconds, size / 1e6) for seconds, each, size in sampled if each == pid]
        axes.plot(*zip(*points, strict=True))
    axes.axhline(float(limit.removesuffix("MB")), linestyle="--", color="black")
    axes.set(xlabel="seconds", ylabel="MB resident", title="A leak of 1 MB per job, each line a child")
    figure.savefig(folder / "leak.png")
    plt.close(figure)


@pytest.mark.parametrize("fleet", sizes(short=["postgres"], full=["sqlite", "postgres"]), indirect=True)
def test_recycling_one_machine_at_a_time(fleet):
    """Three supervisors whose children are all of age replace them, and no two at a time."""
    wanted = sizes(short=1, full=10)
    trees = [fleet.start({"STANDFAST_RECYCLE_AGE": "1s"}, lease=2, **{"log-format": "json"}) for _ in range(3)]
    for tree in trees:
        fleet.worker_of(tree)
    wait_until(
        lambda: all(len(heard(tree, "worker_stopping")) >= wanted for tree in trees),
        sizes(short=120, full=600),
        "the replacing of children on each of three machines",
    )
    spans = []
    for tree in trees:
        ends = {line["worker"]: at(line) for line in heard(tree, "worker_stopping")}
        begins = {line["worker"]: at(line) for line in heard(tree, "worker_recycling")}
        spans += [(begun, ends[worker]) for worker, begun in begins.items() if worker in ends]
    assert len(spans) >= 3 * wanted
    for (_, end), (begin, _) in pairwise(sorted(spans)):
        assert end <= begin, "two machines were about it at a time"


@pytest.mark.parametrize(
    ("fleet", "moment"), [("sqlite", "worker_recycling"), ("postgres", "worker_stopping")], indirect=["fleet"]
)
def test_sigterm_while_recycling(fleet, moment):
    """SIGTERM while a fresh child starts, or while the old one drains: exit 0 within the grace, no process is left,
    and all that is unfinished is ready, uncharged."""
    grace = 2
    tree = fleet.start(concurrency=3, lease=2, grace=grace, **{"log-format": "json"})
    worker = fleet.worker_of(tree).info.id
    long = [fleet.enqueue(task, seconds=120) for task in ("nap", "nap_in_thread")]
    for job in long:
        fleet.wait_for(job, State.RUNNING)
    waiting = [fleet.enqueue("nap", seconds=30) for _ in range(10)]
    run_procedure(fleet.app.call, give_order(fleet.app.verbs, RECYCLE, worker))
    wait_until(lambda: heard(tree, moment), what=moment)

    told_at = now()
    tree.signal_supervisor(signal.SIGTERM)

    assert tree.exit_code() == 0
    assert (now() - told_at).total_seconds() < 60
    assert tree.members() == []
    for job in [*long, *waiting]:
        left = fleet.job(job)
        assert (left.state, left.attempt, left.crashes) == (State.READY, 0, 0)
    assert fleet.workers() == ()


@pytest.mark.parametrize("fleet", sizes(short=["postgres"], full=["sqlite", "postgres"]), indirect=True)
def test_a_long_job_keeps_its_old_child(fleet):
    """It ends there, undisturbed, while the fresh child does the rest; a limit to that is the drain limit."""
    tree = fleet.start({"STANDFAST_DRAIN_LIMIT": "4s"}, concurrency=2, lease=2, grace=1, **{"log-format": "json"})
    old = fleet.worker_of(tree).info.id
    short, endless = fleet.enqueue("nap", seconds=2), fleet.enqueue("nap_in_thread", seconds=600)
    for job in (short, endless):
        fleet.wait_for_start(job)
    run_procedure(fleet.app.call, give_order(fleet.app.verbs, RECYCLE, old))
    wait_until(lambda: heard(tree, "worker_stopping"), what="the word to leave")
    told_at = at(heard(tree, "worker_stopping")[0])

    assert fleet.wait_for(short, State.COMPLETED).worker == old
    fleet.wait_for_start(endless, runs=2)
    first, second = fleet.ledger.runs_of(endless)
    assert second.start.wall - told_at >= 4
    assert (fleet.job(endless).attempt, fleet.job(endless).crashes) == (0, 0)
    assert first.start.pid != second.start.pid


@pytest.mark.parametrize("fleet", sizes(short=["sqlite"], full=["sqlite", "postgres"]), indirect=True)
def test_workers_recycle(fleet):
    """The command says what will happen, waits until it has, and tells who works in whose place."""
    [tree] = fleet.start_workers(1, lease=2, processes=2)
    wait_until(lambda: len(fleet.workers()) == 2)
    before = {worker.info.id for worker in fleet.workers()}
    answers = fleet.standfast_json("workers", "recycle", "--all")
    assert {answer["worker"] for answer in answers} == before
    assert all(answer["gone"] and answer["error"] is None for answer in answers)
    after = {worker.info.id for worker in fleet.workers()}
    assert {answer["replaced_by"] for answer in answers} == after
    assert not before & after

    one = min(after)
    said = fleet.standfast("workers", "recycle", one[:6])
    assert "1 worker will be replaced, one at a time" in said
    assert f"Worker {one} is gone; " in said
    assert tree.process.poll() is None


def test_a_supervisor_with_a_store_that_comes_back_goes_on_recycling(fleet_on):
    """A look that finds the store in a user's transaction waits, and harms nobody."""
    fleet = fleet_on()
    tree = fleet.start({"STANDFAST_RECYCLE_AGE": "1s"}, lease=2, **{"log-format": "json"})
    fleet.worker_of(tree)
    with fleet.user_transaction():
        begun_at = now()
        wait_until(lambda: (now() - begun_at).total_seconds() >= 4)
    seen = len(heard(tree, "worker_recycling"))
    wait_until(lambda: len(heard(tree, "worker_recycling")) > seen + 1, what="further recycling")
    assert heard(tree, "worker_crashed", "worker_lost") == []


def test_a_thread_that_ignores_its_cancellation_is_got_rid_of_by_its_job(fleet_on):
    """`workers recycle --job`: another process works first, and the old one is not waited for beyond the grace."""
    fleet = fleet_on()
    tree = fleet.start(lease=3, grace=1)
    job = fleet.enqueue("nap_in_thread", seconds=600.0)
    fleet.wait_for_start(job)
    old = fleet.worker_of(tree).info.id
    fleet.app.handle(job).cancel()

    [answer] = fleet.standfast_json("workers", "recycle", "--job", job)

    assert (answer["worker"], answer["gone"]) == (old, True)
    assert fleet.wait_for(job, State.CANCELLED).reason == "requested"
    assert fleet.app.tasks["nap"].enqueue(seconds=0.0).result(60) is None
    assert tree.process.poll() is None
