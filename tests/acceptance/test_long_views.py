"""A long job can be watched: how far it is, what it does, what it logged and which files it has saved."""

import hashlib
import os
import subprocess
import time
from contextlib import closing

import pytest
import views_app
from fleet import PATIENCE, sizes, wait_until

from standfast import Progress, Standfast
from standfast.durable.files import file_store_of
from standfast.model.job import ClaimRef
from standfast.model.secrets import MASK
from standfast.model.states import State
from standfast.observe.incidents import list_incidents, read_evidence
from standfast.settings import load_settings
from standfast.stores.backend import identity_of
from standfast.stores.url import open_backend
from standfast.stores.verb import run_procedure

pytestmark = pytest.mark.timeout(sizes(short=120, full=600))

TASKS = ["import_orders", "aimport_orders", "import_isolated"]
TOKEN = "hunter2-and-more"


@pytest.fixture
def fleet(fleet_on):
    """Give an empty fleet of jobs that can be watched, on a SQLite file."""
    return fleet_on(None, views_app)


@pytest.fixture(params=["postgres", "redis"])
def far_fleet(request, fleet_on):
    """Give one whose store is on a server."""
    return fleet_on(request.getfixturevalue(f"{request.param}_url"), views_app)


def waiting(fleet, job_id, note):
    """Return what `jobs show` says once the job says this, and is known to run."""

    def shown():
        story = fleet.standfast_json("jobs", "show", job_id)
        said = story["progress"] and story["progress"]["note"] == note
        return story if said and story["state"] == "running" else None

    return wait_until(shown, what=f"the note {note!r}")


@pytest.mark.parametrize("task", TASKS)
def test_a_long_job_is_watched_while_it_runs_and_afterwards(fleet, task, tmp_path):
    """In a thread, on the loop and in a process of its own; a later attempt finds what an earlier one has saved."""
    gate = tmp_path / "gate"
    fleet.start_workers(1)
    job_id = fleet.enqueue(task, gate=str(gate))
    story = waiting(fleet, job_id, "waiting in attempt 1")
    progress = {name: story["progress"][name] for name in ("done", "total", "note")}
    assert progress == {"done": 1.0, "total": 3.0, "note": "waiting in attempt 1"}
    assert [(each["name"], each["value"]["value"]) for each in story["cursors"]] == [(None, {"page": 1})]
    assert [(each["name"], each["size"]) for each in story["files"]] == [("copy.txt", 11), ("orders.csv", 12)]
    (listed,) = fleet.standfast_json("jobs", "list", "--state", "running")
    assert listed["progress"] == story["progress"]
    text = fleet.standfast("jobs", "show", job_id)
    for words in ("1 of 3 (33%): waiting in attempt 1", '{"page":1}', "orders.csv"):
        assert words in text
    assert "waiting in attempt 1" in fleet.standfast("jobs", "list")

    handle = fleet.app.handle(job_id)
    words = handle.progress(timeout=PATIENCE)
    assert next(words).note == "waiting in attempt 1"
    gate.touch()
    assert list(words)[-1] == Progress(3, 3, "all of them")
    assert handle.result(timeout=PATIENCE) == ["copy.txt", "orders.csv"]
    assert fleet.job(job_id).progress == Progress(3, 3, "all of them")
    files = handle.files()
    assert files["orders.csv"].path.read_text() == "of attempt 2"
    assert files["copy.txt"].path.read_text() == "from a path"
    assert files["copy.txt"].sha256 == hashlib.sha256(b"from a path").hexdigest()
    assert files["orders.csv"].path.is_relative_to(f"{fleet.path}-files")
    assert len(list(files["orders.csv"].path.parent.iterdir())) == 2
    text = fleet.standfast("jobs", "show", job_id, "--log")
    first, second = text.index("begins with attempt 1"), text.index("begins with attempt 2")
    assert text.index("Log of claim 1") < first < text.index("Log of claim 2") < second


def test_a_secret_is_shown_nowhere(fleet, tmp_path):
    gate = tmp_path / "gate"
    fleet.start_workers(1)
    job_id = fleet.enqueue("pay", token=TOKEN, gate=str(gate))
    story = waiting(fleet, job_id, f"pays with {MASK}")
    assert [(each["name"], each["value"]["value"]) for each in story["cursors"]] == [(None, None)]
    gate.touch()
    fleet.wait_for(job_id, State.COMPLETED)
    for words in (["jobs", "show", job_id, "--log"], ["jobs", "show", job_id, "--json"], ["jobs", "list"]):
        assert TOKEN[:9] not in fleet.standfast(*words)


def test_what_a_crashed_attempt_logged_is_kept(fleet):
    """With the attempt where its own process fell; in the evidence where the whole worker did."""
    fleet.start_workers(1)
    job_id = fleet.enqueue("fall")
    fleet.wait_for(job_id, State.DEAD)
    logs = [attempt.log.split(": ", 1)[1] for attempt in fleet.history(job_id)]
    assert logs == ["falls in attempt 1", "falls in attempt 2"]
    text = fleet.standfast("jobs", "show", job_id, "--log")
    assert text.index("Log of claim 1") < text.index("Log of claim 2")

    job_id = fleet.enqueue("fall_with_all")
    fleet.wait_for(job_id, State.DEAD)
    backend = fleet.app.backend

    def evidence():
        kept = run_procedure(backend.run, list_incidents(backend.verbs))
        mine = [each for each in kept if any(job.job_id == job_id for job in each.jobs)]
        return mine and run_procedure(backend.run, read_evidence(backend.verbs, mine[0].id)).parts

    parts = wait_until(evidence, what="the incident")
    assert any("falls in attempt 1" in text for text in parts.values())


def test_a_store_on_a_server_wants_to_be_told_the_folder(far_fleet, tmp_path):
    """Without, the first file is refused with the name of the setting; with it, files are found from elsewhere."""
    gate, folder = tmp_path / "gate", tmp_path / "shared"
    gate.touch()
    tree = far_fleet.start()
    job_id = far_fleet.enqueue("import_orders", gate=str(gate))
    job = far_fleet.wait_for(job_id, State.DEAD)
    assert "ConfigurationError: there is no folder for the files of jobs: set files" in job.error
    assert "STANDFAST_FILES" in job.error
    tree.kill_tree()

    far_fleet.start({"STANDFAST_FILES": str(folder)})
    for task in TASKS:
        job_id = far_fleet.enqueue(task, gate=str(gate))
        far_fleet.wait_for(job_id, State.COMPLETED)
        with Standfast(far_fleet.url, files=folder) as reader:
            files = reader.files(job_id)
        assert {name: each.path.read_text() for name, each in files.items()} == {
            "copy.txt": "from a path",
            "orders.csv": "of attempt 2",
        }
        assert all(each.path.is_relative_to(folder) for each in files.values())
    assert [each["name"] for each in far_fleet.standfast_json("jobs", "files", job_id)] == [
        "copy.txt",
        "orders.csv",
    ]
    with pytest.raises(subprocess.CalledProcessError) as refused:
        far_fleet.standfast("jobs", "files", job_id, "--get", "orders.csv")
    assert "STANDFAST_FILES" in refused.value.stderr


def test_a_copy_of_a_file_is_given_out(fleet, tmp_path):
    gate = tmp_path / "gate"
    gate.touch()
    fleet.start_workers(1)
    job_id = fleet.enqueue("import_orders", gate=str(gate))
    fleet.wait_for(job_id, State.COMPLETED)
    told = fleet.standfast_json("jobs", "files", job_id, "--get", "orders.csv", "--to", str(tmp_path / "mine.csv"))
    assert (tmp_path / "mine.csv").read_text() == "of attempt 2"
    assert told["sha256"] == hashlib.sha256(b"of attempt 2").hexdigest()


def test_files_of_forgotten_jobs_go_and_others_stay(fleet):
    """The supervisor looks at what it finds when it starts."""
    kept_id, gone_id, young_id = fleet.enqueue("fall"), "forgotten", "young"
    settings = load_settings({}, url=fleet.url)
    with closing(open_backend(settings)) as backend:
        identity = identity_of(backend)
    shelf = file_store_of(settings, lambda: identity)
    paths = {}
    for job_id in (kept_id, gone_id, young_id):
        paths[job_id] = shelf.find(shelf.put(ClaimRef(job_id, 1), "f", b"x")).path
        if job_id != young_id:
            os.utime(paths[job_id].parent, (time.time() - 3_600,) * 2)
    fleet.start_workers(1)
    wait_until(lambda: not paths[gone_id].parent.exists(), what="the end of the forgotten files")
    assert paths[kept_id].exists()
    assert paths[young_id].exists()
