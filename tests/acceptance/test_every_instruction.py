"""An exception at any instruction: whatever is interrupted, nobody is told what is not so, and nobody is stuck.

A signal's handler may raise wherever the interpreter looks for signals. Each test runs one thing again and again,
and raises at the first such place, then at the next, and so on. `make prove NAME=every_instruction` tries every
place; the short form tries some of them.
"""

import asyncio
import gc
import os
import signal
import subprocess
import sys
import threading
import time
import traceback
from contextlib import contextmanager, suppress
from pathlib import Path
from random import Random

import pytest
from fleet import PROVE, sizes
from tests.interruptions import ALONG_THE_WAY, OURS, Interrupted, TimeIsUpError, at_every_place
from tests.unit.durable.desk import Desk

from standfast import Exponential, Retries, Standfast, StandfastError
from standfast.durable.lockstate import look_at_all
from standfast.model.concurrency import OnDemandThread
from standfast.model.job import ClaimRef
from standfast.model.states import State
from standfast.worker import claim_log as notes_module
from standfast.worker.claim_log import ClaimLog, ClaimLogFile, ClaimLogFileReader, read_claim_log

PATIENCE = 10.0
"""Seconds in which something comes that has to come; no test takes so long."""

STEP = sizes(short=7, full=1)
ERRORS = sizes(short=(TimeIsUpError,), full=(TimeIsUpError, SystemExit, KeyboardInterrupt, MemoryError))

pytestmark = [
    pytest.mark.usefixtures("own_leavings"),
    pytest.mark.timeout(1800 if PROVE else 120),
    # Python says so where an exception came before a coroutine's first step, or a thread's.
    pytest.mark.filterwarnings("ignore:coroutine .* was never awaited"),
    pytest.mark.filterwarnings("ignore:Exception ignored in"),
]

ROOT = Path(__file__).parents[2]
STORES = f"{OURS}{os.sep}stores{os.sep}"


def beside_the_store(file):
    """Tell whether places count: those of ours, and of what we call, but none below a call of the store.

    What becomes of that is tested with each store.
    """
    if not (file.startswith(OURS) or file in ALONG_THE_WAY):
        return False
    return not in_the_store(sys._getframe(1))


def in_the_store(frame):
    files = (each.f_code.co_filename for each, _ in traceback.walk_stack(frame))
    return any(file.startswith(STORES) and not file.endswith("waiter.py") for file in files)


def any_of_ours(frame):
    return any(each.f_code.co_filename.startswith(OURS) for each, _ in traceback.walk_stack(frame))


EVERY_ERROR = pytest.mark.parametrize("error", ERRORS)


def ours_beside_the_store(file):
    """Tell the same of our own files alone: an event loop loses what is raised in its own bookkeeping."""
    return file != threading.__file__ and beside_the_store(file)


def interrupted(run, error, within=beside_the_store):
    """Yield where each run was interrupted, and how it ended; nothing of it is kept from the collector."""
    for outcome in at_every_place(run, within, error, 1, STEP):
        if outcome.error is not None:
            traceback.clear_frames(outcome.error.__traceback__)
            assert told(outcome.error, error), outcome
        gc.collect()
        yield Interrupted(outcome.at, outcome.answer, None if outcome.error is None else error())


def told(raised, error):
    """Tell whether a caller heard of the interruption, and of nothing else."""
    while raised is not None:
        if isinstance(raised, error):
            return True
        raised = raised.__context__
    return False


@contextmanager
def not_yet():
    """Prepare something without an interruption."""
    trace = sys.gettrace()
    sys.settrace(None)
    try:
        yield
    finally:
        sys.settrace(trace)


def wait_until(condition, what):
    """Wait for something that others bring about."""
    give_up_at = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < give_up_at, what
        time.sleep(0.002)


@pytest.fixture
def app(quick_path):
    with Standfast(f"sqlite:///{quick_path / 'jobs.db'}") as app:
        app.prepare()
        yield app


def roll(app, name="a"):
    return app.call(look_at_all(app.verbs))[1].get(name)


def nobody_has_it(app, at):
    """Check that a lock is given back and renewed no more, and that nobody stands in its line."""
    wait_until(lambda: not app.keepers().held(), f"after {at} it is renewed for nobody")
    wait_until(lambda: not (roll(app) and (roll(app).holders or roll(app).line)), f"after {at} nobody gave it back")


@EVERY_ERROR
def test_a_block_of_a_lock(app, error):
    """Interrupted anywhere, a block that has ended holds nothing, in the store or for the keeper."""

    def block():
        with app.lock("a") as lock:
            assert lock.held

    for outcome in interrupted(block, error):
        nobody_has_it(app, outcome.at)


@EVERY_ERROR
def test_an_object_that_is_acquired_and_released(app, error):
    """An object whose call was interrupted holds its lock or does not, as it says, and can be used again."""
    lock = app.lock("a")

    def both():
        assert lock.acquire(timeout=PATIENCE)
        lock.release()

    for outcome in interrupted(both, error):
        if lock.held:
            assert roll(app).holders, outcome
            lock.release()
        nobody_has_it(app, outcome.at)
        both()


@EVERY_ERROR
def test_one_who_waits_for_a_lock(app, error):
    """Who is interrupted while it waits leaves the line, and takes no place that nobody knows of."""
    with app.lock("a"):

        def wait():
            assert not app.lock("a").acquire(timeout=0.02)

        for outcome in interrupted(wait, error):
            wait_until(lambda: not roll(app).line, f"after {outcome.at} one stands in line who has gone")
            assert len(roll(app).holders) == 1, outcome


@EVERY_ERROR
def test_a_block_of_a_lock_on_an_event_loop(app, error):
    """The same for `async with`."""

    async def block():
        async with app.lock("a") as lock:
            assert lock.held

    for outcome in interrupted(lambda: asyncio.run(block()), error, ours_beside_the_store):
        nobody_has_it(app, outcome.at)


@EVERY_ERROR
def test_a_handle_that_waits(app, error):
    """Who is interrupted while it waits for a job watches it no more, and others get their own answers."""

    @app.task
    def work() -> None: ...

    handle = work.enqueue()
    other = work.enqueue()

    def wait():
        with pytest.raises(StandfastError):
            handle.result(timeout=0.02)

    for outcome in interrupted(wait, error):
        wait_until(lambda: not app.waiter.watching, f"after {outcome.at} a job is watched for nobody")
    ends = []
    waiting = threading.Thread(target=lambda: ends.append(other.cancel() and waits_to_its_end(other)))
    waiting.start()
    waiting.join(PATIENCE)
    assert ends == ["JobCancelledError"]


def waits_to_its_end(handle):
    try:
        handle.result(timeout=PATIENCE)
    except StandfastError as error:
        return type(error).__name__


@EVERY_ERROR
def test_closing_while_others_wait(quick_path, error):
    """However a close is interrupted, whoever waits for a job hears of it, and the app can be used again."""
    app = Standfast(f"sqlite:///{quick_path / 'jobs.db'}")

    @app.task
    def work() -> None: ...

    handle = work.enqueue()
    ends = []

    def close():
        with not_yet():
            waiting.append(threading.Thread(target=lambda: ends.append(waits_to_its_end(handle)), daemon=True))
            waiting[-1].start()
            wait_until(lambda: app.waiter.watching, "it watches")
        app.close()

    waiting = []
    for outcome in interrupted(close, error):
        app.close()
        for each in waiting:
            each.join(PATIENCE)
            assert not each.is_alive(), f"after {outcome.at} one waits for a closed app"
        waiting.clear()
        assert handle.job().id == handle.id
    assert set(ends) == {"StoreError"}


@EVERY_ERROR
def test_the_first_use_of_an_app(quick_path, error):
    """An app whose opening was interrupted opens at the next use, once."""
    url = f"sqlite:///{quick_path / 'jobs.db'}"
    Standfast(url).prepare()
    app = None

    def use():
        nonlocal app
        app = Standfast(url)
        app.prepare()
        app.waiter.watching  # noqa: B018
        app.keepers()

    for outcome in interrupted(use, error):
        if app is not None:
            beside = threading.Thread(target=app.prepare, daemon=True)
            beside.start()
            beside.join(PATIENCE)
            assert not beside.is_alive(), f"after {outcome.at} nobody can open the store"
            app.close()


@EVERY_ERROR
def test_the_thread_of_an_attendant(error):
    """Whoever calls next has one that attends, and never two at a time."""

    class Owner:
        def __init__(self):
            self.wake = threading.Event()
            self.attendant = OnDemandThread("tested", self.live, lambda _: None)
            self.todo = 0
            self.at_work = 0

        def live(self):
            self.at_work += 1
            assert self.at_work == 1, "two attend at a time"
            self.attendant.attend(self.wake.set)
            while True:
                with self.attendant.lock:
                    if not self.todo:
                        self.attendant.leave()
                        break
                    self.todo = 0
                self.wake.wait(0.001)
                self.wake.clear()
            self.at_work -= 1

    owner = Owner()

    def call():
        with owner.attendant.lock:
            owner.todo += 1
            owner.attendant.call()

    for outcome in interrupted(call, error):
        call()
        wait_until(lambda: not owner.todo, f"after {outcome.at} nobody attends")
        owner.attendant.join()


A, B, C = (ClaimRef(f"0191-{name}", number) for number, name in enumerate("abc"))


@pytest.mark.parametrize("room", [256 * 1024, 10])
@EVERY_ERROR
def test_the_notes_file(tmp_path, monkeypatch, error, room):
    """What is noted after an interruption is true: nothing runs or is held that does not, nothing is left out."""
    monkeypatch.setattr(notes_module, "COMPACT_AT", room)
    path = tmp_path / "child.notes"
    log = pen = None

    def note():
        pen.answered(2, [B])
        pen.started(B)
        pen.returned(B)
        pen.ended([B])

    def begun():
        nonlocal log, pen
        log = ClaimLogFile(path)
        pen = ClaimLog(log)
        pen.answered(1, [A])
        pen.started(A)

    begun()
    for outcome in interrupted(note, error):
        before = read_claim_log(ClaimLogFileReader(path))
        assert A in before.running, f"after {outcome.at} one that runs would be given to others"
        assert before.held <= {A, B}
        # Whoever was interrupted gives up what it had in hand, as an attempt does that has failed.
        pen.ended([B])
        pen.answered(3, [C])
        pen.started(C)
        noted = read_claim_log(ClaimLogFileReader(path))
        assert (noted.closed_call, noted.held, noted.running) == (3, {A, C}, {A, C}), f"after {outcome.at}"
        pen.returned(A)
        pen.ended([C])
        noted = read_claim_log(ClaimLogFileReader(path))
        assert (noted.held, noted.running) == ({A}, set()), f"after {outcome.at}"
        log.close()
        begun()


@pytest.mark.parametrize("room", [256 * 1024, 10])
@EVERY_ERROR
def test_claims_whose_note_was_interrupted(tmp_path, monkeypatch, error, room):
    """Their worker does not get them: so they are not held, or beats would keep them from others for ever."""
    monkeypatch.setattr(notes_module, "COMPACT_AT", room)
    path = tmp_path / "child.notes"
    log = ClaimLogFile(path)
    pen = ClaimLog(log)

    def note():
        pen.answered(2, [B])

    for outcome in at_every_place(note, error=error):
        pen.answered(3, [C])
        expected = {B, C} if outcome.error is None else {C}
        assert read_claim_log(ClaimLogFileReader(path)).held == expected, f"after {outcome.at}"
        log.close()
        log = ClaimLogFile(path)
        pen = ClaimLog(log)


@EVERY_ERROR
def test_a_step(error):
    """What is stored is not done again, in this run or another, and what a step returned is stored."""
    desk, attempts = None, []

    def effect() -> str:
        assert "step:pay" not in desk.memos, "it is done again"
        attempts[-1].append("paid")
        return "receipt"

    def run():
        nonlocal desk, attempt
        with not_yet():
            desk, attempt = Desk(), None
            attempts.append([])
            attempt = desk.attempt()
        value = attempt.context.step("pay", effect, retry=Retries(3, Exponential(base=0.001)))
        assert "step:pay" in desk.memos
        return value

    attempt = None
    for outcome in interrupted(run, error, ours_beside_the_store):
        if outcome.error is None:
            assert outcome.answer == "receipt"
        if desk is not None and attempt is not None:
            assert not attempt.durable.busy, f"after {outcome.at} it seems to run"
            assert attempt.context.idempotency_key == desk.context().idempotency_key, "in the step"
            assert desk.context().step("pay", effect) == "receipt"


@EVERY_ERROR
def test_a_wait(error):
    """A signal is taken once, by a wait that is told of it or that a later run repeats."""
    desk = attempt = None

    def run():
        nonlocal desk, attempt
        with not_yet():
            desk = Desk()
            desk.signal("paid", b'"yes"')
            attempt = desk.attempt()
        return attempt.context.wait_for("paid")

    for outcome in interrupted(run, error, ours_beside_the_store):
        if attempt is not None:
            if outcome.error is None:
                assert outcome.answer == "yes"
            assert desk.context().wait_for("paid") == "yes", f"after {outcome.at} the signal is lost"


# -- real signals ------------------------------------------------------------------------------------------------

SIGNALS = sizes(short=150, full=10_000)


def test_real_signals(app):
    """However many signals interrupt locks, waits and steps, each of them does what it says at the next call."""
    random, lock, raised = Random(24), app.lock("a"), 0

    @app.task
    def work() -> None: ...

    handle = work.enqueue()

    def handler(_number, frame):
        if in_the_store(frame) or not any_of_ours(frame):
            signal.setitimer(signal.ITIMER_REAL, 0.0005)  # a little later
        else:
            raise TimeIsUpError

    def something():
        with app.lock("a"):
            pass
        if lock.acquire(timeout=PATIENCE):
            lock.release()
        with suppress(StandfastError):
            handle.result(timeout=0.001)
        assert Desk().context().step("pay", str) == ""

    before = signal.signal(signal.SIGALRM, handler)
    try:
        while raised < SIGNALS:
            try:
                try:
                    signal.setitimer(signal.ITIMER_REAL, random.uniform(0.0001, 0.01))
                    something()
                finally:
                    signal.setitimer(signal.ITIMER_REAL, 0)
            except Exception as error:
                if not told(error, TimeIsUpError):
                    raise
                traceback.clear_frames(error.__traceback__)
                raised += 1
            if lock.held:
                lock.release()
    finally:
        signal.signal(signal.SIGALRM, before)
    nobody_has_it(app, "all signals")
    wait_until(lambda: not app.waiter.watching, "a job is watched for nobody")
    something()


# -- SIGTERM -----------------------------------------------------------------------------------------------------

HOST = """
import os, signal, sys, threading
from standfast import Context, Standfast
from standfast.hosts import Host
from standfast.hosts.binding import leave_in_order
from tests.interruptions import OURS, interrupted_at

app = Standfast(os.environ["JOBS"])

@app.task(max_attempts=1)
def quick() -> int:
    return 7

@app.task(max_attempts=3)
def hold(ctx: Context) -> None:
    while ctx.fence == 1 and not ctx.cancelled:
        ctx.sleep(0.01)
    ctx.raise_if_cancelled()

def serve():
    with Host(app, required=True, grace=10):
        print(hold.enqueue().id, flush=True)
        with app.lock("a"):
            handle = quick.enqueue()
            print(handle.id, flush=True)
            assert handle.result(timeout=60) == 7

def within(file):
    frame = sys._getframe(1)
    while frame is not None:
        if frame.f_code.co_filename.startswith((OURS + "/stores/", OURS + "/settings.py", OURS + "/hosts/host.py")):
            return False
        frame = frame.f_back
    return file.startswith(OURS)

def end():
    os.kill(os.getpid(), signal.SIGTERM)
    return SystemExit(128 + signal.SIGTERM)  # where its handler has not raised by now

if __name__ == "__main__":
    leave_in_order()
    outcome = interrupted_at(int(sys.argv[1]), serve, within, end)
    print("at", outcome.at, flush=True)
    if outcome.error is not None:
        raise outcome.error
"""

PLACES = sizes(short=(85, 250), full=range(1, 1000, 3))


def test_a_host_that_is_told_to_end(tmp_path, quick_path):
    """SIGTERM at any place ends a host's process in order: with its status, its jobs given back, without noise."""
    (tmp_path / "hosting.py").write_text(HOST)
    url = f"sqlite:///{quick_path / 'jobs.db'}"
    app = Standfast(url)
    environment = {**os.environ, "JOBS": url, "PYTHONPATH": os.pathsep.join([str(tmp_path), str(ROOT)])}
    for number in PLACES:
        done = subprocess.run(
            [sys.executable, "-m", "hosting", str(number)],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        *ids, at = done.stdout.split("\n")[:-1]
        assert done.returncode == (0 if at == "at None" else 128 + signal.SIGTERM), (number, done)
        assert "Traceback" not in done.stderr, (number, at, done.stderr)
        for job in [app.handle(each).job() for each in ids]:
            assert job.crashes == 0, (number, at, job)
            assert job.state in {State.READY, State.COMPLETED, State.SCHEDULED}, (number, at, job)
        assert not (roll(app) and roll(app).holders), (number, at)
        if at == "at None":
            break
    app.close()
