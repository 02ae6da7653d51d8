"""SQLite: an exception at any instruction harms nobody but the call that it ends.

A signal's handler may raise wherever the interpreter looks for signals, and memory may run out. Afterwards: what a
caller was told is stored is there, once; what a caller was told nothing of was stored before the exception left the
call, or never is; nobody waits or spins for ever; the next call works, and so does a fork.
`make prove NAME=every_instruction` tries each place with each kind of exception, and 10,000 real signals.
"""

import asyncio
import fcntl
import gc
import os
import random
import signal
import sqlite3
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from itertools import cycle
from pathlib import Path
from typing import Any

import pytest
from fleet import PATIENCE, PROVE, sizes

from forking import run_forking
from interruptions import TimeIsUpError, at_every_place
from standfast.errors import StoreUnavailableError
from standfast.model.job import NewJob
from standfast.stores.sqlite.engine import Entry, GroupWriter
from standfast.stores.sqlite.store import SqliteBackend
from standfast.stores.verb import Access

ERRORS = (TimeIsUpError, TimeoutError, KeyboardInterrupt, SystemExit, MemoryError)
"""What handlers raise, and what needs no handler."""

Tell = Callable[[str], None]

KINDS = sizes(short=[ERRORS], full=[(error,) for error in ERRORS])
"""In the short form each place meets one of them, in turn."""

SIGNALS = sizes(short=300, full=10_000)
STEP = sizes(short=7, full=1)
"""Every so manieth place is tried where a run takes long."""

pytestmark = [pytest.mark.usefixtures("own_leavings"), pytest.mark.timeout(3000 if PROVE else 120)]


@pytest.fixture(params=KINDS, ids=lambda kinds: "+".join(kind.__name__ for kind in kinds))
def error(request: pytest.FixtureRequest) -> Callable[[], BaseException]:
    kinds = cycle(request.param)

    def make() -> BaseException:
        made: BaseException = next(kinds)()
        return made

    return make


@pytest.fixture
def tell(capsys: pytest.CaptureFixture[str]) -> Tell:
    """Say how often something was tried; at full size the words are seen."""

    def say(text: str) -> None:
        with capsys.disabled() if PROVE else nullcontext():
            sys.stdout.write(f"\nevery instruction, sqlite: {text}\n")

    return say


class Shop:
    """A store, and a look at its file that needs nothing of ours."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.backend = SqliteBackend(path)
        self.made = 0
        self._own: sqlite3.Connection | None = None

    def close(self) -> None:
        self.backend.close()
        if self._own is not None:
            self._own.close()
            self._own = None

    def new_job(self) -> NewJob:
        self.made += 1
        return NewJob(f"job-{self.made}", "task", f"payload of {self.made}".encode())

    def enqueue(self, job: NewJob) -> None:
        self.backend.run(self.backend.verbs.enqueue([job]))

    def writer(self) -> GroupWriter:
        return self.backend._engine()._writers[Access.WRITE]

    def look(self, sql: str, *values: object) -> list[Any]:
        if self._own is None:
            self._own = sqlite3.connect(self.path, timeout=0, isolation_level=None)
        return self._own.execute(sql, values).fetchall()

    def holds(self, job: NewJob) -> bool:
        """Tell whether the job is there, once and as it was given."""
        found = self.look("SELECT payload FROM standfast_job WHERE id = ?", job.id)
        assert found in ([], [(job.payload,)])
        return bool(found)

    def check_free(self) -> None:
        """See that nobody keeps others from writing: neither the file's lock is held, nor the turn."""
        self.look("BEGIN IMMEDIATE")
        self.look("ROLLBACK")
        folder = self.path.with_name(self.path.name + "-bell")
        if folder.exists():
            assert not is_taken(folder)


@pytest.fixture
def shop(quick_path: Path) -> Iterator[Shop]:
    shop = Shop(quick_path / "jobs.db")
    yield shop
    shop.close()


def test_a_single_caller(shop: Shop, error: Callable[[], BaseException], tell: Tell) -> None:
    """What it was told is so, what was told nothing is there at once or never, and the next call works."""
    shop.enqueue(shop.new_job())
    shop.check_free()
    seen, files = 0, open_files()
    jobs: list[NewJob] = []

    def run() -> None:
        jobs.append(shop.new_job())
        shop.enqueue(jobs[-1])

    for outcome in at_every_place(run, error=error):
        there = shop.holds(jobs[-1])
        assert there or outcome.error is not None, outcome
        shop.check_free()
        shop.enqueue(next_one := shop.new_job())
        assert shop.holds(next_one), outcome
        assert shop.holds(jobs[-1]) == there, f"it ran later: {outcome}"
        seen += 1
    gc.collect()
    assert open_files() <= files + 1
    assert seen > 80
    tell(f"{seen} places of a call")


def test_a_leader_with_others_in_line(shop: Shop, error: Callable[[], BaseException], tell: Tell) -> None:
    """Those whose verbs the leader runs hear how it ended, and nobody is told another's error."""
    shop.enqueue(shop.new_job())
    told = {True: 0, False: 0}
    others: list[tuple[NewJob, Entry[Any]]] = []

    def run() -> NewJob:
        shop.enqueue(job := shop.new_job())
        return job

    def put_in_line() -> None:
        others.clear()
        for job in (shop.new_job(), shop.new_job()):
            entry = Entry(shop.backend.verbs.enqueue([job]))
            others.append((job, shop.writer().put_in_line(entry)))

    put_in_line()
    for outcome in at_every_place(run, error=error):
        finishing = [finish(shop.writer(), entry) for _, entry in others]
        for (job, _), failure in zip(others, (wait() for wait in finishing), strict=True):
            assert failure is not None or shop.holds(job), outcome
            assert "nothing of it is stored" not in str(failure) or not shop.holds(job), outcome
            told[failure is None] += 1
        if outcome.error is None:
            assert shop.holds(outcome.answer)
        shop.check_free()
        put_in_line()
    for _, entry in others:
        shop.writer().withdraw(entry)
    assert min(told.values()) > 60, told
    tell(f"{sum(told.values())} others in line, {told[True]} of them told that they are stored")


def finish(writer: GroupWriter, entry: Entry[Any]) -> Callable[[], BaseException | None]:
    """See a verb through in a thread; return what waits for its outcome, and returns its error."""
    raised: list[BaseException] = []

    def work() -> None:
        try:
            writer.finish(entry)
        except StoreUnavailableError as error:
            raised.append(error)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()

    def wait() -> BaseException | None:
        thread.join(PATIENCE)
        assert not thread.is_alive(), "a caller in line waits for ever"
        return raised[0] if raised else None

    return wait


def test_the_first_call(quick_path: Path, error: Callable[[], BaseException], tell: Tell) -> None:
    """While files are made and opened; the same store works afterwards, and its file is sound."""
    seen = 0
    shops = [Shop(quick_path / "0.db")]
    for outcome in at_every_place(lambda: shops[-1].enqueue(NewJob("", "task", b"")), error=error, step=STEP):
        shop = shops[-1]
        shops.append(Shop(quick_path / f"{len(shops)}.db"))
        shop.enqueue(job := shop.new_job())
        assert shop.holds(job), outcome
        shop.check_free()
        assert shop.look("PRAGMA quick_check") == [("ok",)]
        shop.close()
        for file in quick_path.glob(f"{shop.path.name}*"):
            if file.is_file():
                file.unlink()
        seen += 1
    assert seen > sizes(short=60, full=400)
    tell(f"{seen} places of a first call")


def test_reads(shop: Shop, error: Callable[[], BaseException], tell: Tell) -> None:
    """A read that is interrupted leaves nothing behind: the next one has the right answer."""
    shop.enqueue(first := shop.new_job())
    shop.check_free()
    seen, files = 0, open_files()
    for outcome in at_every_place(lambda: shop.backend.run(shop.backend.verbs.get(first.id)), error=error):
        assert outcome.error is not None or outcome.answer.id == first.id
        shop.enqueue(job := shop.new_job())
        found = shop.backend.run(shop.backend.verbs.get(job.id))
        assert found is not None, outcome
        assert found.payload == job.payload, outcome
        seen += 1
    gc.collect()
    assert open_files() <= files + 8  # SQLite keeps some of a closed connection, to use them again
    assert seen > 50
    tell(f"{seen} places of a read")


@pytest.mark.filterwarnings("ignore:coroutine .* was never awaited:RuntimeWarning")
def test_an_async_caller(shop: Shop, error: Callable[[], BaseException], tell: Tell) -> None:
    """The threads that write and read for event loops go on, whenever the first or a later call is interrupted."""
    shop.enqueue(shop.new_job())
    seen = 0
    for is_first in (False, True):
        backends = [shop.backend]

        def run() -> None:
            asyncio.run(backends[-1].arun(backends[-1].verbs.pause("mail")))  # noqa: B023 - it is run at once

        for outcome in at_every_place(run, error=error, step=STEP if is_first else 1):
            job = shop.new_job()
            assert asyncio.run(enqueue_and_read(backends[-1], job)) == job.payload, outcome
            seen += 1
            if is_first:
                backends.append(SqliteBackend(shop.path))
                if backends[-2] is not shop.backend:
                    backends[-2].close()
        if is_first:
            backends[-1].close()
    assert seen > 20
    tell(f"{seen} places of a call of an event loop")


async def enqueue_and_read(backend: SqliteBackend, job: NewJob) -> bytes:
    async with asyncio.timeout(PATIENCE):
        await backend.arun(backend.verbs.enqueue([job]))
        found = await backend.arun(backend.verbs.get(job.id))
    assert found is not None
    return found.payload


FORKS = """
import sys
sys.path[:0] = sys.argv[2].split(":")
from interruptions import TimeIsUpError, at_every_place
from standfast.model.job import NewJob
from standfast.stores.sqlite import connect as forks
from standfast.stores.sqlite.store import SqliteBackend
sys.unraisablehook = lambda _: None  # what is raised in what a fork calls is told there, and the fork goes on
forks.FORK_PATIENCE = 3600.0
step = int(sys.argv[3])
backend = SqliteBackend(sys.argv[1])
number = 0

def enqueue():
    global number
    number += 1
    backend.run(backend.verbs.enqueue([NewJob(f"{os.getpid()}-{number}", "task", b"")]))

def fork_well():
    assert well(fork(enqueue))

enqueue()
kinds = (TimeIsUpError, KeyboardInterrupt)
seen = [0, 0]
for outcome in at_every_place(enqueue, error=lambda: kinds[seen[0] % 2](), step=step):
    fork_well()
    enqueue()
    seen[0] += 1
for outcome in at_every_place(fork_well, error=lambda: kinds[seen[1] % 2](), step=1):
    fork_well()
    enqueue()
    seen[1] += 1
backend.close()
assert seen[0] > 60 / step and seen[1] > 10, seen
"""


def test_forks_after_it(quick_path: Path) -> None:
    """A fork after an interruption waits for nobody, and its child can use the store; so one interrupted itself."""
    here = Path(__file__).parent
    run_forking(FORKS, quick_path / "jobs.db", f"{here.parent}:{here}", str(STEP))


def test_real_signals_while_others_write(shop: Shop, tell: Tell, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each signal raises somewhere in a call of the main thread; four threads write all the while."""
    # Also in what Python calls where something goes out of use: it is told there and goes no further. Pytest would
    # keep what it is told, and with it the connections in those frames.
    monkeypatch.setattr(sys, "unraisablehook", lambda _: None)
    shop.enqueue(shop.new_job())
    own = Signalled(shop)
    writers = [Writer(shop.backend, name) for name in "abcd"]
    with own.handler():
        for number in range(SIGNALS):
            own.call(number)
            if number % 50 == 0:
                for writer in writers:
                    writer.check_goes_on()
    for writer in writers:
        writer.stop()
    stored = {name for (name,) in shop.look("SELECT id FROM standfast_job")}
    for writer in writers:
        assert stored >= {f"{writer.name}-{number}" for number in range(writer.acknowledged)}
    own.check()
    shop.check_free()
    assert shop.look("PRAGMA quick_check") == [("ok",)]
    assert shop.look("SELECT count(*) - count(DISTINCT id) FROM standfast_job") == [(0,)]
    gc.collect()
    assert open_files() < 100
    tell(
        f"{SIGNALS} signals, {own.raised} raised in a call; {sum(writer.acknowledged for writer in writers)} writes"
        f" beside, none lost; {own.stored_all_the_same} calls were stored before they raised"
    )


class Signalled:
    """Calls in the main thread, each with a signal somewhere in it whose handler raises."""

    def __init__(self, shop: Shop) -> None:
        self.shop = shop
        self.raised = self.stored_all_the_same = 0
        self.armed = False
        self._told: dict[str, bool] = {}
        self._paused: dict[str, bool] = {}
        self._spans = cycle([0.0003, 0.001, 0.003])
        self._random = random.Random(24)
        self._errors = cycle(ERRORS)

    @contextmanager
    def handler(self) -> Iterator[None]:
        before = signal.signal(signal.SIGALRM, self._handle)
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)

    def _handle(self, *_: object) -> None:
        if self.armed:
            self.armed = False
            error = next(self._errors)
            raise error

    def call(self, number: int) -> None:
        """Call again and again until the signal came in time."""
        while True:
            job = self.shop.new_job()
            pauses = number % 3 == 0
            verbs = self.shop.backend.verbs
            verb: Any = verbs.pause(job.id) if pauses else verbs.enqueue([job])
            told = self._is_told(lambda verb=verb: self.shop.backend.run(verb))
            there = self._is_paused(job.id) if pauses else self.shop.holds(job)
            assert there or not told, "told as stored, and is not"
            (self._paused if pauses else self._told)[job.id] = there
            if not told:
                self.raised += 1
                self.stored_all_the_same += there
                return

    def check(self) -> None:
        """See that nothing ran later."""
        stored = {name for (name,) in self.shop.look("SELECT id FROM standfast_job")}
        assert {name: name in stored for name in self._told} == self._told
        assert {name: self._is_paused(name) for name in self._paused} == self._paused

    def _is_told(self, call: Callable[[], object]) -> bool:
        signal.setitimer(signal.ITIMER_REAL, self._random.uniform(0.00001, next(self._spans)))
        try:
            self.armed = True
            call()
            self.armed = False
        except ERRORS:
            return False
        return True

    def _is_paused(self, queue: str) -> bool:
        return bool(self.shop.look("SELECT 1 FROM standfast_queue WHERE name = ? AND paused_at NOT NULL", queue))


class Writer:
    """A thread that enqueues without a pause."""

    def __init__(self, backend: SqliteBackend, name: str) -> None:
        self.name = name
        self.acknowledged = 0
        self._backend = backend
        self._moved = threading.Event()
        self._over = False
        self.refused = "was interrupted"
        self._thread = threading.Thread(target=self._write, daemon=True)
        self._thread.start()

    def _write(self) -> None:
        while not self._over:
            try:
                self._backend.run(self._backend.verbs.enqueue([NewJob(self.next_id, "task", b"x")]))
            except StoreUnavailableError as error:  # of another thread's leader, which was interrupted
                self.refused = str(error)
                continue
            self.acknowledged += 1
            self._moved.set()

    @property
    def next_id(self) -> str:
        return f"{self.name}-{self.acknowledged}"

    def check_goes_on(self) -> None:
        self._moved.clear()
        assert self._moved.wait(PATIENCE), "a thread that writes is stuck, or has failed"
        assert "was interrupted" in self.refused

    def stop(self) -> None:
        self._over = True
        self._thread.join(PATIENCE)
        assert not self._thread.is_alive()


def is_taken(folder: Path) -> bool:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))
