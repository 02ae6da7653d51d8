"""Group commit: a crowd of writers shares one transaction, and each still succeeds or fails by itself."""

import asyncio
import signal
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from msgspec import DecodeError

from interruptions import TimeIsUpError
from standfast.errors import JobNotFoundError, StoreError, StoreFullError, StoreUnavailableError
from standfast.model.job import NewJob
from standfast.model.states import State
from standfast.stores.contract import count_states
from standfast.stores.sqlite.connect import Connection
from standfast.stores.sqlite.engine import GROUP_LIMIT, Entry, GroupWriter
from standfast.stores.sqlite.store import SqliteBackend
from standfast.stores.verb import Access, Command, Query, Steps, Tone, Verb


def writer_of(backend: SqliteBackend) -> GroupWriter:
    backend.run(count_states(backend.verbs))
    return backend._engine()._writers[Access.WRITE]


def new_jobs(*names: str) -> list[NewJob]:
    return [NewJob(name, "task", b"") for name in names]


def total(backend: SqliteBackend) -> int:
    return sum(backend.run(count_states(backend.verbs)).values())


def statements_of(writer: GroupWriter) -> list[str]:
    seen: list[str] = []
    connection = writer._renew(None)
    connection.set_trace_callback(seen.append)
    writer._connection = connection
    return seen


def test_those_in_line_share_one_commit(backend: SqliteBackend) -> None:
    """Whoever leads runs all that stands in line, in one transaction."""
    writer = writer_of(backend)
    seen = statements_of(writer)
    entries = [writer.put_in_line(Entry(backend.verbs.enqueue(new_jobs(str(number))))) for number in range(5)]
    writer.finish(entries[-1])
    assert all(entry.done for entry in entries)
    assert seen.count("COMMIT") == 1
    assert total(backend) == 5


def test_one_verb_that_fails_harms_no_other(backend: SqliteBackend) -> None:
    """An error in one verb undoes that verb alone and is raised to its own caller alone."""

    def half_done() -> Steps[None]:
        yield from backend.verbs.enqueue(new_jobs("half")).steps
        raise JobNotFoundError("no such job")

    writer = writer_of(backend)
    first = writer.put_in_line(Entry(backend.verbs.enqueue(new_jobs("first"))))
    bad = writer.put_in_line(Entry(Verb("half_done", Access.WRITE, half_done())))
    last = writer.put_in_line(Entry(backend.verbs.enqueue(new_jobs("last"))))
    writer.finish(first)
    writer.finish(last)
    with pytest.raises(JobNotFoundError):
        writer.finish(bad)
    assert backend.run(backend.verbs.get("half")) is None
    assert total(backend) == 2


def test_a_single_verb_that_fails_leaves_nothing(backend: SqliteBackend) -> None:
    """Alone in its transaction, a verb that fails is undone too, and the next one runs."""

    def half_done() -> Steps[None]:
        yield from backend.verbs.enqueue(new_jobs("half")).steps
        raise JobNotFoundError("no such job")

    with pytest.raises(JobNotFoundError):
        backend.run(Verb("half_done", Access.WRITE, half_done()))
    backend.run(backend.verbs.enqueue(new_jobs("next")))
    assert total(backend) == 1


def test_a_failed_commit_fails_everybody(backend: SqliteBackend) -> None:
    """If the commit fails, no verb of the group reports success, and nothing of it is there."""

    class Refusing(Connection):
        def execute(self, sql: str, *args: Any) -> sqlite3.Cursor:
            if sql == "COMMIT":
                self.set_authorizer(None)
                error = sqlite3.OperationalError("database or disk is full")
                error.sqlite_errorcode = sqlite3.SQLITE_FULL
                raise error
            return super().execute(sql, *args)

    writer = writer_of(backend)
    backend.run(backend.verbs.pause("x"))
    assert writer._connection is not None
    refusing = Refusing(backend._files.jobs, isolation_level=None)
    refusing.leads_to = writer._connection.leads_to
    writer._connection = refusing
    entries = [writer.put_in_line(Entry(backend.verbs.enqueue(new_jobs(str(number))))) for number in range(3)]
    for entry in entries:
        with pytest.raises(StoreFullError):
            writer.finish(entry)
    assert total(backend) == 0
    backend.run(backend.verbs.enqueue(new_jobs("later")))
    assert total(backend) == 1


def test_an_interrupted_leader_leaves_nobody_waiting(backend: SqliteBackend) -> None:
    """Ctrl-C in the thread that leads raises there, and tells the others to try again."""

    def interrupted() -> Steps[None]:
        yield Command("SELECT 1")
        raise KeyboardInterrupt

    writer = writer_of(backend)
    other = writer.put_in_line(Entry(backend.verbs.enqueue(new_jobs("other"))))
    leader = writer.put_in_line(Entry(Verb("interrupted", Access.WRITE, interrupted())))
    with pytest.raises(KeyboardInterrupt):
        writer.finish(leader)
    with pytest.raises(StoreUnavailableError, match="nothing of it is stored"):
        writer.finish(other)
    assert total(backend) == 0


def test_after_a_commit_without_an_answer_the_others_are_told_of_the_doubt(backend: SqliteBackend) -> None:
    """Memory that runs out in the commit itself leaves open whether it is stored, and the others hear so."""

    class Forgetful(Connection):
        def execute(self, sql: str, *args: Any) -> sqlite3.Cursor:
            cursor = super().execute(sql, *args)
            if sql == "COMMIT":
                raise MemoryError
            return cursor

    writer = writer_of(backend)
    before = writer._renew(None)
    writer._connection = Forgetful(backend._files.jobs, isolation_level=None)
    writer._connection.leads_to = before.leads_to
    before.close()
    other = writer.put_in_line(Entry(backend.verbs.enqueue(new_jobs("other"))))
    with pytest.raises(MemoryError):
        backend.run(backend.verbs.enqueue(new_jobs("leader")))
    with pytest.raises(StoreUnavailableError, match="may be stored or not"):
        writer.finish(other)
    assert total(backend) == 2


def test_who_came_later_does_not_fail_with_the_first(
    tmp_path: Path, backend: SqliteBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A transaction that cannot begin fails those who waited for it from the start; who came later tries anew."""
    writer = writer_of(backend)
    other = sqlite3.connect(tmp_path / "jobs.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    late = []

    def comes_later(connection: Connection | None) -> Connection:
        monkeypatch.undo()
        late.append(writer.put_in_line(Entry(backend.verbs.enqueue(new_jobs("late")))))
        connection = writer._renew(connection)
        connection.execute("PRAGMA busy_timeout = 10")
        return connection

    monkeypatch.setattr(writer, "_renew", comes_later)
    early = [writer.put_in_line(Entry(backend.verbs.enqueue(new_jobs(name)))) for name in ("early", "also")]
    for entry in early:
        with pytest.raises(StoreUnavailableError, match="locked by another writer"):
            writer.finish(entry)
    assert not late[0].done
    other.execute("ROLLBACK")
    other.close()
    writer.finish(late[0])
    assert total(backend) == 1


def test_each_caller_has_an_error_of_its_own(backend: SqliteBackend, monkeypatch: pytest.MonkeyPatch) -> None:
    """What one caller notes on its error is not seen by another."""
    writer = writer_of(backend)

    def away(_: Connection | None) -> Connection:
        raise StoreUnavailableError("the disk is away")

    monkeypatch.setattr(writer, "_renew", away)
    errors = []
    for entry in [writer.put_in_line(Entry(backend.verbs.pause(queue))) for queue in "ab"]:
        with pytest.raises(StoreUnavailableError, match="the disk is away") as caught:
            writer.finish(entry)
        errors.append(caught.value)
    assert errors[0] is not errors[1]


def test_a_long_line_is_served_in_several_transactions(backend: SqliteBackend) -> None:
    """More verbs than fit one transaction are all run."""
    writer = writer_of(backend)
    entries = [writer.put_in_line(Entry(backend.verbs.enqueue(new_jobs(str(n))))) for n in range(GROUP_LIMIT + 1)]
    for entry in entries:
        writer.finish(entry)
    assert total(backend) == GROUP_LIMIT + 1


def test_many_threads_write_at_once(backend: SqliteBackend) -> None:
    """Threads that write together lose nothing."""

    def write(thread: int) -> None:
        for number in range(20):
            backend.run(backend.verbs.enqueue(new_jobs(f"{thread}-{number}")))

    threads = [threading.Thread(target=write, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert total(backend) == 160


async def test_async_callers_share_commits(backend: SqliteBackend) -> None:
    """Verbs awaited together stand in line at once."""
    writer = writer_of(backend)
    seen = statements_of(writer)

    verbs = [backend.verbs.enqueue(new_jobs(str(number))) for number in range(100)]
    await asyncio.gather(*(backend.arun(verb) for verb in verbs))
    assert total(backend) == 100
    assert seen.count("COMMIT") < 50


async def test_a_cancelled_caller_withdraws_its_verb(backend: SqliteBackend) -> None:
    """A verb that nobody has begun does not run once its caller was cancelled."""
    writer = writer_of(backend)

    task = asyncio.ensure_future(backend.arun(backend.verbs.enqueue(new_jobs("withdrawn"))))
    with writer._lead:
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    await backend.arun(backend.verbs.enqueue(new_jobs("later")))
    assert backend.run(backend.verbs.get("withdrawn")) is None
    assert backend.run(count_states(backend.verbs))[State.READY] == 1


async def test_a_cancelled_caller_leaves_when_what_was_begun_is_over(backend: SqliteBackend) -> None:
    """A verb that runs when its caller is cancelled is committed before the caller hears of it, and not later."""
    begun, go = threading.Event(), threading.Event()

    def slow() -> Steps[None]:
        yield Query("SELECT 1")
        begun.set()
        assert go.wait(60)
        yield from backend.verbs.enqueue(new_jobs("slow")).steps

    task = asyncio.ensure_future(backend.arun(Verb("slow", Access.WRITE, slow())))
    await asyncio.to_thread(begun.wait)
    task.cancel()
    for _ in range(10):
        await asyncio.sleep(0)
    assert not task.done()
    go.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert total(backend) == 1


@pytest.mark.parametrize("has_begun", [False, True])
def test_it_rings_for_what_is_stored(backend: SqliteBackend, *, has_begun: bool) -> None:
    """Workers hear of a verb that was begun when its caller left, and of no other."""

    def left() -> Steps[None]:
        entry.has_left = True
        yield from verb.steps

    rung: list[Tone] = []
    writer = writer_of(backend)
    writer._ring = rung.append
    verb = backend.verbs.enqueue(new_jobs("left"))
    entry = writer.put_in_line(Entry(Verb("left", Access.WRITE, left(), wakes=True)))
    entry.has_left = not has_begun
    writer.finish(writer.put_in_line(Entry(backend.verbs.pause("x"))))
    assert rung == [Tone.WORK] * has_begun
    assert total(backend) == has_begun


@contextmanager
def led_by_another(writer: GroupWriter, lead: Callable[[], None]) -> Iterator[None]:
    """Let another thread lead as soon as somebody stands in line; a signal raises in this one."""
    ready, over = threading.Event(), threading.Event()

    def work() -> None:
        with writer._lead:
            ready.set()
            while not (writer._line or over.wait(0.001)):
                pass
            lead()

    def raises(*_: object) -> None:
        raise TimeIsUpError

    before = signal.signal(signal.SIGUSR1, raises)
    thread = threading.Thread(target=work)
    thread.start()
    try:
        ready.wait()
        yield
    finally:
        over.set()
        thread.join()
        signal.signal(signal.SIGUSR1, before)


def interrupt_main_thread() -> None:
    signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGUSR1)


def test_an_interrupted_caller_withdraws_its_verb(backend: SqliteBackend) -> None:
    """Who is interrupted while another leads leaves at once, and what nobody has begun never runs."""
    writer, gone = writer_of(backend), threading.Event()

    def lead() -> None:
        interrupt_main_thread()
        assert gone.wait(60)

    with led_by_another(writer, lead):
        with pytest.raises(TimeIsUpError):
            backend.run(backend.verbs.enqueue(new_jobs("withdrawn")))
        gone.set()
    backend.run(backend.verbs.enqueue(new_jobs("later")))
    assert backend.run(backend.verbs.get("withdrawn")) is None
    assert total(backend) == 1


def test_an_interrupted_caller_leaves_when_what_was_begun_is_over(backend: SqliteBackend) -> None:
    """Whose verb another thread has begun is told nothing before it is committed: it does not run later."""
    writer, pause = writer_of(backend), threading.Event()

    def slow() -> Steps[None]:
        [other, _] = writer._line
        interrupt_main_thread()
        while not other.has_left:
            pause.wait(0.001)
        yield Command("INSERT INTO standfast_queue VALUES ('slow', 1)")

    def lead() -> None:
        entry = writer.put_in_line(Entry(Verb("slow", Access.WRITE, slow())))
        writer._run_group(entry)

    with led_by_another(writer, lead):
        with pytest.raises(TimeIsUpError):
            backend.run(backend.verbs.enqueue(new_jobs("begun")))
        assert total(backend) == 1


def test_an_exception_of_a_signal_is_not_told_to_another_caller(backend: SqliteBackend) -> None:
    """What a handler raises while a thread runs another's verb is raised there; the other caller may try again."""

    def interrupted() -> Steps[None]:
        yield Command("SELECT 1")
        raise TimeIsUpError

    writer = writer_of(backend)
    other = writer.put_in_line(Entry(Verb("interrupted", Access.WRITE, interrupted())))
    with pytest.raises(TimeIsUpError):
        backend.run(backend.verbs.enqueue(new_jobs("leader")))
    with pytest.raises(StoreUnavailableError, match="interrupted") as caught:
        writer.finish(other)
    assert isinstance(caught.value.__cause__, TimeIsUpError)  # it may be of the verb after all
    assert total(backend) == 0


@pytest.mark.parametrize("error", [KeyError(), AttributeError(), AssertionError(), OverflowError(), DecodeError()])
def test_a_verbs_own_error_is_not_taken_for_that_of_a_signal(backend: SqliteBackend, error: Exception) -> None:
    """A thread's verb that fails while the main thread leads harms nobody else, and its caller hears why."""

    def bad() -> Steps[None]:
        yield Command("SELECT 1")
        raise error

    writer = writer_of(backend)
    other = writer.put_in_line(Entry(Verb("bad", Access.WRITE, bad())))
    backend.run(backend.verbs.enqueue(new_jobs("leader")))
    with pytest.raises(type(error)):
        writer.finish(other)
    assert total(backend) == 1


def test_a_closed_store_says_so(tmp_path: Path) -> None:
    """A verb after close is refused with a clear word; closing twice is harmless."""
    backend = SqliteBackend(tmp_path / "jobs.db")
    backend.run(count_states(backend.verbs))
    backend.close()
    backend.close()
    with pytest.raises(StoreError, match="closed"):
        backend.run(count_states(backend.verbs))
