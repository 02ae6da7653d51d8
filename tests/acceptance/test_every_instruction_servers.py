"""A signal handler may raise at any instruction of a call to a server: no answer goes to another, nobody is stuck.

The short form tries some places, and some hundred signals; `make prove NAME=every_instruction` all of them, and ten
thousand.
"""

import asyncio
import functools
import gc
import random
import signal
import threading
import time
from collections import Counter
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest
from shopfloor import PROVE

import standfast.stores.postgres
import standfast.stores.redis
from interruptions import ALONG_THE_WAY, OURS, TimeIsUpError, at_every_place
from standfast.errors import StoreError, StoreUnavailableError
from standfast.model.ids import new_job_id
from standfast.model.job import NewJob
from standfast.model.states import State
from standfast.stores.contract import count_states
from standfast.stores.postgres.store import PostgresBackend
from standfast.stores.postgres.url import POOL_SIZE
from standfast.stores.redis.store import RedisBackend
from standfast.stores.redis.url import Address as RedisAddress
from standfast.stores.threads import Reply
from standfast.stores.verb import Access

# What was being opened, begun or dropped when the handler raised is nobody's, and Python says so.
pytestmark = [
    pytest.mark.usefixtures("own_leavings"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

STEP = 1 if PROVE else 9
SIGNALS = 5_000 if PROVE else 150
"""Of each kind of caller."""

FEWER = SIGNALS if PROVE else 40
"""On an event loop: each of them costs all connections that are in use."""

LONG = 20.0
"""Seconds that only a call which is stuck exceeds."""

LIBRARY = str(Path(asyncio.__file__).parent.parent)
WAKES = Reply.wake.__code__
"""Takes a step of a task, as the event loop does. An exception there may cut short what asyncio does at the task's
end, and those who gather it would not hear of that: so it is where the event loop itself takes the step."""
FOLDERS = tuple(str(Path(store.__file__).parent) for store in (standfast.stores.redis, standfast.stores.postgres))
KINDS = {"exception": TimeIsUpError, "exit": SystemExit, "interrupt": KeyboardInterrupt, "memory": MemoryError}
RAISED = tuple(KINDS.values())


def in_reach(file):
    """Tell whether the places of a file count: those of the store and of what it runs through."""
    return file.startswith(OURS if PROVE else FOLDERS) or file in ALONG_THE_WAY


class Books:
    """What callers were told, compared with what the store holds."""

    def __init__(self, url):
        self.url = url
        self.is_redis = url.startswith("redis:")
        self.known = [_job(f"known {number}") for number in range(10)]
        self.sent, self.told = {}, set()
        self.wrong = Counter()
        with self.store() as backend:
            backend.run(backend.verbs.enqueue(self.known))

    @contextmanager
    def store(self, timeout=LONG):
        backend = (RedisBackend if self.is_redis else PostgresBackend)(self.url, timeout=timeout)
        try:
            yield backend
        finally:
            backend.close()

    def enqueue(self, backend):
        job = _job(f"job {len(self.sent)} {threading.get_ident()}")
        self.sent[job.id] = job
        self._take_down(job, backend.run(backend.verbs.enqueue([job])))

    async def aenqueue(self, backend):
        job = _job(f"job {len(self.sent)} of a loop")
        self.sent[job.id] = job
        self._take_down(job, await backend.arun(backend.verbs.enqueue([job])))

    def look(self, backend, number):
        job = self.known[number % len(self.known)]
        self._compare(job, backend.run(backend.verbs.get(job.id)))

    async def alook(self, backend, number):
        job = self.known[number % len(self.known)]
        self._compare(job, await backend.arun(backend.verbs.get(job.id)))

    def _take_down(self, job, answer):
        if answer in ({}, {job.id: job.id}):  # the latter where a call was sent again after its answer was lost
            self.told.add(job.id)
        else:
            self.wrong["enqueue"] += 1

    def _compare(self, job, answer):
        if answer is None or (answer.id, answer.payload) != (job.id, job.payload):
            self.wrong["get"] += 1

    def check(self):
        """Every job that was acknowledged is there, once, and whatever is there has its own arguments."""
        assert not self.wrong, self.wrong
        with self.store() as backend:
            found = {job_id: backend.run(backend.verbs.get(job_id)) for job_id in self.sent}
            stored = {job_id for job_id, job in found.items() if job is not None}
            assert self.told <= stored
            for job_id in stored:
                assert found[job_id].payload == self.sent[job_id].payload
            [queue] = backend.run(backend.verbs.queues())
            assert queue.states == {State.READY: len(stored) + len(self.known)}  # each of them once


def _job(what):
    return NewJob(id=new_job_id(), task="a", payload=f'{{"args":["{what}"]}}'.encode())


@pytest.fixture(params=["redis", "postgres"])
def books(request):
    return Books(request.getfixturevalue(f"{request.param}_url"))


@pytest.mark.parametrize("is_warm", [True, False], ids=["warm", "cold"])
@pytest.mark.parametrize("kind", KINDS)
def test_every_instruction_of_a_call(books, kind, is_warm, measured):
    """Wherever a thread is interrupted, it and others can call as before, and get what is theirs."""
    runs = Counter()
    with books.store() as warm:
        warm.run(count_states(warm.verbs))

        def call():
            with suppress(StoreError):
                if is_warm:
                    books.enqueue(warm)
                    books.look(warm, 3)
                else:
                    with books.store() as cold:
                        books.enqueue(cold)

        first = 1 + list(KINDS).index(kind)
        for outcome in at_every_place(call, in_reach, KINDS[kind], first=first, step=STEP * (1 if is_warm else 3)):
            runs[outcome.at is not None] += 1
            assert outcome.error is None or isinstance(outcome.error, RAISED), outcome
            del outcome
            for number in range(3):
                books.look(warm, number)
        gc.collect()  # an error may be part of a cycle, with the frames that it came through
        _lend_all(warm._engine(), warm._address)
    assert runs[True] > 10
    assert runs[False] == 1
    books.check()
    measured({"places": runs[True]})


def _lend_all(engine, address):
    """See that as many connections can be lent as before."""
    with ExitStack() as lent:
        if isinstance(address, RedisAddress):
            pool = engine._pools[Access.WRITE]
            for _ in range(16):
                lent.callback(pool.drop, pool.take(address.places[0]))
        else:
            for _ in range(POOL_SIZE):
                lent.enter_context(engine._jobs.lend(time.monotonic() + LONG))


@pytest.mark.parametrize("kind", KINDS)
def test_every_instruction_of_an_event_loop(books, kind, measured):
    """Calls that share a connection: who is interrupted hears that, all others get what is theirs or an error."""
    runs = Counter()
    first = 1 + list(KINDS).index(kind)
    with books.store() as backend:
        run = functools.partial(_crowd, books, backend)
        for outcome in at_every_place(run, in_reach, KINDS[kind], first=first, step=STEP * 4):
            runs[outcome.at is not None] += 1
            assert outcome.error is None, outcome
    assert runs[True] > 10
    assert runs[False] == 1
    books.check()
    measured({"places": runs[True]})


def _crowd(books, backend):
    """Call at once and again on a loop, which is run on when a handler's exception ends it."""
    loop = asyncio.new_event_loop()
    loop.set_exception_handler(lambda *_: None)
    calls = []

    async def make():
        calls.extend(asyncio.ensure_future(call) for call in _mixed(books, backend, 3))

    async def wait():
        done = asyncio.gather(*calls, return_exceptions=True)
        await asyncio.wait_for(asyncio.shield(done), LONG)
        for number in range(2):
            await books.alook(backend, number)

    try:
        _see_through(loop, make)
        _see_through(loop, wait)
        for call in calls:
            error = call.exception()
            assert error is None or isinstance(error, (*RAISED, StoreUnavailableError)), error
    finally:
        loop.close()


def _mixed(books, backend, number):
    calls = [books.aenqueue(backend) for _ in range(number)]
    return calls + [books.alook(backend, each) for each in range(number)]


def _see_through(loop, scene):
    while True:
        task = loop.create_task(scene())
        try:
            return loop.run_until_complete(task)
        except RAISED:
            continue
        except RuntimeError as error:  # of the loop, which the end of a scene that was cut short stops once more
            assert "stopped before" in str(error)  # noqa: PT017 - anything else is raised there


class Alarm:
    """Signals at random moments, whose handler raises while the main thread is at work for the store."""

    def __init__(self):
        self.raised = 0
        self._chance = random.Random(24)

    def __enter__(self):
        self._before = signal.signal(signal.SIGALRM, self._handle)
        self._next()
        return self

    def __exit__(self, *_):
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, self._before)

    def _next(self):
        signal.setitimer(signal.ITIMER_REAL, self._chance.uniform(0.00005, 0.002))

    def _handle(self, _number, frame):
        self._next()
        while frame is not None and (frame.f_code.co_filename.startswith(LIBRARY) or frame.f_code is WAKES):
            frame = frame.f_back
        if frame is not None and frame.f_code.co_filename.startswith(OURS):
            self.raised += 1
            raise TimeIsUpError


def test_every_instruction_of_threads_and_real_signals(books, measured):
    """The main thread is interrupted all the time, others call beside it."""
    with books.store() as backend, _busy(books, backend) as errors:
        with Alarm() as alarm:
            number = 0
            while alarm.raised < SIGNALS:
                number += 1
                try:
                    books.enqueue(backend)
                    books.look(backend, number)
                except (TimeIsUpError, StoreUnavailableError):
                    continue
        books.look(backend, 1)
    assert errors == []
    books.check()
    measured({"signals": alarm.raised, "rounds of calls": number, "acknowledged": len(books.told)})


def test_every_instruction_of_an_event_loop_and_real_signals(books, measured):
    """The event loop of the main thread is interrupted all the time, with many calls under way."""
    told = Counter()

    async def call(backend, number):
        try:
            async with asyncio.timeout(LONG):
                await (books.aenqueue(backend) if number % 2 else books.alook(backend, number))
        except (TimeIsUpError, StoreUnavailableError) as error:
            told[type(error).__name__] += 1
        else:
            told["answer"] += 1

    async def calls(backend):
        await asyncio.gather(*(call(backend, number) for number in range(40)), return_exceptions=True)

    with books.store() as backend, _busy(books, backend) as errors, asyncio.Runner() as runner:
        runner.get_loop().set_exception_handler(lambda *_: None)
        runner.run(calls(backend))
        told.clear()
        rounds = 0
        with Alarm() as alarm:
            while alarm.raised < FEWER:
                rounds += 1
                try:
                    runner.run(calls(backend))
                except TimeIsUpError:
                    continue
        assert told["TimeoutError"] == 0
        told_then = dict(told)
        runner.run(calls(backend))
        assert told["answer"] == told_then.get("answer", 0) + 40
    assert errors == []
    books.check()
    measured({"signals": alarm.raised, "rounds of 40 calls": rounds, **told_then})


@contextmanager
def _busy(books, backend):
    """Let other threads call all the while; give the list of what they did not expect."""
    is_over, errors = threading.Event(), []

    def call():
        try:
            number = 0
            while not is_over.is_set():
                number += 1
                books.enqueue(backend)
                books.look(backend, number)
                time.sleep(0.002)  # it is beside the point how much they do
        except Exception as error:  # noqa: BLE001 - the test looks at it
            errors.append(error)

    threads = [threading.Thread(target=call, daemon=True) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        yield errors
    finally:
        is_over.set()
        for thread in threads:
            thread.join(LONG)
            assert not thread.is_alive(), "a thread that calls beside is stuck"
