"""Locks and semaphores among processes that are killed, or stopped for longer than their ttl.

Short by default; `make prove NAME=long_locks` runs them at full size.
"""

import importlib
import random
import signal
import subprocess
import sys
import time
from collections import defaultdict
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import pytest
from fleet import POLL, PROVE, sizes, wait_until
from lock_contender import NAME

from standfast import Standfast

CONTENDER = Path(__file__).parent / "lock_contender.py"
TTL = 1.0
SECONDS = sizes(short=4, full=60)
NAP = 0.3
"""Seconds between two acts of violence."""

pytestmark = pytest.mark.timeout(300 if PROVE else 120)


STORES = ["sqlite", "postgres", "redis"]


@pytest.fixture(params=STORES)
def store_url(request, tmp_path):
    """Give an empty store, of one kind after the other."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'jobs.db'}"
    return request.getfixturevalue(f"{request.param}_url")


@dataclass
class Span:
    """For how long one token was held, as its holder says: from when it took it to when it last knew so."""

    pid: int
    took: float
    held: float


class Contenders:
    """Processes that want one lock; those that are killed are replaced."""

    def __init__(self, url, places, ledger, *flavour, seconds=SECONDS, ttl=TTL):
        self.ledger = ledger
        self._args = [str(each) for each in (url, places, ttl)]
        self._flavour = flavour
        self._seconds = seconds
        self._living = []
        self.kills = self.stops = 0

    @contextmanager
    def running(self, count):
        """Have so many of them, all gone in the end."""
        try:
            for _ in range(count):
                self.start()
            yield self
        finally:
            for process in self._living:
                process.kill()
                process.wait()

    def start(self):
        """Start one."""
        lives = self._seconds * 2 + 60  # it is ended before
        command = [sys.executable, str(CONTENDER), *self._args, str(lives), str(self.ledger), *self._flavour]
        self._living.append(subprocess.Popen(command))
        return self._living[-1]

    def harm(self, chance):
        """Kill one, or stop one for longer than its ttl, again and again; only those that have held it once.

        A process takes longer to start than the time between two kills: else in the end nobody would be there.
        """
        wait_until(self.lines)
        ends_at, stopped = time.monotonic() + self._seconds, []
        while time.monotonic() < ends_at or not (self.kills and self.stops):
            time.sleep(NAP)
            while stopped and stopped[0][0] <= time.monotonic():
                stopped.pop(0)[1].send_signal(signal.SIGCONT)
            begun = {pid for _, _, pid, _ in self.lines()}
            free = [
                each for each in self._living if each.pid in begun and all(each is not one for _, one in stopped)
            ]
            holding = [each for each in free if each.pid == self.last_pid()]
            victim = chance.choice(holding if holding and chance.random() < 0.7 else free) if free else None
            if victim is None or victim.poll() is not None:
                continue
            if chance.random() < 0.5:
                victim.kill()
                victim.wait()
                self._living.remove(victim)
                self.kills += 1
                self.start()
            elif len(stopped) < len(self._living) - 2:
                victim.send_signal(signal.SIGSTOP)
                self.stops += 1
                stopped.append((time.monotonic() + TTL * 1.5, victim))
        for _, victim in stopped:
            victim.send_signal(signal.SIGCONT)
        time.sleep(NAP)
        assert [each.poll() for each in self._living] == [None] * len(self._living)

    def last_pid(self):
        """Return who wrote last, and so most likely holds it."""
        lines = self.lines()
        return lines[-1][2] if lines else None

    def lines(self):
        """Return what they wrote."""
        if not self.ledger.exists():
            return []
        # One that was killed in the middle of a line leaves half of it.
        words = [line.split() for line in self.ledger.read_text().splitlines()]
        return [(each[0], int(each[1]), int(each[2]), float(each[3])) for each in words if len(each) == 4]

    def spans(self):
        """Return for how long each token was held."""
        spans = {}
        for word, token, pid, at in self.lines():
            if word == "took":
                assert token not in spans, "two holders have one token"
                spans[token] = Span(pid, at, at)
            elif word == "held":
                spans[token].held = max(spans[token].held, at)
        return spans


def most_at_once(spans):
    """Return how many believed at one moment to hold a place."""
    moves = sorted([(each.took, 1) for each in spans] + [(each.held, -1) for each in spans])
    now = most = 0
    for _, move in moves:
        now += move
        most = max(most, now)
    return most


def test_a_lock_is_never_held_by_two(store_url, tmp_path, measured):
    """Neither the resource that checks tokens nor the holders themselves ever see two of them."""
    with Contenders(store_url, 1, tmp_path / "ledger").running(sizes(short=4, full=10)) as contenders:
        contenders.harm(random.Random(7))
        spans = contenders.spans()
        tokens = sorted(spans)
        assert len(tokens) > sizes(short=1, full=SECONDS / 3)
        assert tokens == sorted(tokens, key=lambda token: spans[token].took), "a later holder has a lesser token"
        for earlier, later in pairwise(tokens):
            assert spans[earlier].held < spans[later].took, (spans[earlier], spans[later])
        wrote = [(token, pid) for word, token, pid, _ in contenders.lines() if word == "wrote"]
        assert wrote == sorted(wrote, key=lambda entry: entry[0])
        owners = defaultdict(set)
        for token, pid in wrote:
            owners[token].add(pid)
        assert all(len(pids) == 1 for pids in owners.values())
        assert contenders.kills
        assert contenders.stops
        measured(f"{len(tokens)} holders, {contenders.kills} kills, {contenders.stops} stops")


@pytest.mark.parametrize("store_url", sizes(short=["sqlite"], full=STORES), indirect=True)
def test_a_semaphore_has_no_more_holders_than_places_and_leaks_none(store_url, tmp_path, measured):
    """Under kills and stops never more; after them, as many as before."""
    places, crowd, seconds = sizes(short=(2, 6, 6), full=(5, 20, SECONDS))
    with Contenders(store_url, places, tmp_path / "ledger", seconds=seconds).running(crowd) as contenders:
        contenders.harm(random.Random(8))
        spans = contenders.spans()
        assert len(spans) > sizes(short=places, full=seconds)
        assert sizes(short=0, full=1) < most_at_once(spans.values()) <= places
        assert contenders.kills
        measured(f"{len(spans)} holders, {contenders.kills} kills, {contenders.stops} stops")
    with Standfast(store_url) as app:
        held = [app.semaphore(NAME, places, ttl=TTL) for _ in range(places)]
        assert all(each.acquire(timeout=TTL + 5) for each in held)
        assert not app.semaphore(NAME, places, ttl=TTL).acquire(timeout=0)
        for each in held:
            each.release()


def test_a_killed_holder_hands_over_within_its_ttl(store_url, tmp_path, measured):
    """The next in line has it at most a second after the ttl is over."""
    waited = hand_over(store_url, tmp_path / "ledger", ttl=2.0)
    measured(f"{waited:.2f} s after a ttl of 2 s")
    assert waited < 2.0 + 1.0


def hand_over(url, ledger, *flavour, ttl):
    """Kill who holds a lock; return after how many seconds another has it."""
    with Contenders(url, 1, ledger, *flavour, seconds=30, ttl=ttl).running(1) as contenders, Standfast(url) as app:
        while not contenders.lines():
            time.sleep(0.01)
        [holder] = contenders._living
        holder.send_signal(signal.SIGSTOP)  # until it is one that holds, and not between two
        while not is_held(app, NAME, session=bool(flavour)):
            holder.send_signal(signal.SIGCONT)
            time.sleep(0.02)
            holder.send_signal(signal.SIGSTOP)
        began = time.monotonic()
        holder.kill()
        lock = app.lock(NAME, ttl=ttl, session=True) if flavour else app.lock(NAME, ttl=ttl)
        assert lock.acquire(timeout=30)
        waited = time.monotonic() - began
        lock.release()
        return waited


def is_held(app, name, *, session=False):
    """Tell whether somebody holds a lock now."""
    probe = app.lock(name, ttl=1, session=True) if session else app.lock(name, ttl=1)
    if not probe.acquire(timeout=0):
        return True
    probe.release()
    return False


def test_a_session_lock_is_never_held_by_two_and_is_free_at_once_after_a_kill(postgres_url, tmp_path, measured):
    """The server frees it when the connection dies, whatever the ttl."""
    waited = [hand_over(postgres_url, tmp_path / f"ledger-{turn}", "session", ttl=30.0) for turn in range(3)]
    measured(f"{max(waited):.3f} s after a kill")
    assert max(waited) < 1.0
    with Contenders(postgres_url, 1, tmp_path / "ledger", "session", ttl=30.0).running(4) as contenders:
        contenders.harm(random.Random(9))
        spans = contenders.spans()
        assert len(spans) > SECONDS / 4  # one that is stopped keeps it, and is given it in the server's line too
        measured(f"{len(spans)} holders, {contenders.kills} kills, {contenders.stops} stops")
        for earlier, later in pairwise(sorted(spans)):
            assert spans[earlier].held < spans[later].took


@pytest.fixture
def workers(store_url, tmp_path, monkeypatch):
    """Give the app of lock_jobs.py, with a worker that runs its jobs."""
    monkeypatch.setenv("STANDFAST_URL", store_url)
    monkeypatch.syspath_prepend(str(CONTENDER.parent))
    module = importlib.reload(importlib.import_module("lock_jobs"))
    command = [sys.executable, "-c", "from standfast.cli.main import main; main()", "worker", "lock_jobs:app"]
    worker = subprocess.Popen([*command, "--app-dir", str(CONTENDER.parent)], cwd=tmp_path)
    try:
        yield module
    finally:
        worker.terminate()
        worker.wait(30)
        module.app.close()


HOGS = [("sqlite", "hog"), ("postgres", "async_hog"), ("redis", "hog")]
"""The short form: each store, and each kind of handler."""


@pytest.mark.parametrize(
    ("store_url", "task"),
    sizes(short=HOGS, full=[(store, task) for store in STORES for task in ("hog", "async_hog")]),
    indirect=["store_url"],
)
def test_a_handler_that_holds_the_interpreter_keeps_its_lock(workers, tmp_path, task):
    """Its supervisor renews it, for longer than its ttl; nobody else gets it meanwhile, and it knows so."""
    told = tmp_path / task
    handle = workers.app.tasks[task].enqueue(workers.TTL + sizes(short=1, full=2 * workers.TTL), str(told))
    wait_until(lambda: is_held(workers.app, "hog"))
    while not told.exists():
        assert is_held(workers.app, "hog") or told.exists()
        time.sleep(POLL)
    handle.result(timeout=30)
    assert told.read_text() == "held=True lost=False"


@pytest.mark.parametrize("store_url", sizes(short=["postgres"], full=STORES), indirect=True)
def test_the_locks_of_a_dead_worker_are_free_at_once(workers, tmp_path, measured):
    """Its supervisor gives them back, long before their ttl is over."""
    told = tmp_path / "told"
    job = workers.die.enqueue(str(told))
    wait_until(told.exists)
    assert told.read_text().endswith(f" job {job.id}")
    began = time.monotonic()
    with workers.app.lock("die", timeout=20):
        waited = time.monotonic() - began
    measured(f"{waited:.2f} s after the kill")
