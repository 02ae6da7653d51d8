"""Whatever ends a worker leaves an incident behind, in every store and on disk, and everything leads to it."""

import json
import re
from pathlib import Path

import pytest
from fleet import sizes, wait_until
from shopfloor import STANDFAST, Worker, environment

from standfast.model.states import State
from standfast.observe.incidents import list_incidents
from standfast.stores.verb import run_procedure


def test_a_crash_is_an_incident_that_its_job_leads_to(fleet_on_each_store):
    """The error of the job, its page and the list of the dead name it; the store and the folder have the same."""
    fleet = fleet_on_each_store
    poison = fleet.enqueue("exit_nine", options={"max_attempts": 1})
    [tree] = fleet.start_workers(1, lease=2)

    dead = fleet.wait_for(poison, State.DEAD)
    listed = wait_until(lambda: fleet.standfast_json("incidents", "list", "--job", poison), what="the incident")

    [short] = re.findall(r"\(incident (\w{8})\)", dead.error)
    shown = fleet.standfast_json("incidents", "show", short)
    assert shown["id"] in [each["id"] for each in listed]
    assert shown["trouble"] == "crash"
    assert [(job["job"], job["task"], job["state"]) for job in shown["jobs"]] == [(poison, "exit_nine", "dead")]
    assert "its process exited with status 9" in shown["evidence"]["exit"]["text"]
    assert fleet.standfast_json("jobs", "show", poison)["incidents"] == [each["id"] for each in listed]
    assert fleet.standfast_json("dead", "list")[0]["incidents"] == [each["id"] for each in listed]
    assert f"(incident {short})" in tree.told
    assert json.loads(Path(shown["folder"], "incident.json").read_text())["id"] == shown["id"]


@pytest.mark.timeout(180)
@pytest.mark.parametrize(
    "fleet_on_each_store", sizes(short=["redis"], full=["sqlite", "postgres", "redis"]), indirect=True
)
def test_deaths_of_one_cause_are_one_incident_that_counts(fleet_on_each_store):
    """Jobs of one task end their processes in one way: each leads to the one incident, which has all of them."""
    fleet = fleet_on_each_store
    jobs = [fleet.enqueue("exit_nine", options={"max_attempts": 1}) for _ in range(3)]
    fleet.start_workers(1, lease=2, concurrency=1)

    dead = [fleet.wait_for(job, State.DEAD) for job in jobs]

    def counted() -> bool:
        return len(jobs) in [each.count for each in run_procedure(fleet.app.call, list_incidents(fleet.app.verbs))]

    wait_until(counted, what="an incident that counts all")
    [incident] = fleet.standfast_json("incidents", "list")
    assert incident["count"] == len(jobs)
    assert {each["job"] for each in incident["jobs"]} == set(jobs)
    assert {each.error for each in dead} == {f"its process exited with status 9 (incident {incident['id'][-8:]})"}
    for job in jobs:
        shown = fleet.standfast_json("jobs", "show", job)
        assert (shown["incidents"], shown["forgotten_incidents"]) == ([incident["id"]], [])


def test_a_worker_that_never_reaches_its_store_leaves_its_incidents_on_disk(tmp_path):
    """An app that ends its process when it is imported: there is nowhere to write to, and evidence all the same."""
    summaries = left_behind(tmp_path, "import os\n\nos._exit(7)\n")
    assert sum(each["count"] for each in summaries) == 5
    assert {each["trouble"] for each in summaries} == {"crash"}
    assert all("exited with status 7" in each["summary"] for each in summaries)


def test_a_mistake_at_the_start_is_no_incident(tmp_path):
    """It is told on the console, to who made it."""
    assert left_behind(tmp_path, "import no_such_module\n") == []


def left_behind(folder, source):
    """Return the incidents on disk of a worker whose app is this, and which cannot start."""
    (folder / "shop.py").write_text(source)
    state = folder / "state"
    command = [STANDFAST, "worker", "shop:app", "--app-dir", str(folder)]
    worker = Worker(command, folder / "log", environment(TMPDIR=str(folder), XDG_STATE_HOME=str(state)))
    try:
        assert worker.wait() == 2, worker.words
    finally:
        worker.kill()
    return [json.loads(file.read_text()) for file in state.glob("standfast/incidents/*/incident.json")]
