"""The bell wakes who waits, loses nothing between two waits, and never raises."""

import asyncio
import errno
import os
import socket
import sqlite3
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from standfast.model.job import NewJob
from standfast.stores.contract import cancel_job
from standfast.stores.sqlite import notify
from standfast.stores.sqlite.notify import SqliteListener
from standfast.stores.sqlite.store import SqliteBackend
from standfast.stores.verb import Tone

LONG = 30.0
"""Longer than any test: who waits so long and returns was woken."""


@pytest.fixture
def deaf_counter(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let only the socket wake a listener."""
    monkeypatch.setattr(SqliteListener, "_changed", lambda _: False)


@asynccontextmanager
async def listening(backend: SqliteBackend, tone: Tone = Tone.WORK) -> AsyncIterator[SqliteListener]:
    listener = backend.bell.listen(tone)
    try:
        yield listener
    finally:
        listener.close()


def enqueue(backend: SqliteBackend, name: str = "job") -> None:
    backend.run(backend.verbs.enqueue([NewJob(name, "task", b"")]))


@pytest.mark.usefixtures("deaf_counter")
async def test_an_enqueue_wakes_a_waiting_listener(backend: SqliteBackend) -> None:
    """Who waits is woken by the commit of an enqueue in the same process."""
    async with listening(backend) as listener:
        waiting = asyncio.create_task(listener.wait(LONG))
        await asyncio.sleep(0)
        await backend.arun(backend.verbs.enqueue([NewJob("a", "task", b"")]))
        assert await waiting


@pytest.mark.usefixtures("deaf_counter")
async def test_a_ring_between_two_waits_is_not_lost(backend: SqliteBackend) -> None:
    """A ring is kept for the next wait, and heard once however often it rang."""
    async with listening(backend) as listener:
        enqueue(backend, "a")
        enqueue(backend, "b")
        assert [await listener.wait(LONG), await listener.wait(0)] == [True, False]


@pytest.mark.usefixtures("deaf_counter")
async def test_every_listener_is_woken(backend: SqliteBackend) -> None:
    """One ring reaches all."""
    async with listening(backend) as one, listening(backend) as other:
        backend.bell.ring()
        assert [await one.wait(LONG), await other.wait(LONG)] == [True, True]


@pytest.mark.usefixtures("deaf_counter")
async def test_each_hears_its_own_tone(backend: SqliteBackend) -> None:
    """An enqueue is for workers, an ending for those who wait for jobs; neither disturbs the other."""
    async with listening(backend) as worker, listening(backend, Tone.RESULT) as waiter:
        enqueue(backend)
        after_enqueue = [await worker.wait(LONG), await waiter.wait(0)]
        await backend.arun(cancel_job(backend.verbs, "job"))
        assert [after_enqueue, [await worker.wait(0), await waiter.wait(LONG)]] == [[True, False], [False, True]]


RING = """
import sys
from standfast.model.job import NewJob
from standfast.stores.sqlite.store import SqliteBackend
backend = SqliteBackend(sys.argv[1])
backend.run(backend.verbs.enqueue([NewJob("from-afar", "task", b"")]))
backend.close()
"""


@pytest.mark.usefixtures("deaf_counter")
async def test_another_process_rings_across_a_long_path(tmp_path: Path) -> None:
    """A socket's address holds about 100 bytes; a path may be longer and the bell is heard all the same."""
    folder = tmp_path / ("deep" * 30)
    folder.mkdir()
    backend = SqliteBackend(folder / "jobs.db")

    async with listening(backend) as listener:
        command = [sys.executable, "-W", "error", "-c", RING, folder / "jobs.db"]
        await asyncio.to_thread(subprocess.run, command, check=True, timeout=60)
        assert await listener.wait(LONG)
    backend.close()


def test_verbs_that_make_nothing_due_do_not_ring(backend: SqliteBackend) -> None:
    """A pause wakes nobody; a resume does, and a cancellation tells those who wait for jobs."""
    rings: list[Tone] = []
    enqueue(backend)
    writers = backend._engine()._writers.values()
    for writer in writers:
        writer._ring = rings.append
    backend.run(backend.verbs.pause("mail"))
    assert rings == []
    backend.run(backend.verbs.resume("mail"))
    assert rings == [Tone.WORK]
    backend.run(cancel_job(backend.verbs, "job"))
    assert rings == [Tone.WORK, Tone.RESULT]


@pytest.fixture
def quick_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let listeners look at the change counter all the time."""
    monkeypatch.setattr(notify, "LOOK_EVERY", 0.01)


def commit(path: Path, statement: str) -> None:
    """Change the file as somebody does who rings no bell."""
    raw = sqlite3.connect(path)
    raw.execute(statement)
    raw.commit()
    raw.close()


@pytest.mark.usefixtures("quick_looks")
async def test_without_a_poke_a_job_that_arrived_wakes(path: Path, backend: SqliteBackend) -> None:
    """A commit that rang no bell, such as of a user's own transaction, is noticed all the same."""
    enqueue(backend)
    async with listening(backend) as listener:
        silent = await listener.wait(0.05)
        columns = "state, queue, priority, run_at, task, version, max_attempts, created_at, payload"
        commit(path, f"INSERT INTO standfast_job (id, {columns}) SELECT 'other', {columns} FROM standfast_job")
        assert [silent, await listener.wait(LONG), await listener.wait(0.05)] == [False, True, False]


@pytest.mark.usefixtures("quick_looks")
@pytest.mark.parametrize(("tone", "wakes"), [(Tone.WORK, False), (Tone.RESULT, True)])
async def test_without_a_poke_other_commits_wake_those_alone_who_wait_for_jobs(
    path: Path, backend: SqliteBackend, tone: Tone, wakes: bool
) -> None:
    """In a busy file commits are endless, and no reason for idle workers to look at each of them."""
    enqueue(backend)
    async with listening(backend, tone) as listener:
        commit(path, "UPDATE standfast_job SET progress_done = 1")
        assert await listener.wait(LONG if wakes else 0.1) is wakes


@pytest.mark.usefixtures("quick_looks")
async def test_where_sockets_cannot_be_used_the_counter_must_do(backend: SqliteBackend) -> None:
    """A folder that cannot be made leaves a listener that hears more slowly, and a bell that does not raise."""
    backend._files.bell.write_text("in the way")

    async with listening(backend) as listener:
        enqueue(backend)
        assert [await listener.wait(LONG), await listener.wait(0.05)] == [True, False]


@pytest.mark.usefixtures("deaf_counter")
async def test_sockets_of_the_dead_are_cleared_away(backend: SqliteBackend) -> None:
    """A ring removes what a killed listener left, and still reaches the living."""
    folder = backend._files.bell

    async with listening(backend) as listener:
        left = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        left.bind(str(folder / "work-left"))
        left.close()
        backend.bell.ring()
        assert not (folder / "work-left").exists()
        assert await listener.wait(LONG)
    assert [each for each in folder.iterdir() if each.is_socket()] == []


@pytest.mark.usefixtures("deaf_counter")
async def test_a_dead_socket_that_cannot_be_removed_stops_no_poke(
    backend: SqliteBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a user left in a shared folder, others may not remove; those listed after it are woken all the same."""
    folder = backend._files.bell

    def forbidden(self: Path, *, missing_ok: bool = False) -> None:
        raise PermissionError(errno.EPERM, f"not yours ({missing_ok})", str(self))

    async with listening(backend) as listener:
        living = os.listdir(folder)  # noqa: PTH208 - as the bell lists them
        left = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        left.bind(str(folder / "work-left"))
        left.close()
        with monkeypatch.context() as patch:
            patch.setattr(Path, "unlink", forbidden)
            patch.setattr("standfast.stores.sqlite.notify.os.listdir", lambda _: ["work-left", *living])
            backend.bell.ring()
        assert await listener.wait(1)


async def test_a_full_ear_does_not_stop_the_bell(backend: SqliteBackend) -> None:
    """Nobody listening for long fills a socket's buffer; ringing on is harmless and never blocks."""
    async with listening(backend) as listener:
        for _ in range(2000):
            backend.bell.ring()
        assert await listener.wait(LONG)


def test_ringing_without_listeners_is_harmless(backend: SqliteBackend) -> None:
    """Before anyone ever listened there is not even a folder."""
    backend.bell.ring()
    assert not backend._files.bell.exists()
