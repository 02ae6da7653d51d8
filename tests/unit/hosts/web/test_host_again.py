"""A host may be started and stopped at any time, from anywhere, and again and again: nothing is left of it."""

import gc
import os
import signal
import threading
from pathlib import Path

import pytest
from hosting import eventually

from standfast import Standfast
from standfast.events import HostStopping, StopStage
from standfast.hosts import host as host_module
from standfast.hosts.host import Host, HostState

pytestmark = pytest.mark.timeout(120)

LONG = 60.0


@pytest.fixture
def app(tmp_path):
    with Standfast(f"sqlite:///{tmp_path}/jobs.db", grace=LONG) as app:
        yield app


def open_files():
    """Return what this process has open, by number."""
    gc.collect()
    found = {}
    for file in Path("/proc/self/fd").iterdir():
        try:
            found[int(file.name)] = str(file.readlink())
        except FileNotFoundError:
            continue  # it was that of the folder itself
    return found


def once(host):
    """Start and stop a host."""
    with host:
        assert host.ready(LONG)


def test_nothing_is_left_open(app):
    """However often it starts and stops."""
    host = Host(app)
    once(host)
    after_one = len(open_files())
    once(host)
    once(host)
    eventually(lambda: len(open_files()) <= after_one, "as few open files as after the first time", within=10)


def test_no_program_that_is_run_here_gets_our_files(app):
    """They would keep the folder of the notes, and the lines, for as long as it runs."""
    before = open_files()
    with Host(app) as host:
        assert host.ready(LONG)
        opened = [number for number, name in open_files().items() if before.get(number) != name]
        assert opened
        assert [number for number in opened if os.get_inheritable(number)] == []


def test_a_signal_handler_may_stop_it_in_the_middle_of_a_stop(app):
    """As where two signals to end come one after the other: nobody waits for himself."""
    handled = []

    def stop(*_):
        handled.append(host.state)
        host.stop()

    former = signal.signal(signal.SIGUSR1, stop)
    try:
        host = Host(app)
        host.start()
        assert host.ready(LONG)

        def interrupt(event):
            if isinstance(event, HostStopping) and event.stage is StopStage.CLAIMING:
                os.kill(os.getpid(), signal.SIGUSR1)

        app.events.subscribe(interrupt)
        host.stop()
    finally:
        signal.signal(signal.SIGUSR1, former)
    assert handled == [HostState.STOPPING]
    assert host.state is HostState.STOPPED


def test_a_start_during_a_stop_counts(app):
    """It is the later word: it waits for the stop, and then the host works."""
    begun, go, waits = threading.Event(), threading.Event(), threading.Event()

    @app.task
    def heedless() -> None:
        begun.set()
        go.wait(LONG)

    def look(event):
        if isinstance(event, HostStopping) and event.stage is StopStage.WAITING:
            waits.set()

    app.events.subscribe(look)
    host = Host(app, required=True)
    host.start()
    heedless.enqueue()
    assert begun.wait(LONG)
    stopping = threading.Thread(target=host.stop)
    stopping.start()
    assert waits.wait(LONG)
    threading.Timer(0.2, go.set).start()
    host.start()
    assert host.state is HostState.WORKING
    stopping.join(LONG)
    host.stop()


def test_work_in_the_background_that_stops_the_host_does_not_wait_for_itself(app):
    with Host(app) as host:
        assert host.ready(LONG)
        assert app.background(host.stop).result(LONG / 2) is None


def test_ready_waits_also_for_the_next_worker(app):
    """The beater is gone, and another comes: who asks then waits for it, as at the start."""
    with Host(app) as host:
        assert host.ready(LONG)
        os.kill(host.beater_pid, signal.SIGKILL)
        eventually(lambda: host.state is HostState.STARTING, "the loss is noticed")
        assert host.ready(LONG)


def test_a_fork_in_the_middle_of_a_start_leaves_a_host_that_can_be_started(app, monkeypatch):
    """Whoever held its lock is not in the forked process."""
    ended = []

    def fork():
        pid = os.fork()
        if pid == 0:
            signal.alarm(20)
            os.environ["STANDFAST_HOST"] = "off"
            host.start()
            os._exit(0 if host.state is HostState.OFF else 1)
        ended.append(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))

    def find_target(*given):
        forking = threading.Thread(target=fork)
        forking.start()
        forking.join(LONG)
        return find_it(*given)

    find_it = host_module.find_target
    monkeypatch.setattr(host_module, "find_target", find_target)
    host = Host(app)
    with host:
        assert ended == [0]
