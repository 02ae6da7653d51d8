"""One thread looks for all who wait: seldom, at once when the bell rings, and only while somebody waits."""

import asyncio
import concurrent.futures._base as futures
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from weakref import WeakSet

import pytest
from tests.interruptions import OURS, TimeIsUpError, at_every_place

from standfast.errors import JobNotFoundError, SchemaError, StandfastError, StoreError, StoreUnavailableError
from standfast.model.job import Glance, NewJob
from standfast.model.states import FINAL, State
from standfast.stores import waiter as rounds
from standfast.stores.contract import cancel_job
from standfast.stores.memory.store import MemoryBackend
from standfast.stores.sqlite.store import SqliteBackend
from standfast.stores.verb import Tone, Verb
from standfast.stores.waiter import JobPoller, JobWait, Waiter

LONG = 30.0
"""Longer than any test: what comes within it came because of something."""

AT_FIRST = 2
"""So many looks a first watch causes: one at once, and one when the bell is open."""


class Watched:
    """A store that counts the looks at it, and fails when it is told to."""

    def __init__(self, backend: MemoryBackend | SqliteBackend) -> None:
        self._backend = backend
        self.verbs, self.bell = backend.verbs, backend.bell
        self.looks = 0
        self._looked = threading.Condition()
        self.trouble: Exception | None = None

    def run(self, verb: Verb):
        if verb.name == "glance":
            with self._looked:
                self.looks += 1
                self._looked.notify_all()
            if self.trouble is not None:
                verb.steps.close()
                raise self.trouble
        return self._backend.run(verb)

    def wait_for_looks(self, looks: int) -> None:
        """Return once so many have begun in all."""
        with self._looked:
            assert self._looked.wait_for(lambda: self.looks >= looks, LONG)

    def wait_for_looks_more(self, looks: int) -> None:
        """Return once so many more have begun."""
        self.wait_for_looks(self.looks + looks)

    def close(self) -> None:
        self._backend.close()


@pytest.fixture(params=["memory", "sqlite"])
def backend(request, tmp_path: Path) -> Iterator[Watched]:
    backend = Watched(MemoryBackend() if request.param == "memory" else SqliteBackend(tmp_path / "jobs.db"))
    backend.run(backend.verbs.enqueue([NewJob(name, "task", b"") for name in ("a", "b", "c")]))
    yield backend
    backend.close()


@pytest.fixture
def waiter(backend: Watched) -> Iterator[Waiter]:
    waiter = Waiter(backend)
    yield waiter
    waiter.close()


@pytest.fixture
def no_polls(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let only the bell make the waiter look."""
    monkeypatch.setattr(rounds, "FIRST_PAUSE", LONG)
    monkeypatch.setattr(rounds, "LONGEST_PAUSE", LONG)


def is_final(seen: Glance) -> bool:
    return seen.state in FINAL


def thread_of(waiter: Waiter) -> threading.Thread | None:
    return waiter._lookouts[os.getpid()]._attendant._thread


@pytest.mark.usefixtures("no_polls")
def test_the_bell_ends_a_watch(backend: Watched, waiter: Waiter) -> None:
    watch, other = waiter.watch("a", is_final), waiter.watch("b", is_final)
    assert not watch.ended(0.05)
    backend.run(cancel_job(backend.verbs, "a"))
    assert watch.ended(LONG)
    assert watch.outcome().state is State.CANCELLED
    assert not other.ended(0)
    assert waiter.watching == 1


def test_what_no_bell_tells_is_seen_all_the_same(backend: Watched, waiter: Waiter, monkeypatch) -> None:
    monkeypatch.setattr(type(backend.bell), "ring", lambda *_: None)
    watch = waiter.watch("a", is_final)
    backend.wait_for_looks(AT_FIRST)
    backend.run(cancel_job(backend.verbs, "a"))
    assert watch.ended(LONG)


@pytest.mark.usefixtures("no_polls")
def test_what_ended_before_anyone_listened_is_not_missed(backend: Watched, waiter: Waiter, monkeypatch) -> None:
    """The job ends after the first look and before the ear is open: nobody hears it, and it is looked at again."""
    listen = type(backend.bell).listen

    def end_first(bell, tone: Tone):
        backend.run(cancel_job(backend.verbs, "a"))
        return listen(bell, tone)

    monkeypatch.setattr(type(backend.bell), "listen", end_first)
    assert waiter.watch("a", is_final).ended(LONG)


def test_a_bell_that_cannot_be_opened_is_tried_again(backend: Watched, waiter: Waiter, monkeypatch) -> None:
    listen, tries = type(backend.bell).listen, []

    def fail_first(bell, tone: Tone):
        tries.append(tone)
        if len(tries) == 1:
            raise StoreUnavailableError("locked")
        return listen(bell, tone)

    monkeypatch.setattr(type(backend.bell), "listen", fail_first)
    watch = waiter.watch("a", is_final)
    while tries != [Tone.RESULT] * 2:
        backend.wait_for_looks_more(1)
    backend.run(cancel_job(backend.verbs, "a"))
    assert watch.ended(LONG)


def test_a_job_that_is_not_there_ends_its_own_watch_alone(waiter: Waiter) -> None:
    missing, present = waiter.watch("nowhere", is_final), waiter.watch("a", is_final)
    assert missing.ended(LONG)
    with pytest.raises(JobNotFoundError, match="nowhere"):
        missing.outcome()
    assert not present.ended(0)


def test_a_store_that_is_away_is_waited_for(backend: Watched, waiter: Waiter) -> None:
    backend.trouble = StoreUnavailableError("away")
    watch = waiter.watch("a", is_final)
    backend.wait_for_looks(3)
    assert not watch.ended(0)
    backend.trouble = None
    backend.run(cancel_job(backend.verbs, "a"))
    assert watch.ended(LONG)
    assert watch.outcome().state is State.CANCELLED


@pytest.mark.parametrize(
    ("trouble", "raised"), [(SchemaError("of tomorrow"), SchemaError), (ZeroDivisionError("a bug"), StoreError)]
)
def test_what_waiting_does_not_mend_is_told_to_all(
    backend: Watched, waiter: Waiter, trouble: Exception, raised: type[StandfastError]
) -> None:
    """Each has an error of its own, and whoever comes later is served again."""
    watches = [waiter.watch("a", is_final), waiter.watch("b", is_final)]
    backend.wait_for_looks(AT_FIRST)
    backend.trouble = trouble
    errors = [error_of(watch) for watch in watches]
    assert [type(error) for error in errors] == [raised, raised]
    assert all(str(trouble) in str(error) for error in errors)
    assert errors[0] is not errors[1]
    backend.trouble = None
    backend.run(cancel_job(backend.verbs, "a"))
    assert waiter.watch("a", is_final).ended(LONG)


def error_of(watch: JobWait) -> StandfastError:
    assert watch.ended(LONG)
    with pytest.raises(StandfastError) as caught:
        watch.outcome()
    return caught.value


def test_the_thread_leaves_when_nobody_waits_and_another_comes(
    backend: Watched, waiter: Waiter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rounds, "LINGER", 0.01)
    watch = waiter.watch("a", is_final)
    first = thread_of(waiter)
    assert first is not None
    assert first.daemon
    waiter.forget(watch)
    first.join(LONG)
    assert not first.is_alive()
    backend.run(cancel_job(backend.verbs, "a"))
    assert waiter.watch("a", is_final).ended(LONG)
    assert thread_of(waiter) is not first


def test_the_thread_stays_for_the_next(backend: Watched, waiter: Waiter) -> None:
    """One result after the other is asked for by most programs: they need no thread each."""
    threads = set()
    for name in ("a", "b", "c"):
        watch = waiter.watch(name, is_final)
        threads.add(thread_of(waiter))
        backend.run(cancel_job(backend.verbs, name))
        assert watch.ended(LONG)
    assert len(threads) == 1


@pytest.mark.usefixtures("no_polls")
def test_a_storm_of_rings_is_few_looks(backend: Watched, waiter: Waiter) -> None:
    watch = waiter.watch("a", is_final)
    backend.wait_for_looks(AT_FIRST)
    backend.looks, began = 0, time.monotonic()
    while time.monotonic() - began < 0.5:
        backend.bell.ring(Tone.RESULT)
    took = time.monotonic() - began
    assert 0 < backend.looks <= took / rounds.SPACING + rounds.AT_ONCE + 1
    backend.run(cancel_job(backend.verbs, "a"))
    assert watch.ended(LONG)


@pytest.mark.usefixtures("no_polls")
def test_rings_that_no_watch_needs_do_not_keep_the_thread(
    backend: Watched, waiter: Waiter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rounds, "LINGER", 0.1)
    watch = waiter.watch("a", is_final)
    backend.wait_for_looks(AT_FIRST)
    thread = thread_of(waiter)
    assert thread is not None
    waiter.forget(watch)
    give_up_at = time.monotonic() + LONG
    while thread.is_alive() and time.monotonic() < give_up_at:
        backend.bell.ring(Tone.RESULT)
    assert not thread.is_alive()


@pytest.mark.usefixtures("no_polls")
def test_a_newcomer_does_not_make_it_look_at_everyone(backend: Watched, waiter: Waiter, monkeypatch) -> None:
    asked: list[tuple[str, ...]] = []
    glance = type(backend.verbs).glance

    def note(verbs, ids):
        asked.append(tuple(sorted(ids)))
        return glance(verbs, ids)

    first = waiter.watch("a", is_final)
    backend.wait_for_looks(AT_FIRST)
    monkeypatch.setattr(type(backend.verbs), "glance", note)
    waiter.watch("nowhere", is_final).ended(LONG)
    assert asked == [("nowhere",)]
    backend.run(cancel_job(backend.verbs, "a"))
    assert first.ended(LONG)


def test_after_closing_nobody_can_wait(waiter: Waiter) -> None:
    watch = waiter.watch("a", is_final)
    thread = thread_of(waiter)
    waiter.close()
    assert thread is not None
    assert not thread.is_alive()
    assert "closed" in str(error_of(watch))
    with pytest.raises(StoreError, match="closed"):
        waiter.watch("a", is_final)
    waiter.close()


def test_a_close_lists_the_watches_under_the_lock(backend: Watched) -> None:
    """A caller whose time is up takes its watch out meanwhile: no list is read while it changes."""
    lookout = JobPoller(backend)
    is_locked = []

    class Watches(WeakSet[JobWait]):
        def __iter__(self) -> Iterator[JobWait]:
            is_locked.append(lookout._lock._is_owned())
            return super().__iter__()

    lookout._watches = Watches()
    lookout.closed = True
    lookout.look(at_all=False)
    assert is_locked == [True]


def test_threads_that_come_and_go_at_once_each_hear(backend: Watched, waiter: Waiter, monkeypatch) -> None:
    """Watches begin while the thread is about to leave: none is left alone."""
    monkeypatch.setattr(rounds, "LINGER", 0)
    backend.run(cancel_job(backend.verbs, "a"))
    heard = []

    def come_and_go() -> None:
        heard.extend(waiter.watch("a", is_final).ended(LONG) for _ in range(50))

    threads = [threading.Thread(target=come_and_go) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert heard == [True] * 200


async def test_a_watch_can_be_awaited(backend: Watched, waiter: Waiter) -> None:
    watch = waiter.watch("a", is_final)
    before = await watch.aended(0)
    await asyncio.to_thread(backend.run, cancel_job(backend.verbs, "a"))
    assert [before, await watch.aended(LONG), await watch.aended(0)] == [False, True, True]


@pytest.mark.parametrize("error", [TimeIsUpError, TimeoutError])
def test_a_watch_whose_wait_was_interrupted_anywhere_can_be_ended(error: type[Exception]) -> None:
    """A signal handler raises while a thread waits: it hears of that, and the one that looks is never stuck."""
    places = (OURS, threading.__file__, queue.__file__, futures.__file__)
    watch = JobWait("a", is_final)

    def wait() -> None:
        nonlocal watch
        watch = JobWait("a", is_final)
        assert not watch.ended(0.001)

    seen = Glance(State.COMPLETED, None)
    for outcome in at_every_place(wait, lambda file: file.startswith(places), error):
        assert isinstance(outcome.error, error) is (outcome.at is not None), outcome
        looks = threading.Thread(target=watch.end, args=(seen,), daemon=True)
        looks.start()
        looks.join(LONG / 10)
        assert not looks.is_alive(), f"after {outcome.at} the thread that looks waits for ever"
        assert watch.ended(0)


def test_a_time_limit_of_the_caller_ends_a_wait() -> None:
    """Its signal handler raises a TimeoutError, which is not the end of this wait's own time."""

    def limit(*_: object) -> None:
        raise TimeoutError("of the caller")

    before = signal.signal(signal.SIGALRM, limit)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        with pytest.raises(TimeoutError, match="of the caller"):
            JobWait("a", is_final).ended(LONG)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


FORK = """
import os, sys
from standfast import Standfast
from standfast.model.states import FINAL

app = Standfast(sys.argv[1])
@app.task
def work() -> int: return 7

handles = [work.enqueue() for _ in range(2)]
watch = app.waiter.watch(handles[0].id, lambda seen: seen.state in FINAL)
assert not watch.ended(0.1)
pid = os.fork()
if pid == 0:
    code = 1
    try:
        assert app.waiter.watching == 0
        other = app.waiter.watch(handles[1].id, lambda seen: seen.state in FINAL)
        handles[1].cancel()
        assert other.ended(30)
        handles[0].cancel()
        app.close()
        code = 0
    finally:
        os._exit(code)
assert os.waitpid(pid, 0)[1] == 0
assert watch.ended(30), "the parent's own watch goes on"
app.close()
"""


def test_a_forked_child_waits_for_itself(tmp_path: Path) -> None:
    """The child has no thread of its parent's, and what it does harms the parent's wait in no way."""
    # Newer Pythons warn of any fork in a process with threads; here that is the point.
    command = [
        sys.executable,
        "-W",
        "error",
        "-W",
        "ignore::DeprecationWarning",
        "-c",
        FORK,
        f"sqlite:///{tmp_path}/jobs.db",
    ]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("STANDFAST")}
    done = subprocess.run(command, env=environment, timeout=60, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
