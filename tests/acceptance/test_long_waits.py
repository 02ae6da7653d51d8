"""Jobs that wait for signals hold no slot, and go on over any kill and any restart, of workers and of the store."""

import json
import os
import sqlite3
from contextlib import ExitStack, closing
from datetime import timedelta

import long_app
import pytest
from commands import ask
from fleet import now, sizes, wait_until

from servers import PostgresServer, RedisServer
from standfast.model.states import State

pytestmark = pytest.mark.timeout(sizes(short=240, full=900))

WAITING = sizes(short=40, full=1_000)
OTHERS = sizes(short=20, full=200)


STORES = ["sqlite", "postgres", "redis"]


@pytest.fixture(params=STORES)
def store(request):
    """Give a server of the test's own, to be killed, which keeps what it has accepted; None for a file."""
    with ExitStack() as opened:
        if request.param == "sqlite":
            yield None
        elif request.param == "postgres":
            yield opened.enter_context(PostgresServer())
        else:
            yield opened.enter_context(RedisServer(appendonly="yes", appendfsync="always"))


@pytest.fixture(params=STORES)
def fleet(request, fleet_on):
    """Give an empty fleet, on one store after the other."""
    url = None if request.param == "sqlite" else request.getfixturevalue(f"{request.param}_url")
    return fleet_on(url, long_app)


@pytest.fixture
def fleet_here(fleet_on):
    """Give an empty fleet on a SQLite file."""
    return fleet_on(None, long_app)


def waits(fleet, job):
    """Wait until the job waits for a signal; return it."""
    wait_until(lambda: fleet.job(job).reason == "signal:approved", what=f"the wait of {fleet.job(job)}")
    return fleet.job(job)


@pytest.mark.parametrize("store", sizes(short=["postgres"], full=STORES), indirect=True)
@pytest.mark.parametrize("task", sizes(short=["approve"], full=["approve", "approve_async"]))
def test_a_job_waits_three_times_over_kills_and_restarts(fleet_on, store, task):
    """One slot is enough for it and for others; signals may come while nobody works, and no attempt is charged.

    The sync one has a single attempt: a job that waits has ended its run by itself.
    """
    fleet = fleet_on(None if store is None else store.url(), long_app)
    job = fleet.enqueue(task)
    tree = fleet.start(concurrency=1)
    for number in range(3):
        waiting = waits(fleet, job)
        assert (waiting.state, waiting.attempt, waiting.worker) == (State.SCHEDULED, 0, None)
        other = fleet.enqueue("quick")
        fleet.wait_for(other, State.COMPLETED)
        tree.kill_tree()
        if store is not None:
            store.kill()
            store.start()
        assert fleet.job(job).reason == "signal:approved"
        said = json.loads(fleet.standfast("jobs", "signal", job, "approved", json.dumps({"by": number}), "--json"))
        assert (said["id"], said["waits_for"], said["waited"]) == (job, "approved", True)
        assert fleet.job(job).state is State.READY
        tree = fleet.start(concurrency=1)
    done = fleet.wait_for(job, State.COMPLETED)
    assert json.loads(done.result) == [{"by": 0}, {"by": 1}, {"by": 2}]
    assert [attempt.how for attempt in fleet.history(job)] == ["snooze"] * 3 + ["complete"]
    with closing(sqlite3.connect(fleet.ledger.path.with_name("bank.db"))) as bank:
        assert bank.execute("SELECT step FROM call WHERE job = ?", (job,)).fetchall() == [
            (f"note-{number}",) for number in range(3)
        ]


@pytest.mark.parametrize("fleet", sizes(short=["postgres"], full=STORES), indirect=True)
def test_many_that_wait_do_not_delay_others(fleet, measured):
    """They have no slot: others start on time beside them as they do without them, and in the end all go on."""
    fleet.start(concurrency=4)
    alone = lateness(fleet)
    jobs = [fleet.enqueue("approve_async") for _ in range(WAITING)]
    wait_until(lambda: fleet.count(State.SCHEDULED) == WAITING, what="the wait of all")
    beside = lateness(fleet)
    measured(f"others start {alone:.1f} ms late, and {beside:.1f} ms late beside {WAITING:,} jobs that wait")
    assert fleet.count(State.SCHEDULED) == WAITING
    for _ in range(3):  # those that come early are kept for the waits to come
        for job in jobs:
            fleet.app.signal(job, "approved", 1)
    fleet.wait_for_completed(WAITING + 2 * OTHERS, within=sizes(short=60, full=300))
    assert all(fleet.job(job).attempt == 0 for job in jobs[:: len(jobs) // 10])


def lateness(fleet):
    """Return by how many milliseconds, in the median, jobs start after their time."""
    at = now() + timedelta(seconds=1)
    dues = [at + timedelta(milliseconds=20 * each) for each in range(OTHERS)]
    times = {fleet.enqueue("quick", options={"at": due}): due for due in dues}
    wait_until(lambda: all(fleet.job(job).state is State.COMPLETED for job in times), what="the others")
    late = sorted((fleet.ledger.runs_of(job)[0].start.at - due).total_seconds() for job, due in times.items())
    assert late[0] >= 0
    return late[len(late) // 2] * 1000


@pytest.mark.parametrize(
    ("fleet", "signalled", "result"),
    [
        (store, signalled, "yes" if signalled else "nobody came")
        for store in STORES
        for signalled in sizes(short=[store == "sqlite"], full=[True, False])
    ],
    indirect=["fleet"],
)
def test_times_are_kept_by_the_store(fleet, signalled, result):
    """A sleep and a timeout end at their time, and never before it; a signal that came meanwhile is there."""
    job = fleet.enqueue("hesitate", seconds=0.5)
    if signalled:
        fleet.app.signal(job, "approved", "yes")
    fleet.start(concurrency=1)
    done = fleet.wait_for(job, State.COMPLETED)
    assert json.loads(done.result) == result
    assert done.finished_at - done.created_at >= timedelta(seconds=0.5 if signalled else 1)
    assert [attempt.how for attempt in fleet.history(job)] == ["snooze"] * (1 if signalled else 2) + ["complete"]


def test_signals_that_cannot_be_sent_are_refused(fleet_here):
    """Each with a word on what is wrong, and an exit code."""
    job = fleet_here.enqueue("approve")
    for words, code, said in [
        ((job, "approved", "yes"), 2, "is no JSON"),
        ((job, "a:b"), 2, "without ':'"),
        (("0197b1c2-7d1e-7c3a-9f60-5a4b3c2d1e0f", "approved"), 1, "there is no job"),
        ((job, "approved", '"' + "x" * 100_000 + '"'), 0, "has it, for when it waits for it"),
    ]:
        done = sent(fleet_here, *words)
        assert (done.returncode, said in done.stdout + done.stderr) == (code, True), done
    fleet_here.app.handle(job).cancel()
    done = sent(fleet_here, job, "approved")
    assert (done.returncode, "is over" in done.stderr) == (1, True), done


def sent(fleet, *words):
    """Return how the command ended that is to send a signal."""
    return ask(["jobs", "signal", *words, "--url", fleet.url], os.environ)
