"""Handles wait for jobs that workers run: hundreds for the price of one, and each is told how its own job ended."""

import asyncio
import sqlite3
import threading
import time
import traceback
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager

import pytest
from shopfloor import PATIENCE, PROVE, Shop, eventually

from standfast import JobDeadError, ResultTimeoutError
from standfast.model.job import Progress

HANDLES = 2_000 if PROVE else 500
WINDOW = 10.0 if PROVE else 2.0
"""Seconds for which the calls of those who wait are counted."""

HALFWAY = 5

pytestmark = pytest.mark.timeout(600 if PROVE else 120)


class Counting:
    """A store that counts the verbs that are run on it."""

    def __init__(self, backend):
        self._backend = backend
        self.ran = Counter()
        self._lock = threading.Lock()

    def __getattr__(self, name):
        return getattr(self._backend, name)

    def run(self, verb):
        self._note(verb)
        return self._backend.run(verb)

    async def arun(self, verb):
        self._note(verb)
        return await self._backend.arun(verb)

    def _note(self, verb):
        with self._lock:
            self.ran[verb.name] += 1


@pytest.fixture
def shop(tmp_path):
    with Shop(tmp_path) as shop:
        yield shop


def count_calls(shop):
    """Count the calls to the store from now on, until the app is closed."""
    counting = shop.app._backend = Counting(shop.app.backend)
    return counting.ran


@contextmanager
def in_threads(handles):
    """Wait for each handle in a thread of its own."""
    with ThreadPoolExecutor(len(handles)) as threads:
        yield [threads.submit(handle.result, PATIENCE) for handle in handles]


@contextmanager
def in_one_loop(handles):
    """Wait for all handles in one event loop."""

    async def all_results():
        return await asyncio.gather(*(handle.aresult(PATIENCE) for handle in handles), return_exceptions=True)

    with ThreadPoolExecutor(1) as thread:
        yield [thread.submit(asyncio.run, all_results())]


def calls_of(shop, waiting, handles):
    """Count what is asked of the store while these wait and nothing happens."""
    ran = count_calls(shop)
    with waiting(handles):
        eventually(lambda: shop.app.waiter.watching == len(handles), "all of them wait")
        ran.clear()
        time.sleep(WINDOW)  # not for something to happen: this is how long the calls are counted
        counted = Counter(ran)
        shop.app.close()  # which ends their wait
    return counted


@pytest.mark.parametrize("waiting", [in_threads, in_one_loop])
def test_hundreds_wait_for_the_price_of_one(shop, waiting):
    """While they wait, hundreds of handles ask the store no more often than one does."""
    handles = shop.tasks.pack.enqueue_many([{"order": order} for order in range(HANDLES)])
    one, many = (calls_of(shop, waiting, handles[:count]) for count in (1, HANDLES))
    assert one.keys() == many.keys() == {"glance"}
    assert many["glance"] <= 2 * one["glance"], f"{one} {many}"


@pytest.mark.parametrize("waiting", [in_threads, in_one_loop])
def test_hundreds_each_have_their_result(shop, waiting):
    """A worker ends them all; each handle reads its own result, once, and the looks meanwhile are shared."""
    handles = shop.tasks.pack.enqueue_many([{"order": order} for order in range(HANDLES)])
    ran = count_calls(shop)
    with waiting(handles) as results:
        eventually(lambda: shop.app.waiter.watching == HANDLES, "all of them wait")
        worker = shop.start("--drain")
        told = [result.result(PATIENCE) for result in results]
        assert worker.wait() == 0, worker.words
        assert ran["get"] == HANDLES
        assert ran["glance"] < HANDLES
    assert sorted(told if waiting is in_threads else told[0]) == list(range(HANDLES))


def test_a_dead_job_brings_the_workers_traceback(shop):
    """What the handler raised in another process is read where its result was wanted."""
    shop.worker()
    handle = shop.tasks.trouble_async.enqueue("exception")
    with pytest.raises(JobDeadError) as dead:
        handle.result(PATIENCE)
    assert (dead.value.failure_type, dead.value.failure_message) == ("ValueError", "plainly wrong")
    assert "in trouble_async" in dead.value.remote_traceback
    shown = "".join(traceback.format_exception(dead.value))
    assert 'raise ValueError("plainly wrong")' in shown
    assert shown.index("in trouble_async") < shown.index("standfast.errors.JobDeadError")


@pytest.mark.parametrize("way", ["sync", "async"])
def test_progress_is_followed_while_a_worker_makes_it(shop, way):
    """Each step that is seen comes in order; the stream ends with the job."""
    shop.worker()
    handle = shop.tasks.count_to.enqueue(total=10)

    def heard(progress):
        if progress.done == HALFWAY:
            shop.put("go")
        return progress

    async def follow():
        return [heard(progress) async for progress in handle.aprogress(PATIENCE)]

    seen = [heard(each) for each in handle.progress(PATIENCE)] if way == "sync" else asyncio.run(follow())
    assert Progress(HALFWAY, 10) in seen, "what came later may have been overtaken by the end"
    assert [each.done for each in seen] == sorted({each.done for each in seen})
    assert handle.result(timeout=0) == 10


def test_a_lock_on_the_file_holds_up_no_wait(shop):
    """A user's long write transaction lets nothing end; those who wait time out in time, and go on later."""
    handle = shop.tasks.pack.enqueue(order=1)
    with closing(sqlite3.connect(shop.database, isolation_level=None)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        with pytest.raises(ResultTimeoutError, match=r"is still ready after 0\.1 s"):
            handle.result(timeout=0.1)
        connection.execute("ROLLBACK")
    shop.start("--drain")
    assert handle.result(PATIENCE) == 1
