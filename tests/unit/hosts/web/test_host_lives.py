"""A worker inside another process lives and dies with it, and loses nothing: real processes, real signals."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from hosting import HERE, eventually, is_gone

from standfast.model.records import Kind
from standfast.model.states import State
from standfast.observe.catalogue import read_catalogue

pytestmark = pytest.mark.timeout(120)


def began(hosted, name):
    file = hosted.HERE / name
    return len(file.read_text().splitlines()) if file.exists() else 0


def test_jobs_run_in_threads_of_the_host(hosted, host_script):
    """Plain functions and coroutines run in this very process, and in no thread of its own; a stop ends all."""
    script = host_script()
    beater = script.start()
    pid, thread = hosted.whoami.enqueue().result(timeout=30)
    assert int(pid) == script.pid
    assert thread.startswith("standfast-job")
    assert hosted.whose_loop.enqueue().result(timeout=30).startswith("standfast-host")
    look = hosted.app.call
    [worker] = eventually(lambda: [each for each in look(hosted.app.verbs.workers()) if each.vitals])
    assert worker.vitals.memory > 10_000_000, "that of the host"
    assert "whoami" in eventually(
        lambda: [known.task.name for known in look(read_catalogue(hosted.app.verbs)).tasks],
        "its tasks are published",
    )
    assert script.ask("stop")["state"] == "stopped"
    assert is_gone(beater)
    assert [name for name in script.ask("state")["threads"] if name.startswith("standfast-host")] == []
    assert hosted.app.call(hosted.app.verbs.workers()) == ()

    second = script.start()
    assert second != beater
    assert hosted.whoami.enqueue().result(timeout=30)[0] == str(script.pid)


def test_a_killed_host_gives_back_its_jobs_at_once(hosted, host_script):
    """Its beater has seen the death: the lease of an hour is not waited for. Then the beater ends, too."""
    script = host_script(host_test_lease=3600)
    beater = script.start()
    job = hosted.heedless.enqueue("go")
    eventually(lambda: began(hosted, "heedless-began"))
    script.kill()
    eventually(lambda: job.job().state is State.READY, "the job is ready again", within=20)
    eventually(lambda: is_gone(beater), "the end of the beater")
    found = job.job()
    assert (found.attempt, found.crashes) == (1, 1), "as that of any crash"

    other = host_script()
    other.start()
    eventually(lambda: began(hosted, "heedless-began") == 2, "the next attempt")
    (hosted.HERE / "go").touch()
    assert job.result(timeout=30) == "2"
    *_, second = (hosted.HERE / "heedless-began").read_text().split()
    assert int(second) != other.pid, "what may have killed a host runs in a process of its own"


def test_the_death_of_a_host_is_told_with_its_signal_and_its_line(hosted, host_script):
    """As that of a process of `standfast worker`: the beater asks the kernel, and reads what the host wrote."""
    script = host_script()
    beater = script.start()
    job = hosted.segfaults.enqueue()
    assert script.process.wait(60) == -signal.SIGSEGV
    eventually(lambda: is_gone(beater), "the end of the beater")
    [attempt] = hosted.app.call(hosted.app.verbs.history(job.id))
    assert "ended by SIGSEGV" in attempt.error
    [record] = hosted.app.call(hosted.app.verbs.records(Kind.INCIDENT))
    incident = msgspec.json.decode(record.body)
    assert "died of SIGSEGV while it ran segfaults" in incident["summary"]
    stacks = (Path(incident["folder"]) / "stacks.txt").read_text()
    assert re.search(r'File ".*host_jobs.py", line \d+ in segfaults', stacks), stacks


def test_a_stop_tells_handlers_and_charges_nothing(hosted, host_script):
    """The handler saw its cancel token, its job is ready again, and the log tells of it in three lines."""
    script = host_script()
    script.start()
    job = hosted.heedful.enqueue()
    eventually(lambda: began(hosted, "heedful-began"))
    script.ask("stop")
    assert began(hosted, "heedful-told") == 1
    found = job.job()
    assert (found.state, found.attempt, found.crashes) == (State.READY, 0, 0)
    _works, *said = script.words.splitlines()
    expected = ["takes no more jobs (1 job running)", "waits for running jobs", "the host has stopped"]
    assert len(said) == 3, said
    assert [words in line for words, line in zip(expected, said, strict=True)] == [True] * 3


def test_a_handler_that_does_not_stop_is_given_back_when_its_process_is_gone(hosted, host_script):
    """Not earlier: its code may still run. The stop itself ends, and nothing is charged."""
    script = host_script(grace=0.1, host_test_lease=3600)
    beater = script.start()
    job = hosted.heedless.enqueue("never")
    eventually(lambda: began(hosted, "heedless-began"))
    assert script.ask("stop")["state"] == "stopped"
    assert job.job().state is State.RUNNING
    assert not is_gone(beater)
    script.say("exit")
    eventually(lambda: job.job().state is State.READY, "the job is ready again", within=20)
    found = job.job()
    assert (found.attempt, found.crashes) == (0, 0)
    eventually(lambda: is_gone(beater), "the end of the beater")


def test_a_handler_that_ends_after_the_stop_has_its_result_written(hosted, host_script):
    """Its claim is kept for as long as it runs, so it need not run twice."""
    script = host_script(grace=0.1)
    beater = script.start()
    job = hosted.heedless.enqueue("go")
    eventually(lambda: began(hosted, "heedless-began"))
    script.ask("stop")
    (hosted.HERE / "go").touch()
    assert job.result(timeout=30) == "1"
    eventually(lambda: is_gone(beater), "the end of the beater")


def test_a_killed_beater_is_replaced(hosted, host_script):
    """The worker that it beat for ends as soon as it knows, and another begins: what comes next runs here."""
    script = host_script()
    beater = script.start()
    os.kill(beater, signal.SIGKILL)
    eventually(lambda: script.ask("state")["beater"] not in {None, beater}, "another beater")
    script.beaters.append(script.ask("state")["beater"])
    assert hosted.whoami.enqueue().result(timeout=60)[0] == str(script.pid)
    assert "the beater is gone" in script.words
    assert script.ask("stop")["state"] == "stopped"


def test_a_host_that_stood_still_comes_back_as_another_worker(hosted, host_script):
    """Longer than the hang limit and the lease: its job goes to another process, its own late word is refused, and
    then it works again."""
    short = {"host_test_lease": 2, "host_test_hang_limit": 1}
    script = host_script(**short)
    script.start()
    job = hosted.heedless.enqueue("go")
    eventually(lambda: began(hosted, "heedless-began"))
    other = host_script(**short)
    other.start()
    script.kill(signal.SIGSTOP)
    eventually(lambda: began(hosted, "heedless-began") == 2, "the job runs elsewhere")
    (hosted.HERE / "go").touch()
    assert job.result(timeout=30) == "2"
    other.ask("stop")

    script.kill(signal.SIGCONT)
    eventually(lambda: began(hosted, "heedless-lost"), "the first run knows that it was lost")
    assert job.result(timeout=30) == "2"
    assert hosted.whoami.enqueue().result(timeout=60)[0] == str(script.pid)


def test_a_handler_that_blocks_its_loop_does_not_keep_the_host_from_working(hosted, host_script):
    """Nobody beats for it any more, an incident is opened, and another worker begins beside it."""
    script = host_script(host_test_hang_limit=1)
    script.start()
    hosted.blocking.enqueue("go")
    eventually(lambda: began(hosted, "blocking-began"))
    assert hosted.whoami.enqueue().result(timeout=60)[0] == str(script.pid)
    assert "nobody beats for it any more" in script.words
    incidents = eventually(lambda: hosted.app.call(hosted.app.verbs.records(Kind.INCIDENT)), "an incident")
    assert any(b"is beaten for no longer" in record.body for record in incidents)
    (hosted.HERE / "go").touch()


def test_a_forked_process_has_no_host(hosted, host_script):
    """It may stop what it believes to have: that of its parent goes on."""
    script = host_script()
    beater = script.start()
    assert script.ask("fork")["state"] == "new"
    assert script.ask("state")["beater"] == beater
    assert hosted.whoami.enqueue().result(timeout=30)[0] == str(script.pid)


def test_a_host_that_runs_another_program_has_left_its_jobs(hosted, host_script):
    """Its number lives on, so nothing tells its end but its lines: the lease is waited for, and no grace before."""
    script = host_script(grace=60.0, host_test_lease=2)
    script.start()
    job = hosted.heedless.enqueue("go")
    eventually(lambda: began(hosted, "heedless-began"))
    other = host_script(host_test_lease=2)
    other.start()
    script.say("exec")
    eventually(lambda: began(hosted, "heedless-began") == 2, "the job runs elsewhere", within=45)
    assert script.process.poll() is None
    (hosted.HERE / "go").touch()
    assert job.result(timeout=30) == "2"


def test_a_beater_does_not_care_where_it_starts(hosted, host_script):
    """The folder in which a server is started may have modules that are named as Python's own."""
    for name in ("random", "socket", "logging"):
        (hosted.HERE / f"{name}.py").write_text("raise SystemExit('this is not Python')")
    host_script().start()
    assert hosted.whoami.enqueue().result(timeout=30)


def test_at_its_end_a_process_gets_no_worker(hosted):
    """Nobody would stop it: that is said at once, and nothing is begun, here or in the background."""
    lines = (
        "import atexit, threading",
        "from host_jobs import app",
        "from standfast.hosts import Host",
        "host = Host(app)",
        "def late(begin, *args):",
        "    try:",
        "        begin(*args)",
        "    except Exception as error:",
        "        print(type(error).__name__, host.state, threading.active_count())",
        "atexit.register(late, host.start)",
        "atexit.register(late, app.background, print, 'it runs')",
        "atexit.register(late, app.background, print, 'it runs')",
    )
    said = subprocess.run(
        [sys.executable, "-c", "\n".join(lines)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "HOST_TEST_FOLDER": str(hosted.HERE)},
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert said.splitlines() == [*["BackgroundClosedError new 1"] * 2, "StandfastError new 1"]


def test_the_end_of_the_interpreter_stops_the_host(hosted, host_script):
    """Nobody called stop: the handler is told all the same, and nothing is charged."""
    script = host_script()
    beater = script.start()
    job = hosted.heedful.enqueue()
    eventually(lambda: began(hosted, "heedful-began"))
    script.say("exit")
    assert script.process.wait(60) == 0
    assert began(hosted, "heedful-told") == 1
    assert job.job().attempt == 0
    eventually(lambda: is_gone(beater), "the end of the beater")


def test_the_end_of_a_python_that_starts_no_threads_then_stops_the_host(hosted, host_script):
    """As Python 3.12.1, where each stop of a WSGI server was a crash. The job goes back, and nothing is charged.

    Work in the background is told, too, and its failure is written down.
    """
    script = host_script()
    script.say("spare")
    beater = script.start()
    job = hosted.heedful.enqueue()
    eventually(lambda: began(hosted, "heedful-began"))
    script.say("end without threads")
    assert script.process.wait(60) == 0, script.words
    eventually(lambda: is_gone(beater), "the end of the beater")
    found = job.job()
    assert (found.state, found.attempt, found.crashes) == (State.READY, 0, 0), script.words
    assert began(hosted, "heedful-told") == 1
    incidents = hosted.app.call(hosted.app.verbs.records(Kind.INCIDENT))
    assert [b"LookupError: told" in each.body for each in incidents] == [True], script.words


def test_hosts_of_one_process_stop_together_at_its_end(tmp_path):
    """Each would use its grace, one after the other: the server that ends the process allows for one."""
    said = subprocess.run(
        [sys.executable, str(HERE / "two_hosts.py")],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "HOST_TEST_FOLDER": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert said.splitlines() == ["told together"] * 2


def test_what_a_handler_left_behind_is_heard(hosted, host_script):
    """An exception in a thread that it has started is told in the host's log, with the job."""
    script = host_script()
    script.start()
    hosted.leaves_thread.enqueue().result(timeout=30)
    eventually(lambda: "nobody could hear this: LookupError" in script.words, "the exception is told")
