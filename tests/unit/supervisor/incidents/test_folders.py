"""Incidents on disk: private, whole or not at all, bounded, and never anybody's trouble."""

import asyncio
import gc
import json
import logging
import os
import shutil
import stat
import threading
from base64 import b64encode
from datetime import timedelta
from pathlib import Path
from random import Random

import pytest
from reporting import STACKS, Shaky, a_job, an_incident

from standfast.events import Events
from standfast.model.clock import SystemClock
from standfast.model.incidents import Evidence
from standfast.model.job import NewJob
from standfast.model.records import Kind
from standfast.model.secrets import NO_SECRETS
from standfast.observe.incidents import Retention
from standfast.settings import Settings
from standfast.supervisor.incidents import folders as folders_module
from standfast.supervisor.incidents.folders import Folders, FolderWriter, usual_place
from standfast.supervisor.incidents.recorder import IncidentRecorder
from standfast.testing.clock import FakeClock
from standfast.worker.storecalls import StoreCalls

SECONDS = 30.0


@pytest.fixture(autouse=True)
def no_place_of_the_user(tmp_path, monkeypatch):
    """Neither the home of who runs the tests nor the machine's temporary folder is touched.

    What an earlier test has filed is written first: its thread would find the place of this test.
    """
    for filing in [kept for kept in gc.get_objects() if issubclass(type(kept), FolderWriter)]:
        filing.close(SECONDS)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setattr(folders_module.tempfile, "tempdir", str(tmp_path))


def keeping(**settings):
    return Retention.of(Settings(**settings))


def mode_of(path):
    return stat.S_IMODE(path.stat().st_mode)


def test_a_folder_is_readable_by_its_owner_only_whatever_the_umask(tmp_path):
    """0700 for folders, 0600 for files; the summary and a text for each part."""
    before = os.umask(0)
    try:
        folder = Folders(keeping()).write(an_incident(id="one"), STACKS)
    finally:
        os.umask(before)
    made = tmp_path / "state/standfast/incidents/one"
    assert folder == str(made)
    assert [mode_of(path) for path in (made.parent, made)] == [0o700, 0o700]
    assert {file.name: mode_of(file) for file in made.iterdir()} == dict.fromkeys(
        ["incident.json", "stacks.txt", "log.txt"], 0o600
    )
    assert (made / "stacks.txt").read_text() == "here it was"
    summary = json.loads((made / "incident.json").read_text())
    assert (summary["id"], summary["trouble"], summary["folder"]) == ("one", "crash", folder)
    assert [path.name for path in made.parent.iterdir()] == ["one"]


def test_no_name_leads_out_of_the_folder(tmp_path):
    """Names of parts come from processes that run anything."""
    evidence = Evidence({"../../out": "1", "/etc/passwd": "2", "..": "3", "a/b": "4", "a_b": "5", "": "6"})
    filing = FolderWriter(keeping(), SystemClock())
    filed = filing.file(an_incident(id="../up"), evidence, NO_SECRETS)
    filed.over.result(SECONDS)
    made = tmp_path / "state/standfast/incidents/up"
    assert sorted(file.name for file in made.iterdir()) == [
        "a_b-2.txt",
        "a_b.txt",
        "etc_passwd.txt",
        "incident.json",
        "out.txt",
        "part-2.txt",
        "part.txt",
    ]


def test_a_summary_is_rewritten_unless_somebody_has_removed_the_folder():
    """It is replaced as a whole; a folder that is gone stays gone."""
    folders = Folders(keeping())
    folder = folders.write(an_incident(), STACKS)
    folders.rewrite(an_incident(count=7), Evidence(), folder)
    assert json.loads(Path(folder, "incident.json").read_text())["count"] == 7
    shutil.rmtree(folder)
    folders.rewrite(an_incident(count=8), STACKS, folder)
    assert not Path(folder).exists()


@pytest.mark.parametrize(
    ("settings", "left"),
    [({"keep_incidents": 3}, 3), ({"keep_incidents_for": 3.5 * 86_400}, 4), ({"keep_incidents_mb": 1}, 3)],
)
def test_old_folders_go_by_count_age_and_size(tmp_path, settings, left):
    """The newest stay; what is no incident stays too."""
    clock = FakeClock()
    folders = Folders(keeping(**settings))
    for number in range(10):
        folder = folders.write(an_incident(id=f"i{number}"), Evidence({"log": "x" * 300_000}))
        at = (clock.now() - timedelta(days=number)).timestamp()
        os.utime(f"{folder}/incident.json", (at, at))
    place = tmp_path / "state/standfast/incidents"
    (place / "mine").mkdir()
    folders.sweep(clock.now())
    assert sorted(path.name for path in place.iterdir()) == [*(f"i{number}" for number in range(left)), "mine"]


def test_a_place_that_cannot_be_written_to_is_replaced_and_told_once(tmp_path, caplog):
    """The folders go to a private temporary place."""
    (tmp_path / "taken").write_text("a file")
    filing = FolderWriter(keeping(incidents_dir=str(tmp_path / "taken")), SystemClock())
    for number in range(3):
        filing.file(an_incident(id=f"i{number}"), STACKS, NO_SECRETS).over.result(SECONDS)
    made = tmp_path / f"standfast-{os.getuid()}"
    assert mode_of(made) == 0o700
    assert len(list((made / "incidents").iterdir())) == 3
    filing.close(SECONDS)
    assert len(caplog.records) == 1
    assert "temporary place" in caplog.text


def test_a_temporary_place_of_somebody_else_is_not_used(tmp_path, caplog):
    """Whoever may read it, or made it, could read what is written there."""
    (tmp_path / "taken").write_text("a file")
    (tmp_path / f"standfast-{os.getuid()}").mkdir(mode=0o755)
    filing = FolderWriter(keeping(incidents_dir=str(tmp_path / "taken")), SystemClock())
    filed = [filing.file(an_incident(id=f"i{n}"), STACKS, NO_SECRETS) for n in range(3)]
    filed[-1].over.result(SECONDS)
    filing.close(SECONDS)
    assert {each.folder for each in filed} == {None}
    [told] = [record.getMessage() for record in caplog.records]
    assert told.startswith("incidents cannot be written to disk, only to the store: ")
    assert told.endswith(f"{tmp_path}/standfast-{os.getuid()} is not private to this user")


def test_a_full_disk_is_told_once_and_leaves_nothing_behind(tmp_path, caplog, monkeypatch):
    """Half a folder is none; when there is room again, folders are written again."""
    full = threading.Event()
    full.set()
    real = folders_module._write_file

    def write(file, content):
        real(file, content)
        if full.is_set() and file.name == "log.txt":
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(folders_module, "_write_file", write)
    filing = FolderWriter(keeping(), SystemClock())
    for number in range(3):
        assert filing.file(an_incident(id=f"i{number}"), STACKS, NO_SECRETS).over.result(SECONDS) is None
    filing.close(SECONDS)
    assert [record.levelno for record in caplog.records] == [logging.WARNING]
    assert "No space left" in caplog.text
    assert list((tmp_path / "state/standfast/incidents").iterdir()) == []
    full.clear()
    filed = filing.file(an_incident(id="i3"), STACKS, NO_SECRETS)
    filed.over.result(SECONDS)
    assert filed.folder.endswith("/i3")


def test_a_disk_that_hangs_delays_neither_the_supervisor_nor_the_store(monkeypatch, caplog):
    """Reports are taken in at once, the store gets them, and waiting for the disk ends."""
    go_on = threading.Event()
    monkeypatch.setattr(Folders, "write", lambda *_: go_on.wait() and "")

    async def story():
        clock = SystemClock()
        desk = IncidentRecorder(clock, Settings(), filing=FolderWriter(keeping(), clock))
        desk._filing._wishes.maxsize = 5
        backend = Shaky(clock)
        calls = StoreCalls(backend, clock, Events(), Random(1), 5.0)
        running = asyncio.create_task(desk.run(calls))
        for number in range(50):
            desk.report(an_incident(fingerprint=f"f{number}"), STACKS)
        async with asyncio.timeout(SECONDS):
            await backend.changed.wait()
        running.cancel()
        await asyncio.wait([running])
        desk.close(0.1)

    try:
        asyncio.run(story())
    finally:
        go_on.set()
    assert "the disk does not answer" in caplog.text


def test_a_folder_is_there_before_the_store_and_without_one(tmp_path):
    """A supervisor that never reaches a store leaves evidence all the same, with the whole count."""

    async def story():
        clock = SystemClock()
        desk = IncidentRecorder(clock, Settings(), filing=FolderWriter(keeping(), clock))
        first = desk.report(an_incident(), STACKS)
        desk.report(an_incident(), STACKS)
        desk.close(SECONDS)
        return first

    incident_id = asyncio.run(story())
    made = tmp_path / "state/standfast/incidents" / incident_id
    assert (made / "log.txt").read_text() == "and this it said"
    assert json.loads((made / "incident.json").read_text())["count"] == 2


def test_the_settings_of_the_app_count_as_soon_as_they_are_known(tmp_path):
    """What comes later goes where the app says."""

    async def story():
        clock = SystemClock()
        desk = IncidentRecorder(clock, Settings(), filing=FolderWriter(keeping(), clock))
        before = desk.report(an_incident(fingerprint="a"), STACKS)
        desk.close(SECONDS)
        desk.learn(Settings(incidents_dir=str(tmp_path / "own")))
        after = desk.report(an_incident(fingerprint="b"), STACKS)
        desk.close(SECONDS)
        return before, after

    before, after = asyncio.run(story())
    assert [folder.name for folder in (tmp_path / "own").iterdir()] == [after]
    assert [folder.name for folder in usual_place().iterdir()] == [before]


def test_the_secrets_of_the_jobs_are_taken_out_of_the_folder_as_soon_as_the_store_tells_them(tmp_path):
    """Whoever looked at the process knew nothing of them; the store has them, apart in the payloads."""
    secret = "pa/ss-w0rd"

    async def story():
        clock = SystemClock()
        backend = Shaky(clock)
        payload = json.dumps({"v": 1, "args": {}, "secret": {"login": {"pw": [secret]}}}).encode()
        backend.run(backend.verbs.enqueue([NewJob("job-1", "pay", payload=payload)]))
        desk = IncidentRecorder(clock, Settings(keep_incidents_for=None), filing=FolderWriter(keeping(), clock))
        running = asyncio.create_task(desk.run(StoreCalls(backend, clock, Events(), Random(1), 5.0)))
        texts = {"stacks": f"login = {secret!r}", "log": b64encode(secret.encode()).decode(), "exit": "status 9"}
        desk.report(an_incident(summary=f"of {secret}", jobs=(a_job(1), a_job(2))), Evidence(texts))
        await backend.changed.wait()
        running.cancel()
        await asyncio.wait([running])
        desk.close(SECONDS)
        return [
            record.body
            for kind in (Kind.INCIDENT, Kind.EVIDENCE)
            for record in backend.run(backend.verbs.records(kind))
        ]

    bodies = asyncio.run(story())
    files = [file for file in tmp_path.rglob("state/**/*") if file.is_file()]
    assert (len(bodies), len(files)) == (2, 4)
    for content in (*bodies, *(file.read_bytes() for file in files)):
        assert secret.encode() not in content
        assert b64encode(secret.encode()) not in content


def test_the_usual_place(monkeypatch, tmp_path):
    """The folder for state of the user; a relative one is no folder, as the standard says."""
    assert usual_place() == tmp_path / "state/standfast/incidents"
    monkeypatch.setenv("HOME", str(tmp_path))
    for state in ("relative", ""):
        monkeypatch.setenv("XDG_STATE_HOME", state)
        assert usual_place() == tmp_path / ".local/state/standfast/incidents"
