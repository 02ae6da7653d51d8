"""Workers inside the processes of one web server are counted at its own `/metrics`, whichever process answers.

`make prove NAME=web_metrics` runs it at full size: more jobs, more kills.
"""

import os
import signal
import threading
import time
from contextlib import contextmanager

import httpx
import pytest
from fleet import PROVE, sizes
from host_stage import Stage, gunicorn, uvicorn
from test_metrics import Scraped

from standfast.observe.metrics.shared import counts_in

KILLS = sizes(short=1, full=10)
NAPS = 120
"""Jobs before each kill, and after the last."""

ASKED = 10
"""Jobs that requests enqueue."""

SLOTS = 4
NAP = 0.1

GUNICORN = gunicorn("gunicorn-flask", "host_metrics_flask:web")
UVICORN = uvicorn("uvicorn-workers", "--workers", "2", workers=2, web="host_metrics_asgi:web")

pytestmark = pytest.mark.timeout(900 if PROVE else 180)


@pytest.fixture
def stage(tmp_path):
    stage = Stage(tmp_path)
    try:
        yield stage
    finally:
        stage.close()


class Scrapes:
    """Scrapes of one port, over a new connection each: any process may answer. None is less than one before."""

    def __init__(self, port):
        self._url = f"http://127.0.0.1:{port}/ops/metrics"
        self._before = {}
        self._one = threading.Lock()
        self.number = 0
        self.pids = set()
        self.problems = []

    def scrape(self):
        """Return what was told; None where the server is away, or was killed as it answered."""
        with self._one:
            try:
                answer = httpx.get(self._url, timeout=60)
            except httpx.TransportError:
                return None
            assert answer.status_code == httpx.codes.OK, answer.text
            seen = Scraped(answer.text)
            less = {
                key: (value, seen.counters.get(key))
                for key, value in self._before.items()
                if seen.counters.get(key, -1) < value
            }
            if less:
                self.problems.append(less)
            self._before = seen.counters
            self.pids.add(int(answer.headers["x-pid"]))
            self.number += 1
            return seen

    def wait_for_answers_of(self, number, stage, other_than=frozenset()):
        """Wait until so many processes have answered from now on."""
        self.pids = set()
        stage.wait_until(lambda: len(self.pids - other_than) >= number, f"answers of {number} processes")

    @contextmanager
    def going_on(self):
        """Scrape beside the test, one after the other."""
        over = threading.Event()

        def go():
            try:
                while not over.is_set():
                    self.scrape()
                    time.sleep(0.01)
            except BaseException as error:
                self.problems.append(error)
                raise

        thread = threading.Thread(target=go)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()


def attempts(seen, outcome="completed"):
    return 0 if seen is None else seen.sum("standfast_attempts_total", task="nap", outcome=outcome)


def nap(seconds: float) -> None:
    """Stand for the task of that name: the servers have the real one."""


@pytest.mark.parametrize("kind", sizes(short=[GUNICORN], full=[GUNICORN, UVICORN]), ids=lambda kind: kind.name)
def test_counters_of_a_web_server_add_up_and_never_go_back(stage, kind):
    """Its processes answer in turn, are killed in the middle of jobs, and are replaced.

    What can be lost: an attempt whose end the store had taken when its process was killed, before the process heard
    of that. A process writes down ends one batch after the other, and a nap takes longer than a batch, so that is
    one for each slot at most. None is counted twice: there are never more than the store has.
    """
    folder = stage.folder / "metrics"
    naps = stage.app.task(nap, max_attempts=10, backoff=0.1)
    server = stage.start(kind, STANDFAST_METRICS_DIR=str(folder), STANDFAST_CONCURRENCY=str(SLOTS))
    scrapes, killed = Scrapes(server.port), set()
    stage.wait_for_workers(kind.workers)
    ordered = [server.post_until_heard(f"nap?seconds={NAP}") for _ in range(ASKED)]
    with scrapes.going_on():
        for _ in range(KILLS):
            scrapes.wait_for_answers_of(kind.workers, stage)
            before = len(stage.notes.read("done"))
            ordered += [handle.id for handle in naps.enqueue_many([{"seconds": NAP}] * NAPS)]
            stage.wait_for_note("done", times=before + NAPS // 4)
            victim = next(note.pid for note in reversed(stage.notes.read("start")) if note.pid in scrapes.pids)
            os.kill(victim, signal.SIGKILL)
            killed.add(victim)
            stage.wait_until(lambda: len(scrapes.pids - killed) >= kind.workers, "an answer of the next process")
        if kind.reloads:
            server.process.send_signal(signal.SIGHUP)
            scrapes.wait_for_answers_of(kind.workers, stage, other_than=set(scrapes.pids))
        ordered += [handle.id for handle in naps.enqueue_many([{"seconds": NAP}] * NAPS)]
        stage.wait_for_completed(ordered)
        done = sum(job.task == "nap" and job.state == "completed" for job in stage.jobs())
        stage.wait_until(lambda: attempts(scrapes.scrape()) >= done - SLOTS * KILLS, "all that is known is counted")
        scrapes.wait_for_answers_of(kind.workers, stage)
    assert scrapes.problems == []

    seen = stage.wait_until(scrapes.scrape, "an answer")
    assert done - SLOTS * KILLS <= attempts(seen) <= done, (attempts(seen), done)
    assert attempts(seen, "dead") == 0
    assert seen.sum("standfast_worker_events_total", event="crashed") >= KILLS
    assert seen.sum("standfast_job_run_seconds_count", task="nap") == attempts(seen)
    assert ASKED <= seen.sum("standfast_jobs_enqueued_total", task="nap") <= done - (KILLS + 1) * NAPS
    assert len(counts_in(folder)) <= 3 * (kind.workers + 3), "those who ended leave no files behind"
