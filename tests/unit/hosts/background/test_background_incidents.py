"""What fails in the background is in the log with its traceback, and an incident: once, and without secrets."""

import asyncio
import logging
import threading
import time
from typing import Annotated

import pytest

from standfast import Secret, Standfast
from standfast.model.incidents import Trouble
from standfast.observe.incidents import list_incidents, read_evidence
from standfast.testing import StandfastKit

LONG = 30.0
PASSWORD = "correct-horse-battery"


@pytest.fixture
def app(tmp_path):
    """Give an app that writes folders of incidents, too."""
    app = Standfast(f"sqlite:///{tmp_path}/jobs.db", incidents_dir=tmp_path / "incidents", grace=LONG)
    yield app
    app.close()


def incidents(app):
    """Return all incidents with their evidence."""
    return [
        (each, app.call(read_evidence(app.verbs, each.id)).parts) for each in app.call(list_incidents(app.verbs))
    ]


def fail(token: Annotated[str, Secret] = PASSWORD):
    """Say what nobody is to hear."""
    raise ValueError(f"cannot log in with {token}")


async def afail():
    """Fail on an event loop."""
    raise LookupError("no such room")


def test_an_exception_becomes_an_incident(app, caplog, tmp_path):
    """In the store and on disk when the app is closed, and in the log; a secret argument is in none of them."""
    works = [app.background(fail, PASSWORD), app.background.options(name="hotel")(afail)]
    assert all(work.ended(LONG) for work in works)
    app.close()
    found = {each.summary: (each, parts) for each, parts in incidents(app)}
    assert set(found) == {
        "ValueError: cannot log in with •••• in work in the background, fail",
        "LookupError: no such room in work in the background, hotel",
    }
    incident, parts = found["LookupError: no such room in work in the background, hotel"]
    assert (incident.trouble, incident.count, incident.jobs) == (Trouble.EXCEPTION, 1, ())
    assert "in afail" in parts["traceback"]
    assert f"work: {works[1].id}" in parts["context"]
    said = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert len(said) == 2
    assert all("Traceback" in record.exc_text for record in said)
    folders = [file.read_text() for file in (tmp_path / "incidents").rglob("*") if file.is_file()]
    assert folders
    assert PASSWORD not in "\n".join([caplog.text, str(incidents(app)), *folders])


def test_a_flood_is_folded(app):
    """One incident that counts."""
    for work in [app.background(afail) for _ in range(50)]:
        assert work.ended(LONG)
    app.close()
    [(incident, _)] = incidents(app)
    assert incident.count == 50


def test_failures_after_an_opening_are_told_too(app):
    """Each life of the background has who tells of it."""
    app.background(afail).ended(LONG)
    app.close()
    with app:
        app.background(fail).ended(LONG)
    assert len(incidents(app)) == 2


async def test_a_store_that_is_away_holds_up_nobody(tmp_path, caplog):
    """The loop on which it fails goes on at once, a close does not wait for it for long, and the log has it."""
    (tmp_path / "folder").mkdir()
    app = Standfast(f"sqlite:///{tmp_path}/folder", incidents_dir=tmp_path / "incidents", grace=LONG)
    longest, ends = 0.0, threading.Event()

    async def watch():
        nonlocal longest
        while not ends.is_set():
            began = time.monotonic()
            await asyncio.sleep(0)
            longest = max(longest, time.monotonic() - began)

    watching = asyncio.create_task(watch())
    work = app.background(afail)
    assert await work.aended(5)
    await app.aclose()
    ends.set()
    await watching
    assert any("no such room" in record.getMessage() for record in caplog.records)
    assert [file.name for file in (tmp_path / "incidents").rglob("incident.json")] == ["incident.json"]
    assert longest < 5  # neither the imports nor the store are waited for here; a busy machine may be slow


def test_work_of_an_attempt_names_its_job(tmp_path):
    """The incident says which job began it; a kit has it in its store, and writes no folder."""
    app = Standfast("memory://", incidents_dir=tmp_path / "incidents", grace=LONG)

    @app.task
    def handler() -> None:
        app.background(fail).ended(LONG)

    with StandfastKit(app) as kit:
        job = handler.enqueue()
        kit.drain()
        app.background.close(LONG)
        [(incident, _)] = incidents(app)
        assert [each.job_id for each in incident.jobs] == [job.id]
        assert "(handler " in incident.summary
    assert not (tmp_path / "incidents").exists()
