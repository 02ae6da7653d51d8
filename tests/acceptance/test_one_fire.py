"""Every planned time of a schedule is fired once: by five workers, while some are killed, and through a deploy."""

import random
import signal
import time
from collections import Counter
from datetime import UTC, datetime, timedelta

import pytest
from fleet import group_of, sizes, wait_until
from fleet_app import TICKS, TICKS_OVERLAP

from standfast.model.job import PLANNED_KEY, SCHEDULE_KEY
from standfast.model.records import Decision
from standfast.model.states import State

EVERY = timedelta(seconds=0.5)
WORKERS = 5
LEASE = 3


def environment(release: str) -> dict[str, str]:
    return {TICKS: str(EVERY.total_seconds()), "STANDFAST_RELEASE": release, "STANDFAST_NAME": "clockwork"}


class Ticking:
    """A fleet with a schedule."""

    def __init__(self, fleet):
        self.fleet = fleet

    def start(self, count, release):
        options = {"lease": LEASE, "environment": environment(release)}
        return self.fleet.start_workers(count, **options)

    def fired(self):
        """Return how often each planned time has a job."""
        jobs = [job for job in self.fleet.jobs() if job.metadata.get(SCHEDULE_KEY) == "ticks"]
        return Counter(datetime.fromisoformat(job.metadata[PLANNED_KEY]) for job in jobs if not revoked(job))

    def wait_for_tick(self):
        """Wait until a job for a later time than now is there."""
        now = datetime.now(UTC)
        wait_until(lambda: max(self.fired(), default=now) > now, what="a fire")

    def wait_for_burials(self):
        """Wait until nobody has anything under a claim of the killed."""

        def over():
            groups = {group_of(worker.info.pid) for worker in self.fleet.workers()}
            return groups <= {tree.process.pid for tree in self.fleet.trees if tree.process.poll() is None}

        wait_until(over, what="the burial of all who were killed")

    def check(self, until):
        """Every planned time from the first fire to this one has one job, and it ran once."""
        fired = self.fired()
        first = min(fired)
        expected = [first + number * EVERY for number in range((until - first) // EVERY + 1)]
        dropped = [time for time in expected if time not in fired]
        assert not dropped, f"dropped: {dropped}"
        assert max(fired.values()) == 1, f"doubled: {[time for time, count in fired.items() if count > 1]}"
        wait_until(lambda: self.fleet.count(State.COMPLETED) >= len(expected), what="the end of all runs")
        for job in self.fleet.jobs():
            if job.state is State.COMPLETED:
                assert len(self.fleet.ledger.runs_of(job.id)) >= 1
        fires = self.fleet.app.call(self.fleet.app.verbs.fires("ticks", 1000))
        assert len({(fire.planned, fire.cause) for fire in fires}) == len(fires)
        return len(expected)


def revoked(job):
    """Tell whether a deploy has taken it back before its time."""
    return job.state is State.CANCELLED


@pytest.fixture
def ticking(fleet_on_each_store):
    return Ticking(fleet_on_each_store)


def last_moment():
    return datetime.now(UTC) - timedelta(seconds=1)


@pytest.mark.parametrize(
    "fleet_on_each_store", sizes(short=["sqlite"], full=["sqlite", "postgres", "redis"]), indirect=True
)
def test_five_workers_and_a_rolling_deploy(ticking):
    """Old and new workers overlap, and an old one that starts late undoes nothing."""
    old = ticking.start(WORKERS if sizes(short=False, full=True) else 2, "1")
    ticking.wait_for_tick()
    new = ticking.start(2, "2")
    for tree in old:
        tree.signal_supervisor(signal.SIGTERM)
    for tree in old:
        assert tree.exit_code() == 0
    ticking.start(1, "1")
    ticking.wait_for_tick()
    time.sleep(sizes(short=2, full=20))
    ticking.check(last_moment())
    assert all(tree.process.poll() is None for tree in new)


@pytest.mark.parametrize(
    "fleet_on_each_store", sizes(short=["postgres", "redis"], full=["sqlite", "postgres", "redis"]), indirect=True
)
def test_workers_are_killed_at_any_time(ticking):
    """Whoever dies between two fires, or in the middle of one, neither drops nor doubles any."""
    dice = random.Random(5)
    ticking.start(sizes(short=3, full=WORKERS), "1")
    ticking.wait_for_tick()
    for _ in range(sizes(short=2, full=15)):
        time.sleep(dice.uniform(0.2, 2.0))
        living = [tree for tree in ticking.fleet.trees if tree.process.poll() is None]
        dice.choice(living).kill_tree()
        ticking.start(1, "1")
    ticking.wait_for_tick()
    until = last_moment()
    ticking.wait_for_burials()
    assert ticking.check(until) > 4


def test_a_new_schedule_is_seen_to_at_once(fleet):
    """The first worker on an empty store neither skips nor delays the times that follow the first one."""
    every = {TICKS: "1", TICKS_OVERLAP: "skip"}
    fleet.start_workers(1, environment={**environment("1"), **every})
    seen = wait_until(lambda: len(fires := fleet.app.call(fleet.app.verbs.fires("ticks", 9))) >= 6 and fires)
    assert {fire.decision for fire in seen} == {Decision.FIRED}, seen
