"""Finished jobs are forgotten while somebody's report goes on, and no worker waits for that.

Short by default, and then the server itself says whether anyone has waited: where the machine does much else, a
call may take long for no reason of ours. `make prove NAME=retention_postgres` runs it at full size, by the clock.
"""

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from datetime import timedelta

import psycopg
import pytest
from batches import Batches
from fleet import PROVE, sizes, wait_until

from standfast.model.states import State
from standfast.stores.contract import count_states

EACH = sizes(short=6_000, full=120_000)
"""Jobs that each worker finishes."""

READ = 2_000
"""Jobs that were finished when the report began."""

WORKERS = 3
BATCH = 50
AGE = timedelta(seconds=sizes(short=0.05, full=1))
LIMIT = 500
LONGEST = 0.3
"""Seconds that a finish may take: this is the promise."""

SERVER = {
    "fsync": "off",
    "synchronous_commit": "off",
    "autovacuum_naptime": "1s",
    "log_lock_waits": "on",
    "deadlock_timeout": "250ms",
}
"""Vacuum is always under way, no disk is waited for, and the server tells who waits for a lock for so long."""

pytestmark = pytest.mark.timeout(1800 if PROVE else 240)


class Worker(Batches):
    """A worker that notes how long its longest finish has taken."""

    def __init__(self, url):
        super().__init__(url)
        self.longest = 0.0

    def finish(self, claims):
        if not claims:
            return
        began = time.perf_counter()
        super().finish(claims)
        self.longest = max(self.longest, time.perf_counter() - began)

    def work(self, count):
        """Enqueue so many jobs, and finish as many or others, until none is left that nobody has."""
        for _ in range(count // BATCH):
            self.enqueue(BATCH)
            self.finish(self.claim(BATCH))
        while claims := self.claim(BATCH):
            self.finish(claims)


@contextmanager
def report(server):
    """Hold a transaction open that has read jobs and their outcomes; give what it sees of them."""
    with psycopg.connect(server.url()) as own:
        own.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ

        def read():
            return own.execute("SELECT count(*) FROM standfast.job JOIN standfast.outcome USING (id)").fetchone()[0]

        read()
        yield read
        own.rollback()


@contextmanager
def forgetting(url):
    """Let a supervisor forget what is over as fast as it can; give how many that were, as they grow."""
    over, forgotten = threading.Event(), [0]

    def forget():
        with closing(Batches(url)) as supervisor:
            while not over.is_set():
                number = supervisor.backend.run(supervisor.backend.verbs.forget_jobs(AGE, LIMIT))
                forgotten.append(forgotten[-1] + number)
                over.wait(0 if number else 0.05)

    with ThreadPoolExecutor(1) as thread:
        supervisor = thread.submit(forget)
        try:
            yield forgotten
        finally:
            over.set()
            supervisor.result()


def test_no_finish_waits_while_jobs_are_forgotten_under_a_report(postgres_server, measured):
    """The report sees what it saw, everyone else sees what is left, and each finish is quick."""
    server = postgres_server(**SERVER)
    workers = [Worker(server.url()) for _ in range(WORKERS)]
    try:
        workers[0].work(READ)
        began = time.perf_counter()
        with report(server) as read, forgetting(server.url()) as forgotten:
            with ThreadPoolExecutor(WORKERS) as threads:
                list(threads.map(lambda worker: worker.work(EACH), workers))
            took, meanwhile = time.perf_counter() - began, forgotten[-1]
            done = READ + WORKERS * EACH
            wait_until(lambda: forgotten[-1] == done, what="all that is over is forgotten")
            assert read() == READ, "the report was not held"
        assert workers[0].backend.run(count_states(workers[0].backend.verbs))[State.COMPLETED] == 0
    finally:
        for worker in workers:
            worker.close()

    longest = max(worker.longest for worker in workers)
    measured(
        f"{done} jobs in {took:.0f} s, {meanwhile} of them forgotten meanwhile, under a report of {READ}:"
        f" the longest finish took {longest * 1000:.0f} ms"
    )
    assert meanwhile > 0, "nothing was forgotten while jobs were finished"
    assert "still waiting for" not in server.log
    assert longest <= LONGEST or not PROVE
