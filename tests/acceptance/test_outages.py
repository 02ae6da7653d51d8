"""The store goes away and comes back: every job is done once, nobody is charged or buried for it, and all go on.

On PostgreSQL and on Redis, with servers of the test's own that keep what they have accepted.
"""

import asyncio
import re
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass

import psycopg
import pytest
import redis
from fleet import sizes, wait_until

from servers import PostgresServer, RedisSentinel, RedisServer
from standfast import Standfast, StoreUnavailableError
from standfast.model.states import State
from standfast.stores.contract import count_states
from standfast.stores.values import JobFilter

pytestmark = pytest.mark.timeout(sizes(short=120, full=900))

LEASE, STORE_TIMEOUT = sizes(short=(2, 1.5), full=(10, 5))
STORE = 3
"""The exit code of who cannot use the store."""

BOUND = 20.0
"""Seconds within which a call that is given up after STORE_TIMEOUT has failed, on the busiest machine."""


@dataclass(frozen=True, slots=True)
class Place:
    """A server, the URL by which workers know it, and how it moves to another address."""

    server: PostgresServer | RedisServer
    opened: ExitStack

    def url_that_survives_a_move(self):
        """Return a URL, and how to bring the data to a server at another address while this one is dead."""
        heir = self.server.heir()
        self.opened.callback(heir.kill)
        if isinstance(self.server, PostgresServer):
            return self.server.url(f"{self.server.address},{heir.address}"), heir.start
        sentinel = self.opened.enter_context(RedisSentinel(self.server))
        return sentinel.url(), lambda: (heir.start(), sentinel.moved(heir))

    @contextmanager
    def no_connection_left(self):
        """Take every connection that the server has to give."""
        with ExitStack() as taken:
            with suppress(psycopg.OperationalError, redis.ConnectionError):
                while True:
                    taken.enter_context(self._connect())
            yield

    def _connect(self):
        own = self.server.connect()
        if isinstance(own, redis.Redis):
            own.ping()
        return own


RESTARTS = [("postgres", False), ("postgres", True), ("redis", True), ("redis", False)]


@pytest.fixture(params=["postgres", "redis"])
def place(request):
    """Give a server with its data on disk."""
    with ExitStack() as opened:
        kept = {"appendonly": "yes", "appendfsync": "always", "maxclients": 50}
        made = PostgresServer(max_connections=50) if request.param == "postgres" else RedisServer(**kept)
        yield Place(opened.enter_context(made), opened)


@pytest.fixture
def server(place):
    return place.server


@pytest.fixture
def fleet(fleet_on, server):
    return fleet_on(server.url())


@pytest.fixture
def app(server):
    """Give an app of a client's own, with one task."""
    with Standfast(server.url(), store_timeout=STORE_TIMEOUT) as app:
        app.task(add)
        yield app


def add(a: int) -> int:
    return a


def start(fleet, count=1, **options):
    return fleet.start_workers(count, lease=LEASE, store_timeout=STORE_TIMEOUT, **options)


def let_pass(seconds):
    """Let an outage last."""
    began = time.monotonic()
    wait_until(lambda: time.monotonic() - began >= seconds)


def assert_done_and_uncharged(fleet, jobs, runs=1):
    """Each job is completed, was never charged, and ran so often."""
    for job in jobs:
        done = fleet.wait_for(job, State.COMPLETED)
        assert (done.attempt, done.crashes) == (0, 0)
        assert len(fleet.ledger.runs_of(job)) == runs


def assert_told_once(trees, *, noticed, outages=1):
    """Each process of a tree, supervisor and child, says once for each outage that it notices what happened."""
    for tree in trees:
        wait_until(lambda told=tree: told.told.count("store away") == told.told.count("store back"))
        assert noticed <= tree.told.count("store away") <= 2 * outages, tree.told


def workers_of(fleet):
    return {worker.info.id for worker in fleet.workers()}


@pytest.mark.parametrize(
    ("place", "longer_than_the_lease"), sizes(short=[*RESTARTS[:3]], full=RESTARTS), indirect=["place"]
)
def test_a_restart_while_jobs_run(fleet, server, longer_than_the_lease):
    """Jobs that ran go on, end while the server is down, and are completed under the same claim; others follow."""
    trees = start(fleet, 2)
    for tree in trees:
        fleet.wait_until_it_may_bury(tree)
    before = workers_of(fleet)
    seconds = LEASE + 2 if longer_than_the_lease else 0.75 * LEASE
    crossing = [fleet.enqueue(task, seconds=seconds) for task in ("nap", "nap_in_thread") for _ in range(5)]
    crossing += [fleet.enqueue("nap", seconds=seconds, options={"max_attempts": 1}) for _ in range(2)]
    for job in crossing:
        fleet.wait_for_start(job)
    wait_until(
        lambda: fleet.count(State.RUNNING) or fleet.ledger.runs_of(crossing[-1])[0].end, what="word of the starts"
    )

    server.stop()
    wait_until(lambda: all(fleet.ledger.runs_of(job)[0].end for job in crossing), what="the end of all that ran")
    server.start()

    after = [fleet.enqueue("nap", seconds=0) for _ in range(20)]
    assert_done_and_uncharged(fleet, [*crossing, *after])
    assert {fleet.job(job).fence for job in crossing} == {1}
    let_pass(LEASE)  # now they may bury again
    assert workers_of(fleet) == before
    assert_told_once(trees, noticed=1)


def test_the_server_killed_in_the_middle_of_many_jobs(fleet, server):
    """kill -9 of the server, twice, while jobs come and go: each is done, none twice, and nobody was charged."""
    jobs = [fleet.enqueue("nap", seconds=0.05) for _ in range(sizes(short=100, full=5000))]
    trees = start(fleet, sizes(short=2, full=5), concurrency=4)
    for share in (4, 2):
        fleet.wait_for_completed(len(jobs) // share)
        server.kill()
        server.start()
    assert_done_and_uncharged(fleet, jobs)
    # One that is back within moments nobody may have missed; and what is left of a killed one may answer once more.
    assert_told_once(trees, noticed=0, outages=4)


@pytest.mark.parametrize("place", ["redis"], indirect=True)
def test_a_server_that_comes_back_empty(fleet, server):
    """People are told which jobs and tasks the worker had. Its end is no crash of its own, and others are done."""
    [tree] = start(fleet)
    gone = [fleet.enqueue("nap", seconds=60) for _ in range(3)]
    for job in gone:
        fleet.wait_for_start(job)
    with closing(server.connect()) as own:
        own.flushall()
    wait_until(lambda: "the store was emptied" in tree.told, within=20, what="a word about it")
    assert_done_and_uncharged(fleet, [fleet.enqueue("nap", seconds=0)])

    def alerts():
        return [each for each in fleet.standfast_json("alerts", "list")["alerts"] if each["subject"] == "emptied"]

    [incident] = wait_until(lambda: fleet.standfast_json("incidents", "list"), what="the incident")
    assert (incident["trouble"], {job["job"] for job in incident["jobs"]}) == ("emptied", set(gone))
    assert {job["task"] for job in incident["jobs"]} == {"nap"}
    [alert] = wait_until(alerts, what="the alert")
    assert (alert["severity"], "3 jobs of nap" in alert["says"]) == ("critical", True)
    assert "exited with status 0" not in tree.told
    assert "no job running" not in tree.told


def test_connections_cut(fleet, server):
    """Whoever ends our connections, again and again, does no harm: others are opened, and work goes on."""
    start(fleet, 2)
    before = workers_of(fleet)
    jobs = [fleet.enqueue("nap", seconds=0.05) for _ in range(sizes(short=100, full=2000))]
    cut = 0
    for share in (5, 3, 2):
        fleet.wait_for_completed(len(jobs) // share)
        cut += server.cut_connections()
    assert cut >= 4  # a supervisor and a child of each tree
    assert_done_and_uncharged(fleet, jobs)
    assert workers_of(fleet) == before


def test_a_server_that_stands_still(fleet, server):
    """A server that does not answer for longer than a call may take, and than a lease, harms nobody."""
    trees = start(fleet, 2)
    for tree in trees:
        fleet.wait_until_it_may_bury(tree)
    before = workers_of(fleet)
    jobs = [fleet.enqueue("nap", seconds=1) for _ in range(10)]
    for job in jobs:
        fleet.wait_for_start(job)
    server.pause()
    let_pass(LEASE + STORE_TIMEOUT)
    server.cont()
    jobs += [fleet.enqueue("nap", seconds=0) for _ in range(10)]
    assert_done_and_uncharged(fleet, jobs)
    let_pass(LEASE)
    assert workers_of(fleet) == before
    assert_told_once(trees, noticed=1)


def test_a_worker_that_starts_before_its_server(fleet, server):
    """It says in one line that the store is away, waits, and works as soon as the server is there."""
    server.stop()
    tree = fleet.start(lease=LEASE, store_timeout=STORE_TIMEOUT)
    wait_until(lambda: "store away" in tree.told, what="a word about the store")
    let_pass(STORE_TIMEOUT)
    assert tree.process.poll() is None
    assert len(tree.told.splitlines()) == 1
    server.start()
    assert_done_and_uncharged(fleet, [fleet.enqueue("nap", seconds=0)])
    assert tree.told.count("store away") == tree.told.count("store back") == 1


def test_a_worker_whose_password_is_wrong(fleet_on, server):
    """What waiting does not mend ends it at once, with one line that does not repeat the password."""
    fleet = fleet_on(server.url().replace(server.password, "mistaken"))
    tree = fleet.start(lease=LEASE, store_timeout=STORE_TIMEOUT)
    assert tree.exit_code() == STORE
    assert len(tree.told.splitlines()) == 1
    assert "password" in tree.told
    assert "mistaken" not in tree.told


def test_a_server_without_a_connection_to_spare(fleet, place):
    """A worker that gets no connection says so, tries on, and works when others have left."""
    with place.no_connection_left():
        tree = fleet.start(lease=LEASE, store_timeout=STORE_TIMEOUT)
        wait_until(lambda: "store away" in tree.told, what="a word about the store")
        assert re.search("connection to spare|too many clients", tree.told)
    patient = fleet.app.tasks["nap"].options(retry_for=60)  # the server may notice a moment later that they left
    assert_done_and_uncharged(fleet, [patient.enqueue(seconds=0).id])


def test_more_threads_than_connections(server):
    """Whoever finds every connection of its process in use waits for a turn."""
    with Standfast(server.url()) as app, ThreadPoolExecutor(60) as threads:
        handles = list(threads.map(app.task(add).enqueue, range(600)))
        assert sum(app.call(count_states(app.verbs)).values()) == len({handle.id for handle in handles}) == 600
    assert server.is_running


def test_a_move_to_another_address(fleet_on, place):
    """The server dies, and another one takes its data over elsewhere: workers and clients find it by themselves.

    PostgreSQL: the URL names both hosts. Redis: the URL names a sentinel, which says where the master is.
    """
    url, move = place.url_that_survives_a_move()
    fleet = fleet_on(url)
    start(fleet, 2)
    before = workers_of(fleet)
    crossing = [fleet.enqueue("nap", seconds=2) for _ in range(10)]
    for job in crossing:
        fleet.wait_for_start(job)
    place.server.kill()
    move()
    fleet_app_task = fleet.app.tasks["nap"].options(retry_for=60)
    after = [fleet_app_task.enqueue(seconds=0).id for _ in range(10)]
    assert_done_and_uncharged(fleet, [*crossing, *after])
    assert workers_of(fleet) == before


# -- enqueueing ----------------------------------------------------------------------------------------------------


@contextmanager
def away(server, how):
    """Let the server be away in the block: gone, or there and silent."""
    (server.stop if how == "gone" else server.pause)()
    try:
        yield
    finally:
        (server.start if how == "gone" else server.cont)()


@pytest.mark.parametrize(("way", "how"), [("sync", "gone"), ("async", "silent")])
def test_an_enqueue_fails_within_a_bound(app, server, way, how):
    """Without retry_for the caller hears within the store's timeout, in words, that the store is away."""
    task = app.tasks["add"]
    task.enqueue(0)
    with away(server, how):
        began = time.monotonic()
        with pytest.raises(StoreUnavailableError) as raised:
            task.enqueue(1) if way == "sync" else asyncio.run(task.aenqueue(1))
        assert time.monotonic() - began < BOUND
    assert server.password not in str(raised.value)


@pytest.mark.parametrize(("way", "how"), [("sync", "gone"), ("async", "silent")])
def test_with_retry_for_an_enqueue_waits_for_the_store(app, server, way, how):
    """It succeeds when the server is back, and there is one job."""
    task = app.tasks["add"].options(retry_for=60)
    with ThreadPoolExecutor(1) as thread:
        with away(server, how):
            enqueue = task.enqueue if way == "sync" else lambda number: asyncio.run(task.aenqueue(number))
            pending = thread.submit(enqueue, 1)
            let_pass(STORE_TIMEOUT + 1)
            assert not pending.done()
        handle = pending.result(60)
    [job] = app.call(app.verbs.list_jobs(JobFilter())).jobs
    assert job.id == handle.id


def test_with_retry_for_nothing_is_doubled_or_lost(app, server):
    """While the server is killed twice, four threads enqueue on: what was accepted is there, each job once."""
    task, total = app.tasks["add"].options(retry_for=60), sizes(short=400, full=4000)
    task.enqueue(0)
    with ThreadPoolExecutor(4) as threads:
        pending = [threads.submit(task.enqueue, number) for number in range(1, total)]
        for share in (4, 2):
            wait_until(pending[total // share].done)
            server.kill()
            server.start()
        handles = [each.result(60) for each in pending]
    assert len({handle.id for handle in handles}) == total - 1
    assert app.call(count_states(app.verbs))[State.READY] == total
