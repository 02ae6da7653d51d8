"""Files of jobs that were forgotten go, those of any other stay, and the store is asked seldom."""

import asyncio
import os
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from datetime import timedelta
from pathlib import Path
from random import Random
from typing import Any

import pytest

from standfast.durable.files import FileStore, file_store_of, lasting_file_store_of
from standfast.events import Events
from standfast.model.job import ClaimRef, NewJob
from standfast.settings import Settings
from standfast.stores.backend import identity_of
from standfast.stores.memory.store import MemoryBackend
from standfast.stores.values import WorkerBeat, WorkerInfo
from standfast.stores.verb import Verb
from standfast.supervisor import housekeeping
from standfast.supervisor.housekeeping import FILES_AT_ONCE_EVERY, FILES_EVERY, YOUNG, FileSweep, Housekeeping
from standfast.testing.clock import FakeClock
from standfast.worker.storecalls import StoreCalls

BITE = 5


@pytest.fixture(autouse=True)
def small_bites(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have few files do: each is written down for good, which takes its time."""
    monkeypatch.setattr(housekeeping, "FILES_AT_ONCE", BITE)


class Counting(MemoryBackend):
    """Counts what it is asked."""

    def __init__(self, clock: FakeClock) -> None:
        super().__init__(clock)
        self.asked: list[str] = []

    async def arun(self, verb: Verb[Any]) -> Any:
        self.asked.append(verb.name)
        return await super().arun(verb)

    @property
    def glances(self) -> int:
        return self.asked.count("glance")


class Ground:
    """A shelf, a store, and the sweep between them."""

    def __init__(self, folder: Path) -> None:
        self.clock = FakeClock()
        self.backend = Counting(self.clock)
        settings = Settings(url="redis://cache", files=str(folder))
        self.shelf = file_store_of(settings, lambda: identity_of(self.backend))
        calls = StoreCalls(self.backend, self.clock, Events(), Random(1), timeout=5.0)
        self.sweep = FileSweep(calls, self.clock, self.shelf)

    def file(self, job: str, age: float = YOUNG + 1) -> Path:
        """Save a file of a job, so many seconds ago."""
        path = self.shelf.find(self.shelf.put(ClaimRef(job, 1), "f", b"x")).path
        os.utime(path.parent, (time.time() - age,) * 2)
        return path

    def enqueue(self, *jobs: str) -> None:
        self.backend.run(self.backend.verbs.enqueue([NewJob(job, "task", b"{}") for job in jobs]))


def play(act: Callable[[], Awaitable[None]]) -> None:
    asyncio.run(asyncio.wait_for(act(), 30))


def test_only_files_of_forgotten_jobs_go(tmp_path: Path) -> None:
    """Not those of a job that is there, not young ones, and nothing that another store has put there."""

    async def act() -> None:
        ground = Ground(tmp_path)
        ground.enqueue("there")
        kept, gone, young = ground.file("there"), ground.file("gone"), ground.file("young", age=YOUNG - 10)
        others = file_store_of(Settings(url="redis://elsewhere", files=str(tmp_path)), lambda: "0123456789abcdef")
        other = others.find(others.put(ClaimRef("gone", 1), "f", b"x")).path
        os.utime(other.parent, (0, 0))
        assert ground.sweep.is_due
        await ground.sweep.bite()
        assert [each.exists() for each in (kept, gone, young, other)] == [True, False, True, True]
        assert not gone.parent.exists()

    play(act)


def test_files_of_another_store_of_the_same_url_stay(tmp_path: Path, caplog: Any) -> None:
    """Two machines may each have a Redis at localhost, and share a folder. The log tells what goes."""
    caplog.set_level("INFO")

    async def act() -> None:
        ours, others = Ground(tmp_path), Ground(tmp_path)
        others.enqueue("theirs")
        theirs, gone = others.file("theirs"), ours.file("gone")
        await ours.sweep.bite()
        assert [theirs.exists(), gone.exists()] == [True, False]
        assert "removed the saved files of 1 job that the store does not know any more" in caplog.text
        assert f"leaves alone what another store of this name has saved: {theirs.parents[1]}" in caplog.text

    play(act)


@pytest.mark.parametrize("when", ["between two rounds", "within one"])
def test_files_stay_when_the_store_was_emptied(tmp_path: Path, when: str, caplog: Any) -> None:
    """As after a fail-over to an empty server, which knows none of the jobs."""

    async def act() -> None:
        ground = Ground(tmp_path)
        ground.enqueue("there")
        kept, young = ground.file("there"), ground.file("young")
        os.utime(young.parent)
        await ground.sweep.bite()
        os.utime(young.parent, (0, 0))
        if when == "within one":
            ground.sweep._round = ground.shelf.jobs(older_than=0)
        ground.backend.verbs._jobs.clear()
        ground.backend.verbs._records.clear()
        ground.clock.advance(FILES_EVERY)
        await ground.sweep.bite()
        assert [kept.exists(), young.exists()] == [True, True]
        assert ("is another one than before" in caplog.text) == (when == "within one")

    play(act)


def test_all_folders_are_looked_through_in_bites(tmp_path: Path) -> None:
    """One call to the store for each, one in a while where jobs are there, and then a long rest."""

    async def act() -> None:
        ground = Ground(tmp_path)
        there = [f"there-{number}" for number in range(BITE + 2)]
        ground.enqueue(*there)
        for job in there:
            ground.file(job)
        assert ground.sweep.is_due
        await ground.sweep.bite()
        assert (ground.backend.glances, ground.sweep.is_due) == (1, False)
        ground.clock.advance(FILES_AT_ONCE_EVERY)
        assert ground.sweep.is_due
        await ground.sweep.bite()
        assert ground.backend.glances == 2
        ground.clock.advance(FILES_EVERY - 1)
        assert not ground.sweep.is_due
        gone = ground.file("gone")
        ground.clock.advance(1)
        while ground.sweep.is_due:
            await ground.sweep.bite()
            ground.clock.advance(FILES_AT_ONCE_EVERY)
        assert not gone.exists()
        assert sorted(ground.shelf.jobs(older_than=0)) == sorted(there)

    play(act)


def test_many_forgotten_jobs_are_not_waited_for(tmp_path: Path) -> None:
    async def act() -> None:
        ground = Ground(tmp_path)
        for number in range(BITE + 2):
            ground.file(f"gone-{number}")
        await ground.sweep.bite()
        assert ground.sweep.is_due
        await ground.sweep.bite()
        assert list(ground.shelf.jobs(older_than=0)) == []

    play(act)


def test_a_folder_that_cannot_be_read_is_told_of_and_tried_again_later(tmp_path: Path, caplog: Any) -> None:
    def broken(older_than: float) -> Iterator[str]:  # noqa: ARG001 - the shape of the real one
        raise PermissionError(13, "not yours")
        yield

    async def act() -> None:
        ground = Ground(tmp_path)
        gone, jobs = ground.file("gone"), ground.shelf.jobs
        ground.shelf.jobs = broken  # type: ignore[method-assign]
        await ground.sweep.bite()
        assert "cannot be looked through: [Errno 13] not yours" in caplog.text
        assert not ground.sweep.is_due
        ground.shelf.jobs = jobs  # type: ignore[method-assign]
        ground.clock.advance(FILES_EVERY)
        await ground.sweep.bite()
        assert not gone.exists()

    play(act)


@pytest.mark.parametrize("files", [None, "never-made"])
def test_without_a_folder_nothing_is_asked_or_made(tmp_path: Path, files: str | None) -> None:
    async def act() -> None:
        ground = Ground(tmp_path)
        settings = Settings(url="redis://cache", files=files and str(tmp_path / files))
        ground.sweep._shelf = file_store_of(settings)
        await ground.sweep.bite()
        assert (ground.backend.asked, ground.sweep.is_due) == ([], False)

    play(act)
    assert list(tmp_path.iterdir()) == []


def test_files_that_go_with_their_process_are_not_looked_through() -> None:
    """Several stores in memory share the folder of their process, and none knows the jobs of another."""
    settings, clock = Settings(url="memory://"), FakeClock()
    file_store_of(settings, lambda: "0123456789abcdef").put(ClaimRef("job", 1), "report", b"kept")
    calls = StoreCalls(Counting(clock), clock, Events(), Random(1), timeout=5.0)
    assert FileSweep(calls, clock, file_store_of(settings)).is_due
    assert not FileSweep(calls, clock, lasting_file_store_of(settings)).is_due


def test_a_folder_that_does_not_answer_holds_up_no_burial(tmp_path: Path) -> None:
    """A share of a machine that is away makes whoever asks anything about it wait for as long."""

    async def act() -> None:
        ground = Ground(tmp_path)
        ground.file("gone")
        back = threading.Event()

        def find() -> Path:
            assert back.wait(10)
            return tmp_path

        settings = Settings(url="redis://cache", files=str(tmp_path))
        chores = Housekeeping(ground.sweep._calls, ground.clock, settings, Events(), came_back=lambda: None)
        chores._files._shelf = FileStore(find, ground.shelf._part, 1_000)
        span = timedelta(seconds=15)
        ground.backend.run(ground.backend.verbs.register(WorkerInfo("lost", "s", "host", 1, span)))
        beat = [WorkerBeat("ours")]
        try:
            chores.after(beat, ground.backend.run(ground.backend.verbs.beat(beat)), may_bury=True)
            await asyncio.sleep(0.1)
            ground.clock.advance(60)
            answer = ground.backend.run(ground.backend.verbs.beat(beat))
            assert answer.expired == {"lost"}
            chores.after(beat, answer, may_bury=True)
            async with asyncio.timeout(5):
                while "bury" not in ground.backend.asked:  # noqa: ASYNC110 - the store tells nobody
                    await asyncio.sleep(0.01)
        finally:
            back.set()
            chores.stop()

    play(act)
