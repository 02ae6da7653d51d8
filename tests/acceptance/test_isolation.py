"""Isolated tasks: whatever a handler does to its process, it does to no other, and it can be ended for real."""

import os
import re
import signal
import subprocess
import time
from urllib.parse import urlsplit

import isolation_app
import pytest
from fleet import sizes, wait_until

from standfast.model.incidents import Trouble
from standfast.model.job import Progress
from standfast.model.states import State
from standfast.observe.incidents import list_incidents, read_evidence
from standfast.stores.verb import run_procedure

pytestmark = pytest.mark.timeout(sizes(short=120, full=600))


STORES = ["sqlite", "postgres"]


@pytest.fixture(params=STORES)
def isolated(request, fleet_on):
    """Give an empty fleet of isolated tasks, on one store after the other."""
    url = None if request.param == "sqlite" else request.getfixturevalue("postgres_url")
    return fleet_on(url, isolation_app)


@pytest.fixture
def isolated_here(fleet_on):
    """Give an empty fleet of isolated tasks on a SQLite file."""
    return fleet_on(None, isolation_app)


EACH_STORE_ONCE = pytest.mark.parametrize(
    ("isolated", "task"), [("sqlite", "obey"), ("postgres", "ignore")], indirect=["isolated"]
)
"""How a handler ends is up to its worker, whatever the store."""


def is_alive(pid):
    """Tell whether there is such a process; one that has ended and waits to be reaped is none."""
    listed = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], check=False, capture_output=True, text=True)
    return bool(listed.stdout.strip()) and not listed.stdout.startswith("Z")


def cells_of(worker_pid):
    """Return the cells of a worker."""
    listed = subprocess.run(["ps", "-eo", "pid=,ppid=,stat=,args="], check=True, capture_output=True, text=True)
    rows = [line.split(maxsplit=3) for line in listed.stdout.splitlines()]
    return [
        int(pid) for pid, parent, stat, args in rows if "hosts.subprocess" in args and int(parent) == worker_pid
    ]


def numbers_in(fleet, name):
    """Return the numbers that a handler leaves in a file, once it has."""
    file = fleet.ledger.path.with_name(name)
    wait_until(file.exists, what=name)
    return [int(number) for number in file.read_text().split()]


def incident_of(fleet, job_id, trouble):
    """Return the incident that names a job, with its evidence, once there is one."""
    backend = fleet.app.backend

    def found():
        incidents = run_procedure(backend.run, list_incidents(backend.verbs))
        return next((each for each in incidents if job_id in [job.job_id for job in each.jobs]), None)

    incident = wait_until(found, what=f"an incident of {job_id}")
    assert incident.trouble is trouble
    return incident, run_procedure(backend.run, read_evidence(backend.verbs, incident.id)).parts


@pytest.mark.parametrize("isolated", sizes(short=["sqlite"], full=STORES), indirect=True)
def test_typed_result_comes_back(isolated):
    """Sync or async, a result is what its annotation says; context, middleware and lifespan are there."""
    tree = isolated.start()
    tasks = isolated.app.tasks
    results = [
        tasks[name].options(metadata={"tenant": "acme"}).enqueue(a=1, b=2).result(60) for name in ("add", "aadd")
    ]

    worker = isolated.worker_of(tree)
    for result in results:
        assert isinstance(result, isolation_app.Sum)
        assert (result.total, result.tenant) == (3, "acme")
        assert result.opened_in == result.pid != worker.info.pid
    for job in isolated.jobs():
        [attempt] = isolated.history(job.id)
        assert "WARNING standfast.job: adding 1 and 2" in attempt.log


def test_a_cell_is_warm_and_used_again(isolated_here):
    """Jobs one after the other need no new process each."""
    isolated_here.start(concurrency=1)
    add = isolated_here.app.tasks["add"]
    assert len({add.enqueue(a=1, b=2).result(60).pid for _ in range(5)}) == 1


@pytest.mark.parametrize("isolated", sizes(short=["postgres"], full=STORES), indirect=True)
def test_timeout_ends_the_whole_group(isolated):
    """A handler that heeds nothing is ended at its timeout with its subprocess; others in the worker go on."""
    tree = isolated.start(concurrency=4)
    worker = isolated.worker_of(tree)
    beside = [isolated.enqueue("nap_beside", seconds=4.0), isolated.enqueue("nap", seconds=4.0)]
    for job in beside:
        isolated.wait_for_start(job)
    job = isolated.enqueue("spin_with_subprocess")
    spinning = numbers_in(isolated, "spinning")

    done = isolated.wait_for(job, State.DEAD)

    assert done.error == "TimeoutError: ran longer than its timeout of 1 s"
    wait_until(lambda: not any(map(is_alive, spinning)), within=10, what="the end of the group")
    for other in beside:
        assert isolated.wait_for(other, State.COMPLETED).fence == 1
    assert isolated.worker_of(tree).info.id == worker.info.id
    incident, evidence = incident_of(isolated, job, Trouble.TIMEOUT)
    assert "in spin_with_subprocess" in evidence["stacks"]
    assert "SIGKILL" in evidence["exit"]
    assert (incident.jobs[0].task, incident.jobs[0].attempt) == ("spin_with_subprocess", 1)


def test_timeout_tells_where_a_coroutine_was(isolated_here):
    """A coroutine that swallows its cancellation is ended too, and the evidence names its line."""
    isolated_here.start()
    job = isolated_here.enqueue("await_for_ever")

    isolated_here.wait_for(job, State.DEAD)

    _, evidence = incident_of(isolated_here, job, Trouble.TIMEOUT)
    assert "in await_for_ever" in evidence["coroutine"]
    [attempt] = isolated_here.history(job)
    assert "in await_for_ever" in attempt.traceback


@pytest.mark.parametrize(
    ("isolated", "how", "words", "stack"),
    [
        ("sqlite", "segv", "was ended by SIGSEGV", "in die"),
        ("postgres", "exit", "exited with status 7", ""),
        ("sqlite", "kill", "was ended by SIGKILL", ""),
    ],
    indirect=["isolated"],
)
def test_a_crash_harms_nothing_else(isolated, how, words, stack):
    """A process that dies ends its attempt, which is charged and tried again; nobody else notices."""
    tree = isolated.start(concurrency=4)
    worker = isolated.worker_of(tree)
    beside = [isolated.enqueue("nap_beside", seconds=2.0), isolated.enqueue("nap", seconds=2.0)]
    for job in beside:
        isolated.wait_for_start(job)
    job = isolated.enqueue("die", how=how)

    done = isolated.wait_for(job, State.DEAD)

    assert done.error == f"Crash: its process {words}"
    assert (done.attempt, done.crashes, done.group) == (2, 0, 0)
    first, _ = isolated.history(job)
    assert (first.how, first.error) == ("retry", done.error)
    assert f"WARNING app: about to die by {how}" in first.log
    assert stack in first.traceback
    for other in beside:
        assert isolated.wait_for(other, State.COMPLETED).fence == 1
    assert isolated.worker_of(tree).info.id == worker.info.id
    incident, evidence = incident_of(isolated, job, Trouble.CRASH)
    assert words in incident.summary
    assert incident.jobs[0].progress == "3 of 7"
    assert re.search(rf"{words}; it took at most \d+ MB", evidence["exit"])
    assert "about to die" in evidence["log"]


@pytest.mark.parametrize(
    ("isolated", "task"),
    [("postgres", "take_at_once"), ("sqlite", "take_in_steps"), ("sqlite", "take_in_subprocess")],
    indirect=["isolated"],
)
def test_memory_is_capped(isolated, task):
    """A 1 GB allocation in a task with 256 MB fails that attempt, whichever way it is made, and nothing else."""
    tree = isolated.start(concurrency=4)
    worker = isolated.worker_of(tree)
    beside = [isolated.enqueue("nap_beside", seconds=1.0), isolated.enqueue("nap", seconds=1.0)]
    job = isolated.enqueue(task)

    done = isolated.wait_for(job, State.DEAD)

    said = re.fullmatch(r"MemoryError: out of memory \(limit 256 MB, peak (\d+) MB\)", done.error)
    assert said is not None, done.error
    assert int(said[1]) < 512
    for other in beside:
        assert isolated.wait_for(other, State.COMPLETED).fence == 1
    assert isolated.worker_of(tree).info.id == worker.info.id
    if task == "take_at_once":  # it was refused, not taken back: the line that asked for it is known
        assert "in take_at_once" in isolated.history(job)[0].traceback.partition("Traceback (most recent")[2]
    incident, _ = incident_of(isolated, job, Trouble.OUT_OF_MEMORY)
    assert "out of memory (limit 256 MB" in incident.summary


def test_the_limit_is_that_of_the_task(isolated_here):
    """The same cell gives the next task all the memory that it wants; after an excess there is another one."""
    isolated_here.start(concurrency=1)
    limited, unlimited = isolated_here.app.tasks["take_within_limit"], isolated_here.app.tasks["take"]
    assert limited.enqueue(megabytes=100).result(60) == (first := unlimited.enqueue(megabytes=600).result(60))
    isolated_here.wait_for(isolated_here.enqueue("take_at_once"), State.DEAD)
    assert unlimited.enqueue(megabytes=600).result(60) != first


@pytest.mark.parametrize("isolated", sizes(short=["sqlite"], full=STORES), indirect=True)
def test_policy_holds_as_for_other_tasks(isolated):
    """retry_on, discard_on, attempts, backoff and outcomes mean what they mean elsewhere."""
    isolated.start()
    retried, discarded, dead = (isolated.enqueue("go_wrong", kind=kind) for kind in ("os", "key", "value"))
    snoozed = isolated.enqueue("snooze_once")

    done = isolated.wait_for(retried, State.DEAD)
    assert (done.attempt, done.error) == (3, "OSError: on purpose")
    assert 'raise {"os": OSError' in isolated.history(retried)[0].traceback
    assert isolated.wait_for(discarded, State.CANCELLED).reason == "discarded"
    assert isolated.wait_for(dead, State.DEAD).attempt == 1
    done = isolated.wait_for(snoozed, State.COMPLETED)
    assert (done.fence, done.attempt) == (2, 0)


@pytest.mark.parametrize("isolated", sizes(short=["sqlite"], full=STORES), indirect=True)
def test_a_result_that_would_be_read_back_changed_fails_in_its_cell(isolated):
    """The result is checked where it is made, as elsewhere: not where somebody asks for it."""
    isolated.start()
    done = isolated.wait_for(isolated.enqueue("return_another_type"), State.DEAD)
    assert done.error.startswith(
        "ResultEncodingError: the result was given as LargeSum but would be read back as Sum"
    )


def test_secrets_stay_secret(isolated_here):
    """What is marked as a secret is neither in the error, nor in the log, nor in what the worker prints."""
    tree = isolated_here.start()
    job = isolated_here.enqueue("fail_with_secret", password="correct-horse")

    done = isolated_here.wait_for(job, State.DEAD)

    told = [done.error, *(f"{each.error}{each.traceback}{each.log}" for each in isolated_here.history(job))]
    assert "RuntimeError" in done.error
    assert "WARNING app: the password is" in told[-1]
    assert "correct-horse" not in "".join(told) + tree.told


def test_a_transaction_completes_the_job_from_its_cell(isolated, request):
    """Rows of the handler's own and the completion of its job commit together, fenced as anywhere."""
    isolated.app.prepare()
    if isolated.url.startswith("sqlite"):
        database, table = str(isolated.path), "isolated_orders"
    else:
        database = urlsplit(isolated.url)._replace(query="").geturl()
        table = f"{request.getfixturevalue('postgres_schema')}.isolated_orders"
    own = isolation_app.connect(database)
    own.execute(f"CREATE TABLE {table} (id INTEGER PRIMARY KEY)")
    tree = isolated.start()
    job = isolated.app.tasks["write_order"].enqueue(database=database, table=table)

    result = job.result(60)

    assert result.startswith("written in ")
    assert result != f"written in {isolated.worker_of(tree).info.pid}"
    assert own.execute(f"SELECT id FROM {table}").fetchall() == [(7,)]
    own.close()
    [attempt] = isolated.history(job.id)
    assert attempt.how == "complete"


@EACH_STORE_ONCE
def test_cancel_ends_a_running_job(isolated, task):
    """A cancelled coroutine ends at once, and may tidy up; who does not heed it is ended after the grace."""
    tree = isolated.start(grace=1)
    job = isolated.enqueue(task)
    isolated.wait_for_start(job)
    [run] = isolated.ledger.runs_of(job)
    wait_until(lambda: isolated.job(job).progress == Progress(1, 2), what="its progress")

    isolated.app.handle(job).cancel()

    assert isolated.wait_for(job, State.CANCELLED).reason == "requested"
    wait_until(lambda: not is_alive(run.start.pid), what="the end of its process")
    assert (isolated.ledger.runs_of(job)[0].end is not None) == (task == "obey")
    assert isolated.app.tasks["add"].enqueue(a=1, b=2).result(60).total == 3
    assert tree.process.poll() is None


def test_a_job_that_ignores_its_cancellation_can_be_killed(isolated_here):
    """At once, whatever the grace is. Who shares a process with others is refused, with what to do instead."""
    tree = isolated_here.start(grace=300, lease=3)
    job, beside = isolated_here.enqueue("ignore"), isolated_here.enqueue("ignore_beside")
    for each in (job, beside):
        isolated_here.wait_for_start(each)
    [run] = isolated_here.ledger.runs_of(job)

    [told] = isolated_here.standfast_json("jobs", "cancel", "--kill", job)
    assert (told["id"], told["answer"]) == (job, "killed")
    with pytest.raises(subprocess.CalledProcessError) as refused:
        isolated_here.standfast("jobs", "cancel", "--kill", beside)
    assert f"`standfast workers recycle --job {beside}`" in refused.value.stderr

    assert isolated_here.job(job).state is State.CANCELLED
    wait_until(lambda: not is_alive(run.start.pid), what="the end of its process")
    assert tree.process.poll() is None


@EACH_STORE_ONCE
def test_a_stop_gives_running_jobs_back(isolated, task):
    """A worker that stops gives the job back, charged nothing, once its process is gone; and no cell remains."""
    tree = isolated.start(grace=1)
    worker_pid = isolated.child_pid_of(tree)
    job = isolated.enqueue(task)
    isolated.wait_for_start(job)
    cells = cells_of(worker_pid)
    assert isolated.ledger.runs_of(job)[0].start.pid in cells

    tree.signal_supervisor(signal.SIGTERM)

    assert tree.exit_code() == 0
    assert not any(map(is_alive, cells))
    back = isolated.job(job)
    assert (back.state, back.attempt, back.crashes) == (State.READY, 0, 0)


@pytest.mark.parametrize(("task", "arguments"), [("ignore", {}), ("hold_interpreter", {"seconds": 60})])
def test_no_cell_outlives_its_worker(isolated_here, task, arguments):
    """The worker is killed: its cells are gone at once, even one that holds the interpreter, and its subprocess."""
    tree = isolated_here.start()
    worker_pid = isolated_here.child_pid_of(tree)
    job = isolated_here.enqueue(task, **arguments)
    isolated_here.wait_for_start(job)
    cells = cells_of(worker_pid)
    assert len(cells) >= 2, "one that runs, and one to spare"
    started = cells + (numbers_in(isolated_here, "holding") if task == "hold_interpreter" else [])

    os.kill(worker_pid, signal.SIGKILL)

    wait_until(lambda: not any(map(is_alive, started)), within=10, what="the end of all that it started")
    isolated_here.wait_for_start(job, runs=2)
    again = isolated_here.job(job)
    assert (again.attempt, again.crashes) == (0, 0), "its code did not run in the process that died"


def test_a_job_that_finds_no_process_is_put_off(isolated_here):
    """While no process can be started, jobs wait and are charged nothing; the log says why; then they run."""
    closed = isolated_here.ledger.path.with_name("closed")
    closed.touch()
    job = isolated_here.enqueue("add", a=1, b=2)
    tree = isolated_here.start()
    wait_until(lambda: isolated_here.job(job).fence, what="a claim of the job")
    wait_until(lambda: isolated_here.job(job).state is State.SCHEDULED, what="that it is put off")
    assert "open_here failed: ConnectionError: the database is away" in tree.told

    closed.unlink()

    assert isolated_here.wait_for(job, State.COMPLETED).attempt == 0


def test_a_last_chance_is_not_spent_on_waiting_for_a_process(isolated_here):
    """The worker is killed while a job that may start once waits for its process: it has not started, and does."""
    slow = isolated_here.ledger.path.with_name("slow")
    slow.touch()
    job = isolated_here.enqueue("noop_once")
    worker_pid = isolated_here.child_pid_of(isolated_here.start())
    wait_until(lambda: isolated_here.job(job).fence, what="a claim of the job")
    claimed = time.monotonic()
    wait_until(lambda: time.monotonic() > claimed + 0.5, what="that it would have been marked")

    os.kill(worker_pid, signal.SIGKILL)
    slow.unlink()

    assert isolated_here.wait_for(job, State.COMPLETED, State.DEAD).state is State.COMPLETED


@pytest.mark.parametrize("then", ["kept", "deleted"])
def test_cells_start_where_their_worker_did(isolated_here, tmp_path, then):
    """Wherever a handler has taken the worker: nothing there is imported, and it need not even be there."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    stranger = elsewhere / "asyncio.py"
    stranger.write_text("raise SystemExit('imported by accident')")
    isolated_here.start(concurrency=1)
    folder = isolated_here.app.tasks["folder"]
    before = folder.enqueue().result(60)
    isolated_here.wait_for(isolated_here.enqueue("go_elsewhere", folder=str(elsewhere)), State.COMPLETED)
    if then == "deleted":
        stranger.unlink()
        elsewhere.rmdir()

    isolated_here.wait_for(isolated_here.enqueue("die", how="exit"), State.DEAD)

    assert folder.enqueue().result(20) == before


def test_throughput(isolated_here, measured, capsys):
    """Jobs that do nothing, in processes of their own: how many a second."""
    jobs = sizes(short=100, full=3_000)
    noop = isolated_here.app.tasks["noop"]
    noop.enqueue_many([{}] * jobs)
    isolated_here.start(concurrency=2)
    wait_until(lambda: isolated_here.count(State.COMPLETED) > 0)
    begun, before = time.monotonic(), isolated_here.count(State.COMPLETED)
    isolated_here.wait_for_completed(jobs)
    figures = f"{(jobs - before) / (time.monotonic() - begun):,.0f} isolated jobs a second, 2 at a time"
    measured(figures)
    with capsys.disabled():
        print(f"\n{figures}")  # noqa: T201 - it is what the test is for
