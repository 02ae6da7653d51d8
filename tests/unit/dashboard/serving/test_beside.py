"""The dashboard beside the workers: started again when it is killed, and gone when they are, however they end."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from standfast.dashboard.serving import sidecar
from standfast.dashboard.serving.sidecar import STAYS_WITH, dashboard_sidecar

PATIENCE = 30.0
PROGRAM = """
import os, signal, sys, threading
from pathlib import Path
from standfast.dashboard.serving.sidecar import end_with_starter
end_with_starter(lambda: os._exit(0))
Path(sys.argv[-1]).open("a").write(f"{os.getpid()}\\n")
threading.Event().wait()
"""
"""Stands for the dashboard: it does with its starter what the real one does, and takes a moment to start."""

STARTER = f"""
import sys, threading
from standfast.dashboard.serving import sidecar as beside
beside._RUN = {PROGRAM!r}
with beside.dashboard_sidecar([sys.argv[1]], {{}}):
    threading.Event().wait()
"""


@pytest.fixture
def pids(tmp_path, monkeypatch):
    monkeypatch.setattr(sidecar, "_RUN", PROGRAM)
    monkeypatch.setattr(sidecar, "_FIRST_PAUSE", 0.01)
    return tmp_path / "pids"


def wait_for(predicate):
    give_up_at = time.monotonic() + PATIENCE
    while not (found := predicate()):
        assert time.monotonic() < give_up_at
        time.sleep(0.02)
    return found


def nth(pids: Path, number):
    """Return the process that was started as the n-th, once it is there."""
    wait_for(lambda: pids.exists() and pids.read_text().count("\n") >= number)
    return int(pids.read_text().split()[number - 1])


def is_gone(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return Path(f"/proc/{pid}/stat").exists() and ") Z " in Path(f"/proc/{pid}/stat").read_text()


def test_one_that_is_killed_is_started_again_and_ends_at_the_stop(pids, caplog):
    with dashboard_sidecar([str(pids)], {}):
        os.kill(nth(pids, 1), signal.SIGKILL)
        second = nth(pids, 2)
        assert not is_gone(second)
    assert is_gone(second)
    assert "the dashboard ended with -9, and is started again in" in caplog.text


def test_it_ends_with_a_starter_that_is_killed(pids):
    starter = subprocess.Popen([sys.executable, "-c", STARTER, str(pids)])
    child = nth(pids, 1)
    starter.kill()
    starter.wait()
    wait_for(lambda: is_gone(child))


@pytest.mark.parametrize("code", [0, 2])
def test_one_that_ends_by_itself_is_let_go(pids, code, caplog, monkeypatch):
    """What has to be put right first would only fail again."""
    monkeypatch.setattr(sidecar, "_RUN", f"import sys; open(sys.argv[-1], 'a').write('0\\n'); sys.exit({code})")
    with dashboard_sidecar([str(pids)], {}):
        wait_for(lambda: "the workers go on without it" in caplog.text)
    assert pids.read_text() == "0\n"


def test_what_may_be_secret_is_in_its_environment_alone(tmp_path, monkeypatch):
    told = tmp_path / "told"
    monkeypatch.setattr(
        sidecar,
        "_RUN",
        f"import os, sys; open({str(told)!r}, 'w').write(os.environ['STANDFAST_URL'] + ' '.join(sys.argv))",
    )
    with dashboard_sidecar(["shop:app"], {"STANDFAST_URL": "redis://:hunter2@queue/0"}):
        wait_for(lambda: told.exists() and told.read_text())
    assert told.read_text() == "redis://:hunter2@queue/0-c dashboard shop:app"
    assert STAYS_WITH not in os.environ
