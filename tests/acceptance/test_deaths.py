"""However a child dies, it is replaced, its job goes on, nobody else is harmed, and an incident tells of it."""

import re

import deadly
import pytest
from fleet import sizes, wait_until

from standfast.model.incidents import Evidence, Incident, Trouble
from standfast.model.states import State
from standfast.observe.incidents import list_incidents, read_evidence
from standfast.stores.verb import run_procedure

HANG_LIMIT = 3

DEATHS = {
    "exit_without_a_word": (Trouble.CRASH, "exited with status 9", None),
    "touch_nothing": (Trouble.CRASH, "died of SIGSEGV", "Segmentation fault"),
    "kill_itself": (Trouble.CRASH, "died of SIGKILL", None),
    "hog_memory": (Trouble.CRASH, "died of SIGKILL", None),
    "never_let_go": (Trouble.HANG, "hung (it gave no sign of life for", "in never_let_go"),
    "block_the_loop": (Trouble.HANG, "hung (it gave no sign of life for", "in block_the_loop"),
}
"""By the name of the task: what it is called, in which words, and what its stack says if it could still speak.

What is raised outside of attempts, in threads and callbacks, ends no process: that has a test of its own.
"""

AROUND = {"exit", "log", "versions", "environment", "machine", "supervisor", "command", "limits"}
"""Parts that the evidence of every death has."""


@pytest.fixture(params=["sqlite", "postgres"])
def fleet(request, fleet_on):
    """Give an empty fleet, on one store after the other."""
    return fleet_on(None if request.param == "sqlite" else request.getfixturevalue("postgres_url"))


def incidents(fleet) -> list[Incident]:
    return list(run_procedure(fleet.app.call, list_incidents(fleet.app.verbs)))


def evidence_of(fleet, incident: Incident) -> dict[str, str]:
    evidence: Evidence = run_procedure(fleet.app.call, read_evidence(fleet.app.verbs, incident.id))
    return dict(evidence.parts)


def incident_about(fleet, job: str) -> Incident:
    """Return the only incident in which this job plays a part, once it is written."""

    def found() -> list[Incident]:
        return [each for each in incidents(fleet) if job in {one.job_id for one in each.jobs}]

    [incident] = wait_until(found, what=f"an incident about job {job}")
    return incident


@pytest.mark.parametrize("fleet", sizes(short=["postgres"], full=["sqlite", "postgres"]), indirect=True)
@pytest.mark.timeout(180)
def test_deaths(fleet):
    """Six ways to die at once, with neighbours: each job is charged one attempt and completes in another child."""
    tree = fleet.start(processes=3, concurrency=1, lease=5, hang_limit=HANG_LIMIT)
    jobs = {task: fleet.enqueue(task) for task in DEATHS}
    neighbours = [fleet.enqueue("nap", seconds=0.05) for _ in range(30)]

    for job in [*neighbours, *jobs.values()]:
        fleet.wait_for(job, State.COMPLETED)

    assert {(fleet.job(job).attempt, fleet.job(job).crashes) for job in neighbours} == {(0, 0)}
    for task, job in jobs.items():
        trouble, how, stack = DEATHS[task]
        assert (fleet.job(job).attempt, fleet.job(job).crashes) == (1, 1)
        first, second = fleet.ledger.runs_of(job)
        assert first.start.pid != second.start.pid
        incident = incident_about(fleet, job)
        parts = evidence_of(fleet, incident)
        assert incident.trouble == trouble, (task, incident, parts)
        assert how in incident.summary
        assert incident.summary.endswith(f"while it ran {task} {job}")
        assert (incident.pid, incident.worker) == (first.start.pid, fleet.history(job)[0].worker)
        [ran] = incident.jobs
        assert (ran.task, ran.fence, ran.attempt) == (task, 1, 1)
        assert parts.keys() >= AROUND, task
        assert f"WARNING deadly: the last words of {job}" in parts["log"]
        assert (stack or "") in parts.get("stacks", "")
        assert (stack is None) == ("stacks" not in parts), task
        if stack is not None:
            assert f"in {task}" in parts["stacks"]
    assert tree.process.poll() is None
    _what_only_some_have({task: evidence_of(fleet, incident_about(fleet, job)) for task, job in jobs.items()})
    assert incident_about(fleet, jobs["exit_without_a_word"]).jobs[0].progress == "1 of 4"


def _what_only_some_have(parts: dict[str, dict[str, str]]) -> None:
    """Peak memory, a verdict about memory where somebody else killed the process, and how a living one was seen."""
    peaks = {task: _peak(each["exit"]) for task, each in parts.items()}
    assert peaks["hog_memory"] >= deadly.HOG / 1024 / 1024
    assert max(peak for task, peak in peaks.items() if task != "hog_memory") < deadly.HOG / 1024 / 1024
    for task in ("kill_itself", "hog_memory"):
        assert parts[task]["memory"].startswith("out of memory: unknown: somebody sent SIGKILL")
    for task in ("never_let_go", "block_the_loop"):
        assert "memory" not in parts[task]  # it was ended by us
        assert parts[task]["coroutines"] == "(not known: there was no answer in time)"
        assert "State:" in parts[task]["process"]


def _peak(words: str) -> float:
    [found] = re.findall(r"peak memory: ([\d,.]+) MB", words)
    return float(found.replace(",", ""))


@pytest.mark.timeout(120)
def test_a_last_chance_dies_with_its_process(fleet_on):
    """A job with one attempt is dead after a crash, and the incident names it all the same."""
    fleet = fleet_on()
    fleet.start(concurrency=1, lease=5)
    job = fleet.enqueue("touch_nothing", options={"max_attempts": 1})
    fleet.wait_for(job, State.DEAD)
    assert incident_about(fleet, job).trouble is Trouble.CRASH
    assert len(fleet.ledger.runs_of(job)) == 1


@pytest.mark.timeout(120)
def test_a_lost_worker(fleet):
    """Supervisor and child are gone at once: who buries the worker says what was known of it, and what it ran."""
    lost, other = fleet.start_workers(2, lease=2)
    fleet.wait_until_it_may_bury(other)
    [job] = [fleet.enqueue("nap", seconds=600) for _ in range(1)]
    running = fleet.wait_for(job, State.RUNNING)
    victim = next(each for each in fleet.workers() if each.info.id == running.worker)
    tree = next(each for each in (lost, other) if victim.info.pid in each.members())
    tree.kill_tree()

    incident = incident_about(fleet, job)

    assert incident.trouble is Trouble.LOST
    assert incident.summary.startswith(f"worker {victim.info.id} on {victim.info.host} was not heard of for ")
    assert incident.summary.endswith(f"while it ran nap {job}")
    assert (incident.worker, incident.pid) == (victim.info.id, victim.info.pid)
    assert "last beat: " in evidence_of(fleet, incident)["worker"]
    assert [each.trouble for each in incidents(fleet)] == [Trouble.LOST]


@pytest.mark.timeout(120)
def test_a_stuck_handler(fleet_on):
    """A thread that ignores its timeout is one incident, with its stack; the end of its process is not another."""
    fleet = fleet_on()
    tree = fleet.start(lease=5, grace=0.2)
    job = fleet.enqueue("nap_deaf", seconds=600)
    incident = incident_about(fleet, job)
    assert incident.trouble is Trouble.STUCK
    assert f"cannot stop nap_deaf {job}: it ignores its timeout of 0.2 s" in incident.summary
    assert "in nap_in_thread" in evidence_of(fleet, incident)["stack"]
    wait_until(lambda: incident.pid not in tree.members(), what="the end of the stuck process")
    fleet.wait_for_start(job, runs=2)
    assert incident_about(fleet, job) == incident


@pytest.mark.timeout(120)
@pytest.mark.parametrize("fleet", sizes(short=["sqlite"], full=["sqlite", "postgres"]), indirect=True)
def test_workers_dump(fleet):
    """A living worker is pictured on demand, threads, coroutines and jobs, and goes on as if nothing had been."""
    [tree] = fleet.start_workers(1, lease=3)
    worker = fleet.worker_of(tree).info
    jobs = {task: fleet.enqueue(task, seconds=600) for task in ("nap", "nap_in_thread")}
    for job in jobs.values():
        fleet.wait_for_start(job)

    pictured = fleet.standfast_json("workers", "dump", worker.id[:12])
    told = fleet.standfast("workers", "dump", worker.id)

    parts = {name: each["text"] for name, each in pictured["evidence"].items()}
    assert (pictured["trouble"], pictured["worker"], pictured["pid"]) == ("snapshot", worker.id, worker.pid)
    assert {(job["task"], job["job"]) for job in pictured["jobs"]} == set(jobs.items())
    assert "in nap_in_thread" in parts["stacks"]
    assert f"job {jobs['nap']} of nap" in parts["coroutines"]
    assert "in nap\n" in parts["coroutines"]
    assert "State:" in parts["process"]
    assert f"worker {worker.id} was looked at while it ran" in told
    assert "in nap_in_thread" in told
    later = fleet.enqueue("nap", seconds=0)
    fleet.wait_for(later, State.COMPLETED)
    assert fleet.ledger.runs_of(later)[0].start.pid == worker.pid
    assert {(fleet.job(job).state, fleet.job(job).fence) for job in jobs.values()} == {(State.RUNNING, 1)}
    assert [each.trouble for each in incidents(fleet)] == [Trouble.SNAPSHOT] * 2
