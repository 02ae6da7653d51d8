"""Handlers and users in a worker's way: who only delays keeps all it has, who hangs is ended with evidence."""

import re
import signal
import time
from pathlib import Path

import fleet_app
import pytest
from fleet import now, sizes, wait_until

from standfast.model.states import State

pytestmark = pytest.mark.timeout(sizes(short=120, full=600))

STOPS_WITHIN = 15.0
"""Seconds beyond the grace after which systemd ends what is left; a stop takes about half of them."""


@pytest.mark.parametrize(
    "fleet_on_each_store", sizes(short=["sqlite"], full=["sqlite", "postgres", "redis"]), indirect=True
)
def test_gil_hog_keeps_claim(fleet_on_each_store):
    """A handler that holds the interpreter for three leases keeps its claim: it runs once and is not charged."""
    fleet = fleet_on_each_store
    lease = sizes(short=2, full=15)
    hog, other = fleet.start_workers(2, lease=lease)
    fleet.wait_until_it_may_bury(other)
    before = {worker.info.id for worker in fleet.workers()}
    job = fleet.enqueue("hold_interpreter", seconds=3 * lease)

    fleet.wait_for(job, State.COMPLETED, within=30 + 3 * lease)

    [run] = fleet.ledger.runs_of(job)
    assert run.end is not None
    assert run.end.boot - run.start.boot >= 3 * lease
    done = fleet.job(job)
    assert (done.fence, done.attempt, done.crashes) == (1, 0, 0)
    assert {worker.info.id for worker in fleet.workers()} == before
    assert hog.process.poll() is None


def test_long_user_transaction(fleet):
    """A user's own long write transaction on the same file buries and replaces no worker, and then work goes on."""
    lease, store_timeout, held_for = sizes(short=(2, 1.2, 6), full=(15, 10, 30))
    trees = fleet.start_workers(3, lease=lease, store_timeout=store_timeout)
    for tree in trees:
        fleet.wait_until_it_may_bury(tree)
    before = {worker.info.id: worker.info.pid for worker in fleet.workers()}
    crossing = [fleet.enqueue(task, seconds=lease) for task in ("nap", "nap_in_thread")]
    for job in crossing:
        fleet.wait_for_start(job)

    with fleet.user_transaction():
        begun_at = now()
        wait_until(lambda: (now() - begun_at).total_seconds() >= held_for)
        during = fleet.workers()
    after = [fleet.enqueue("nap", seconds=0) for _ in range(20)]
    for job in [*crossing, *after]:
        fleet.wait_for(job, State.COMPLETED)

    assert {worker.info.id: worker.info.pid for worker in fleet.workers()} == before
    assert [worker.info.id for worker in during if worker.condemned or worker.beat_age > worker.info.lease] == []
    for job in [*crossing, *after]:
        assert (fleet.job(job).attempt, fleet.job(job).crashes) == (0, 0)
    for job in crossing:
        assert fleet.job(job).fence == 1
        assert len(fleet.ledger.runs_of(job)) == 1
    assert [tree.process.poll() for tree in trees] == [None, None, None]


def test_hang_limit(fleet):
    """A handler that blocks the event loop past the hang limit loses its process: charged, and told where."""
    limit = sizes(short=2, full=10)
    [tree] = fleet.start_workers(1, lease=2, hang_limit=limit)
    child = fleet.child_pid_of(tree)
    hung = fleet.enqueue("block_first_time", seconds=600)

    done = fleet.wait_for(hung, State.COMPLETED)

    assert (done.attempt, done.crashes, done.group) == (1, 1, 1)
    first, *_, last = fleet.history(hung)
    assert (first.how, last.how) == ("crashed", "complete")
    place = rf"\S*fleet_app\.py:{line_of('time.sleep(seconds)  # noqa')} in block_first_time"
    assert re.fullmatch(rf"it gave no sign of life for \d+ s, at {place} \(incident \w{{8}}\)", first.error)
    run, again = fleet.ledger.runs_of(hung)
    assert (run.start.pid, run.end) == (child, None)
    assert (first.ended_at - run.start.at).total_seconds() >= limit
    assert again.start.pid != child
    assert child not in tree.members()
    assert "hangs: no sign of life" in tree.told
    assert tree.process.poll() is None


def test_hang_limit_among_innocents(fleet):
    """Who ran beside a handler that hangs is not charged, nor is the one that hung: all three run again alone."""
    innocents = [fleet.enqueue("nap_in_thread", seconds=0.1) for _ in range(2)]
    hung = fleet.enqueue("block_first_time", seconds=600)
    [tree] = fleet.start_workers(1, lease=2, hang_limit=2)
    child = fleet.child_pid_of(tree)

    for job in [hung, *innocents]:
        done = fleet.wait_for(job, State.COMPLETED)
        assert (done.attempt, done.crashes, done.group) == (0, 1, 1)
        first = fleet.history(job)[0]
        assert first.how == "suspected"
        assert "in block_first_time" in first.error
    pids = [run.start.pid for job in [hung, *innocents] for run in fleet.ledger.runs_of(job)]
    assert pids.count(child) == 3
    assert len(set(pids)) == 4


def line_of(code):
    """Return the number of the line of the app that has this in it."""
    lines = Path(fleet_app.__file__).read_text().splitlines()
    return next(number for number, line in enumerate(lines, 1) if code in line)


def test_sigterm_while_somebody_keeps_the_file_locked(fleet):
    """The stop does not wait for the store: what could not be given back is, by the lease, and one line says so."""
    grace = 1
    tree = fleet.start(lease=2, grace=grace)
    job = fleet.enqueue("nap", seconds=60)
    fleet.wait_for(job, State.RUNNING)

    with fleet.user_transaction():
        told_at = time.monotonic()
        tree.signal_supervisor(signal.SIGTERM)
        assert tree.exit_code() == 0
        took = time.monotonic() - told_at
    assert tree.members() == []
    assert took < grace + STOPS_WITHIN
    assert tree.told.count("the store does not answer: what 1 worker had is given back when the lease is over") == 1

    fleet.start(lease=2)
    fleet.wait_for_start(job, runs=2)
