"""`ctx.save_file`: whole or not at all, what the store says counts, and nothing leaves the folder."""

import asyncio
import hashlib
import os
import stat
import tempfile
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from standfast import (
    ArgumentsError,
    ConfigurationError,
    Context,
    JobNotFoundError,
    LostClaimError,
    SavedFile,
    Standfast,
)
from standfast.durable import durable_context
from standfast.durable.files import FileStore, file_memo, file_store_of, files_among
from standfast.errors import PayloadError, WorkerBuriedError
from standfast.model.crash import Death, DeathKind
from standfast.model.job import ClaimRef
from standfast.model.memos import Memo
from standfast.settings import Settings
from standfast.stores import memory as memory_door
from standfast.testing import StandfastKit

REF = ClaimRef("0197b1c2-7d1e-7c3a-9f60-5a4b3c2d1e0f", 3)
STORE = "0123456789abcdef"


@pytest.fixture
def shelf(tmp_path: Path) -> FileStore:
    return FileStore(lambda: tmp_path / "files", "jobs", 1_000, lambda: STORE)


def everything(folder: Path) -> list[str]:
    return sorted(str(each.relative_to(folder)) for each in folder.rglob("*") if each.is_file())


# -- the shelf ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("as_path", [False, True])
def test_a_file_is_put_away_whole_for_its_owner_alone(shelf: FileStore, tmp_path: Path, as_path: bool) -> None:
    """Its size and hash are those of its bytes; nothing half-written is left beside it."""
    data = b"a,b\n" * 200
    (tmp_path / "source").write_bytes(data)
    umask = os.umask(0)
    try:
        kept = shelf.put(REF, "report.csv", tmp_path / "source" if as_path else data)
    finally:
        os.umask(umask)
    saved = shelf.find(kept)
    assert saved.path.read_bytes() == data
    assert (saved.name, saved.size, saved.sha256) == ("report.csv", 800, hashlib.sha256(data).hexdigest())
    assert stat.S_IMODE(saved.path.stat().st_mode) == 0o600
    for folder in saved.path.parents[:3]:
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert everything(tmp_path / "files") == [str(saved.path.relative_to(tmp_path / "files"))]


def test_what_is_too_large_is_refused_and_leaves_nothing(shelf: FileStore, tmp_path: Path) -> None:
    assert shelf.put(REF, "fits", b"x" * 1_000).size == 1_000
    with pytest.raises(ArgumentsError, match=r"file 'big' has more than 1 kB, .* \(files_limit\)"):
        shelf.put(REF, "big", b"x" * 1_001)
    assert len(everything(tmp_path / "files")) == 1


def test_a_source_that_is_not_there_leaves_nothing(shelf: FileStore, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        shelf.put(REF, "report.csv", tmp_path / "nothing")
    assert everything(tmp_path) == []


@pytest.mark.parametrize("data", ["a,b", 7, None, ["a"]])
def test_what_is_no_bytes_is_refused(shelf: FileStore, tmp_path: Path, data: Any) -> None:
    """A text may mean itself or a path: nobody guesses."""
    with pytest.raises(ArgumentsError, match=r"must be bytes, or the pathlib.Path of a file, not .*text\.encode"):
        shelf.put(REF, "report.csv", data)
    assert everything(tmp_path) == []


def test_the_same_name_again_takes_the_place_of_earlier_claims_only(shelf: FileStore) -> None:
    """A later claim may have saved its own meanwhile: an attempt that has lost its job must not touch it."""
    earlier, later = (shelf.put(ClaimRef(REF.job_id, fence), "a-b.csv", b"x") for fence in (2, 4))
    other = shelf.put(ClaimRef(REF.job_id, 2), "b.csv", b"x")
    kept = shelf.put(REF, "a-b.csv", b"new")
    shelf.drop_earlier(REF, kept)
    there = [shelf.find(each).path.exists() for each in (earlier, kept, later, other)]
    assert there == [False, True, True, True]


def test_what_a_killed_attempt_has_left_half_written_goes(shelf: FileStore, tmp_path: Path) -> None:
    """With the next saving of the job; what a living one is writing stays."""
    kept = shelf.put(REF, "report.csv", b"new")
    folder = shelf.find(kept).path.parent
    for fence in (2, 3, 4):
        (folder / f".{fence}-0a1b2c3d-report.csv.part").write_bytes(b"half")
    shelf.drop_earlier(REF, kept)
    assert sorted(each.name[:2] for each in folder.iterdir() if each.suffix == ".part") == [".3", ".4"]
    assert len(everything(tmp_path)) == 3


@pytest.mark.parametrize("job_id", ["..", "../../etc", "/etc", ".", "a b/c"])
def test_no_id_of_a_job_leads_out_of_the_folder(shelf: FileStore, tmp_path: Path, job_id: str) -> None:
    kept = shelf.put(ClaimRef(job_id, 1), "f", b"x")
    (place,) = everything(tmp_path)
    assert len(Path(place).parts) == 4
    assert place.startswith(f"files/jobs-{STORE}/")
    assert list(shelf.jobs(older_than=0)) == [job_id]
    shelf.forget(job_id)
    assert not shelf.find(kept).path.exists()


@pytest.mark.parametrize("place", ["/etc/passwd", "jobs/../../../etc/passwd"])
def test_no_memo_leads_out_of_the_folder(shelf: FileStore, place: str) -> None:
    body = f'{{"place":"{place}","size":1,"sha256":"","saved_at":"2030-01-01T00:00:00Z"}}'
    kept = files_among([Memo("file:f", body.encode())])["f"]
    with pytest.raises(PayloadError, match="names no place on a shelf"):
        shelf.find(kept)


def test_a_memo_that_tells_of_no_file_is_an_error() -> None:
    with pytest.raises(PayloadError, match="file 'f' cannot be read"):
        files_among([Memo("file:f", b"{}")])


def test_what_is_written_about_a_file_is_read_again(shelf: FileStore) -> None:
    kept = shelf.put(REF, "f", b"x")
    assert files_among([Memo("cursor", b"{}"), file_memo(kept)]) == {"f": kept}


# -- which folder ------------------------------------------------------------------------------------------------


def test_beside_a_sqlite_database_there_is_a_folder_and_each_namespace_has_its_part(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/jobs.db"
    for namespace, part in ((None, "jobs"), ("shop", "jobs-shop")):
        shelf = file_store_of(Settings(url=url, namespace=namespace), lambda: STORE)
        assert shelf.own_part is None
        place = shelf.find(shelf.put(REF, "f", b"x")).path
        assert place.parent == tmp_path / "jobs.db-files" / f"{part}-{STORE}" / REF.job_id
        assert shelf.own_part == tmp_path / "jobs.db-files" / f"{part}-{STORE}"


@pytest.mark.parametrize("url", ["postgresql://db/shop", "redis://cache/3"])
def test_a_store_on_a_server_needs_a_folder_that_is_set(tmp_path: Path, url: str) -> None:
    with pytest.raises(ConfigurationError, match=r"no folder .*set files, as in .* or STANDFAST_FILES"):
        file_store_of(Settings(url=url)).put(REF, "f", b"x")
    assert file_store_of(Settings(url=url)).own_part is None
    shelf = file_store_of(Settings(url=url, files=str(tmp_path)), lambda: STORE)
    assert shelf.find(shelf.put(REF, "f", b"x")).path.is_relative_to(tmp_path)


def test_stores_that_share_a_folder_have_a_part_each(tmp_path: Path) -> None:
    """None of them knows the jobs of another: it would take their files for forgotten ones."""
    urls = ["sqlite:////a/jobs.db", "sqlite:////b/jobs.db", "redis://cache/3", "redis://cache/4"]
    for url in urls:
        for namespace in (None, "shop"):
            file_store_of(Settings(url=url, namespace=namespace, files=str(tmp_path)), lambda: STORE).put(
                REF, "f", b"x"
            )
    assert len(list(tmp_path.iterdir())) == 2 * len(urls)


def test_a_password_is_no_part_of_a_folder(tmp_path: Path) -> None:
    file_store_of(Settings(url="postgresql://me:hunter2@db/shop", files=str(tmp_path)), lambda: STORE).put(
        REF, "f", b"x"
    )
    (part,) = tmp_path.iterdir()
    assert "hunter2" not in part.name


def test_the_settings_name_the_folder_and_the_limit(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("STANDFAST_FILES", str(tmp_path))
    assert Standfast("redis://cache", files="elsewhere", files_limit="2MB").settings.files == str(tmp_path)
    assert Standfast("redis://cache", files_limit="2MB").settings.files_limit == 2_000_000
    with pytest.raises(ConfigurationError, match="files_limit=nothing"):
        Standfast(files_limit="nothing")


# -- in a handler ------------------------------------------------------------------------------------------------


def test_files_of_a_job_are_found_by_later_attempts_and_by_others() -> None:
    app = Standfast("memory://")
    seen: list[list[str]] = []

    @app.task(max_attempts=2, backoff=0)
    def report(ctx: Context) -> None:
        seen.append([f"{name} {each.path.read_text()}" for name, each in ctx.files.items()])
        saved = ctx.save_file("report.csv", f"of attempt {ctx.attempt}".encode())
        assert ctx.files["report.csv"] == saved
        if ctx.attempt == 1:
            ctx.save_file("first.txt", b"1")
            raise OSError("a pity")

    with StandfastKit(app) as kit:
        handle = report.enqueue()
        kit.drain_all(raising=False)
        assert seen == [[], ["first.txt 1", "report.csv of attempt 1"]]
        found = handle.files()
        assert list(found) == ["first.txt", "report.csv"]
        assert found["report.csv"].path.read_text() == "of attempt 2"
        assert asyncio.run(handle.afiles()) == app.files(handle) == app.files(handle.id) == found
        assert len(list(found["report.csv"].path.parent.iterdir())) == 2  # that of attempt 1 is gone
        with pytest.raises(JobNotFoundError):
            app.files("nobody")


def test_a_job_without_files_has_none() -> None:
    app = Standfast("memory://")

    @app.task
    def work() -> None: ...

    with StandfastKit(app):
        assert work.enqueue().files() == {}


def test_async_handlers_do_not_block_the_loop() -> None:
    app = Standfast("memory://")

    @app.task(max_attempts=1)
    async def report(ctx: Context) -> None:
        with pytest.raises(ArgumentsError, match=r"write `await ctx.asave_file\(\)` in async code"):
            ctx.save_file("report.csv", b"a")
        with pytest.raises(ArgumentsError, match=r"write `await ctx.afiles\(\)`"):
            _ = ctx.files
        saved = await ctx.asave_file("report.csv", b"a")
        assert isinstance(saved, SavedFile)
        assert await ctx.afiles() == {"report.csv": saved}

    with StandfastKit(app) as kit:
        handle = report.enqueue()
        kit.drain_all()
        assert handle.files()["report.csv"].path.read_bytes() == b"a"


@pytest.mark.parametrize(
    "name", ["", ".", "..", ".hidden", "a/b", "../a", "a\\b", "c:a", "a\nb", "a\0b", " a", "x" * 101, "漢" * 70]
)
def test_a_name_that_means_a_place_elsewhere_is_refused(name: str) -> None:
    _refused(lambda ctx: ctx.save_file(name, b"x"), "cannot be the name of a file")


def test_a_name_that_is_no_text_is_refused() -> None:
    _refused(lambda ctx: ctx.save_file(7, b"x"), "must be a text, not int")  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["report.csv", "a b (1).txt", "x" * 100, "ä" * 100, "a..b", "-rf", "~"])
def test_other_names_are_taken(name: str) -> None:
    app = Standfast("memory://")

    @app.task
    def work(ctx: Context) -> None:
        ctx.save_file(name, b"x")

    with StandfastKit(app) as kit:
        handle = work.enqueue()
        kit.drain_all()
        assert handle.files()[name].path.name.endswith(name)


def test_a_name_that_two_threads_save_is_one_of_the_two(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whichever the store knows of in the end, its bytes are there, and those of the other are not."""
    app = Standfast("memory://")

    @app.task
    def work(ctx: Context) -> None:
        notebook, both = ctx._control.notebook, threading.Barrier(2)
        write = notebook.write

        def slowly(*memos: Memo, hurry: bool = True) -> Any:
            with suppress(threading.BrokenBarrierError):
                both.wait(0.1)  # until the other one is here too, if it can be
            return write(*memos, hurry=hurry)

        monkeypatch.setattr(notebook, "write", slowly)
        threads = [threading.Thread(target=ctx.save_file, args=("same", text)) for text in (b"a", b"b")]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    with StandfastKit(app) as kit:
        handle = work.enqueue()
        kit.drain_all()
        saved = handle.files()["same"]
        assert saved.sha256 == hashlib.sha256(saved.path.read_bytes()).hexdigest()
        assert list(saved.path.parent.iterdir()) == [saved.path]


def test_threads_that_save_at_once_share_one_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also the first two of a process: each has looked for it before the other has made it."""
    monkeypatch.setattr(memory_door, "_FOLDERS", {})
    make, both = tempfile.mkdtemp, threading.Barrier(2)

    def make_together(**options: Any) -> str:
        both.wait(30)
        return make(**options)

    monkeypatch.setattr(tempfile, "mkdtemp", make_together)
    with ThreadPoolExecutor(2) as threads:
        first, second = threads.map(lambda _: memory_door.KIND.files_beside("memory://"), range(2))
    assert first == second
    assert first.is_dir()


def test_an_attempt_that_has_lost_its_job_changes_no_file() -> None:
    """What it puts beside the others nobody is told of; it goes with the next one of its name, or with the job."""
    app = Standfast("memory://")

    @app.task(max_attempts=1)
    def work(ctx: Context) -> None:
        ctx.save_file("mine", b"x")
        for worker in app.call(app.verbs.workers()):
            app.call(app.verbs.bury(worker.info.id, Death(DeathKind.CRASHED)))
        with pytest.raises(LostClaimError):
            ctx.save_file("mine", b"late")

    with StandfastKit(app) as kit:
        handle = work.enqueue()
        with pytest.raises(WorkerBuriedError):
            kit.drain_all(raising=False)
        assert [saved.path.read_bytes() for saved in handle.files().values()] == [b"x"]


def test_a_job_keeps_no_more_files_than_it_may_have_memos(monkeypatch: pytest.MonkeyPatch) -> None:
    """The store has a memo of each, which every later attempt reads; one that was saved may be saved again."""
    monkeypatch.setattr(durable_context, "MEMOS_LIMIT", 2)

    def save(ctx: Context) -> None:
        for name in ("a", "b", "a"):
            ctx.save_file(name, b"x")
        ctx.save_file("c", b"x")

    app = Standfast("memory://")

    @app.task(max_attempts=1)
    def work(ctx: Context) -> None:
        with pytest.raises(ArgumentsError, match="keeps at most 2 files"):
            save(ctx)

    with StandfastKit(app) as kit:
        handle = work.enqueue()
        kit.drain_all()
        assert sorted(handle.files()) == ["a", "b"]


def _refused(act: Callable[[Context], Any], words: str) -> None:
    app = Standfast("memory://")

    @app.task(max_attempts=1)
    def work(ctx: Context) -> None:
        with pytest.raises(ArgumentsError, match=words):
            act(ctx)

    with StandfastKit(app) as kit:
        handle = work.enqueue()
        kit.drain_all()
        assert handle.files() == {}
