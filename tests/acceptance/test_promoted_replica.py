"""A replica takes the place of its Redis master in the middle of work.

What had reached the replica is done, workers go on by themselves, and what had not reached it is lost: Redis says
yes before a replica has anything, and docs/howto/redis.md says so.
"""

from contextlib import ExitStack

import pytest
from fleet import sizes, wait_until

from servers import RedisSentinel, RedisServer, ValkeyServer
from standfast import JobNotFoundError, StoreUnavailableError
from standfast.model.states import State

pytestmark = pytest.mark.timeout(sizes(short=120, full=900))

KEPT = {"appendonly": "yes", "appendfsync": "always"}
SETTINGS = {"lease": 3, "store_timeout": 2}


@pytest.fixture
def opened():
    with ExitStack() as opened:
        yield opened


@pytest.fixture
def master(opened):
    return opened.enter_context(RedisServer(**KEPT))


@pytest.fixture
def replica(opened, master):
    replica = master.replica()
    opened.callback(replica.close)
    return replica


@pytest.fixture
def sentinel(opened, master):
    return opened.enter_context(RedisSentinel(master))


@pytest.fixture
def fleet(fleet_on, sentinel):
    return fleet_on(sentinel.url())


def take_over(master, replica, sentinel):
    """Let the master die, and sentinels tell that the replica is the master now."""
    master.kill()
    replica.promote()
    sentinel.moved(replica)


def workers_of(fleet):
    return {worker.info.id for worker in fleet.workers()}


def assert_done(fleet, jobs):
    """Each is completed, ran to its end at least once, and was charged for nothing."""
    for job in jobs:
        done = fleet.wait_for(job, State.COMPLETED)
        assert (done.attempt, done.crashes) == (0, 0)
    assert {entry.job for entry in fleet.ledger.entries() if entry.what == "end"} >= set(jobs)


def test_nothing_that_reached_the_replica_is_lost(fleet, master, replica, sentinel):
    """Running jobs, waiting ones and delayed ones: the same workers bring all of them to their end."""
    fleet.start_workers(2, concurrency=4, **SETTINGS)
    before = workers_of(fleet)
    jobs = [fleet.enqueue("nap", seconds=0.05) for _ in range(sizes(short=100, full=2000))]
    jobs += [fleet.enqueue("nap", seconds=0.05, options={"delay": 2}) for _ in range(10)]
    fleet.wait_for_completed(len(jobs) // 4)
    replica.catch_up(master)
    take_over(master, replica, sentinel)
    jobs.append(fleet.enqueue("nap", seconds=0, options={"retry_for": 60}))
    assert_done(fleet, jobs)
    assert workers_of(fleet) == before


def test_what_did_not_reach_the_replica_is_lost_and_harms_nobody(fleet, master, replica, sentinel):
    """Neither the worker that runs what its new master never heard was claimed, nor the jobs that it knows.

    Those may start once more, beside the first run and with the same fence.
    """
    fleet.start_workers(1, concurrency=4, **SETTINGS)
    before = workers_of(fleet)
    known = [fleet.enqueue("nap", seconds=3, options={"delay": 1.5}) for _ in range(4)]
    replica.catch_up(master)
    replica.promote()  # from now on it hears nothing
    unheard = [fleet.enqueue("nap", seconds=0, options={"delay": 600}) for _ in range(5)]
    for job in known:
        fleet.wait_for_start(job)
    take_over(master, replica, sentinel)
    assert_done(fleet, [*known, fleet.enqueue("nap", seconds=0, options={"retry_for": 60})])
    for job in unheard:
        with pytest.raises(JobNotFoundError):
            fleet.app.handle(job).job()
    assert workers_of(fleet) == before


def test_a_master_that_waits_for_replicas_bounds_the_loss(opened, fleet_on):
    """With min-replicas-to-write, from Redis 7 on and on Valkey, a master without a replica soon accepts no job."""
    master = opened.enter_context(
        ValkeyServer(**KEPT, min_replicas_to_write=1, min_replicas_max_lag=1, repl_ping_replica_period=1)
    )
    replica = master.replica()
    opened.callback(replica.close)
    fleet = fleet_on(master.url())
    fleet.enqueue("nap", seconds=0)
    replica.pause()

    def refused():
        try:
            fleet.enqueue("nap", seconds=0)
        except StoreUnavailableError as error:
            return str(error)
        return None

    assert "has too few replicas to take a write: start them" in wait_until(refused)
    replica.cont()
    fleet.enqueue("nap", seconds=0, options={"retry_for": 60})
