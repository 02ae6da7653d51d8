"""`standfast service`: units that systemd accepts, and commands that keep to what systemd says.

The machine of a test is seldom run by systemd, so a script in its place writes down what it is asked; the unit
itself is judged by systemd's own `systemd-analyze verify` where that is installed. READY, WATCHDOG and STOPPING are
seen on a real socket, from a real worker.
"""

import configparser
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

STANDFAST = Path(sys.executable).with_name("standfast")
APP = "from standfast import Standfast\n\napp = Standfast('sqlite:///jobs.db', lease=3)\n"
SYSTEMCTL = """#!/bin/sh
echo "$*" >> "{calls}"
case "$*" in
  --version) echo "{version}" ;;
  *is-system-running*) echo running ;;
  *show*) printf '%s\\n' "ActiveState={state}" SubState=running MainPID=42 NRestarts=3 UnitFileState=enabled ;;
esac
"""


class Machine:
    """A folder with an app, a home, and a systemd that only writes down what it is asked."""

    def __init__(self, folder):
        self.folder, self.calls = folder, folder / "calls"
        (folder / "jobs.py").write_text(APP)
        self.home = folder / "home"
        self.home.mkdir()
        self.be("active")

    def be(self, state, version="systemd 252 (252.38-1)"):
        program = self.folder / "bin" / "systemctl"
        program.parent.mkdir(exist_ok=True)
        program.write_text(SYSTEMCTL.format(calls=self.calls, state=state, version=version))
        program.chmod(0o755)

    @property
    def unit(self):
        return self.home / ".config/systemd/user/standfast.service"

    def standfast(self, *words):
        path = f"{self.folder / 'bin'}:{os.environ['PATH']}"
        environment = {**os.environ, "PATH": path, "HOME": str(self.home)}
        return subprocess.run(
            [STANDFAST, "service", *words],
            cwd=self.folder,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )

    def asked(self):
        lines = self.calls.read_text().splitlines()
        self.calls.unlink()
        return [
            line.removeprefix("--user ") for line in lines if not re.search("is-system-running|--version", line)
        ]


@pytest.fixture
def machine(tmp_path):
    return Machine(tmp_path)


def sections(text):
    unit = configparser.RawConfigParser(strict=False)
    unit.optionxform = str
    unit.read_string(text)
    return unit


def test_installed_looked_at_and_removed(machine):
    done = machine.standfast("install", "jobs:app", "--user", "--", "--processes", "2")
    assert done.returncode == 0, done.stderr
    assert machine.asked() == ["daemon-reload", "enable standfast", "restart standfast"]
    service = sections(machine.unit.read_text())["Service"]
    assert service["Type"] == "notify"
    assert service["ExecStart"] == f"{STANDFAST} up jobs:app --processes 2"
    assert service["WorkingDirectory"] == str(machine.folder)
    assert service["Restart"] == "always"

    looked = machine.standfast("status", "--user", "--json")
    assert json.loads(looked.stdout) == {
        "name": "standfast",
        "active": True,
        "state": "active",
        "status": "",
        "pid": 42,
        "restarts": 3,
        "at_boot": True,
    }
    machine.be("failed")
    assert machine.standfast("status", "--user").returncode == 1
    machine.asked()

    assert machine.standfast("remove", "--user").returncode == 2  # nobody is there to confirm
    assert machine.unit.exists()
    assert machine.standfast("remove", "--user", "--yes").returncode == 0
    assert machine.asked() == ["disable --now standfast", "daemon-reload"]
    assert not machine.unit.exists()


@pytest.mark.parametrize(
    ("words", "seconds", "warned"),
    [
        ((), "135", False),
        (("--", "--grace", "40"), "55", False),
        (("--app-dir", "{empty}"), "45", True),
        (("--no-check",), "45", False),
    ],
)
def test_systemd_waits_for_the_grace_of_the_app(machine, words, seconds, warned):
    """The unit allows the grace that the app sets, unless the command line says another."""
    (machine.folder / "jobs.py").write_text(f"print('hi')\n{APP.replace('lease=3', 'lease=3, grace=120')}")
    (machine.folder / "empty").mkdir()
    printed = machine.standfast(
        "install", "jobs:app", "--user", "--print", *(word.format(empty=machine.folder / "empty") for word in words)
    )
    assert sections(printed.stdout)["Service"]["TimeoutStopSec"] == seconds
    assert ("TimeoutStopSec allows for a grace of 30 s" in printed.stderr) is warned


def test_a_unit_of_somebody_else_is_left_alone(machine):
    machine.unit.parent.mkdir(parents=True)
    machine.unit.write_text("[Service]\nExecStart=/bin/true\n")
    for words in (("install", "jobs:app", "--user"), ("remove", "--user", "--yes")):
        refused = machine.standfast(*words)
        assert refused.returncode == 1
        assert "standfast.service" in refused.stderr
    assert "/bin/true" in machine.unit.read_text()


def test_what_the_service_would_refuse_is_refused_at_once_and_no_secret_gets_into_a_unit(machine):
    for words, reason in (
        (("--", "--procesess", "2"), "--processes"),
        (("--", "--url", "postgresql://me:hunter2@db/jobs"), "--env-file"),
        (("--env", "STANDFAST_URL=postgresql://me:hunter2@db/jobs"), "--env-file"),
        (("--env", "SHOP KEY"), "NAME=VALUE"),
        (("--name", "a/b"), "a/b"),
        (("--user", "--run-as", "shop"), "--system"),
    ):
        refused = machine.standfast("install", "jobs:app", *words)
        assert refused.returncode == 2
        assert reason in refused.stderr
        assert "hunter2" not in refused.stderr
    assert not machine.unit.exists()


@pytest.mark.parametrize(
    ("target", "code", "reason"),
    [
        ("jbos:app", APP, "there is no module 'jbos'"),
        ("jobs:ap", APP, "did you mean jobs:app?"),
        ("jobs:app", "import os\nos.environ['SHOP_KEY']\n" + APP, "KeyError: 'SHOP_KEY'"),
        ("jobs:app", "import os\nos._exit(7)\n", "importing jobs:app ended with 7"),
    ],
)
def test_an_app_that_cannot_be_found_is_refused_unless_nobody_is_to_look(
    machine, monkeypatch, target, code, reason
):
    """As the service will see it: a variable of this shell is none of the service's."""
    monkeypatch.setenv("SHOP_KEY", "of the shell")
    (machine.folder / "jobs.py").write_text(code)
    refused = machine.standfast("install", target, "--user")
    assert refused.returncode == 2
    assert reason in refused.stderr
    assert "--no-check" in refused.stderr
    assert not machine.unit.exists()

    assert machine.standfast("install", target, "--user", "--no-check").returncode == 0
    assert machine.unit.exists()


def test_the_app_sees_what_its_file_of_variables_says(machine):
    (machine.folder / "jobs.py").write_text("import os\nassert os.environ['SHOP_KEY'] == 'a b'\n" + APP)
    file = machine.folder / "shop.env"
    file.write_text('# of the shop\nSHOP_KEY="a b"\n')
    done = machine.standfast("install", "jobs:app", "--user", "--env-file", str(file))
    assert done.returncode == 0, done.stderr
    done = machine.standfast("install", "jobs:app", "--user", "--env", "SHOP_KEY=a b", "--yes")
    assert done.returncode == 0, done.stderr
    assert sections(machine.unit.read_text())["Service"]["Environment"] == '"SHOP_KEY=a b"'


@pytest.mark.parametrize(
    ("version", "known"),
    [("systemd 253 (253.1)", False), ("systemd 254 (254.5-1)", True), ("systemd 260~rc1", True), ("what?", False)],
)
def test_room_for_control_groups_is_asked_for_where_systemd_knows_how(machine, version, known):
    machine.be("active", version)
    printed = machine.standfast("install", "jobs:app", "--user", "--print").stdout
    assert sections(printed)["Service"].get("DelegateSubgroup") == ("worker" if known else None)


@pytest.mark.parametrize("whose", ["--user", "--system"])
def test_systemd_accepts_the_unit(whose, machine):
    odd = machine.folder / "a folder with 100 % of $HOME"
    odd.mkdir()
    printed = machine.standfast("install", "jobs:app", whose, "--print", "--app-dir", str(odd)).stdout
    unit = machine.folder / "printed.service"
    unit.write_text(printed)
    assert sections(printed)["Service"]["WorkingDirectory"].endswith("a folder with 100 %% of $HOME")
    if shutil.which("systemd-analyze"):
        judged = subprocess.run(["systemd-analyze", "verify", unit], capture_output=True, text=True, check=False)
        assert (judged.returncode, judged.stderr) == (0, "")


def test_without_systemd_the_error_says_what_to_do(machine):
    program = machine.folder / "bin" / "systemctl"
    program.write_text("#!/bin/sh\necho offline\nexit 1\n")
    refused = machine.standfast("install", "jobs:app", "--user")
    assert refused.returncode == 2
    assert "--print" in refused.stderr


def test_a_real_worker_says_ready_feeds_the_watchdog_and_says_that_it_stops(machine):
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(machine.folder / "notify"))
        manager.settimeout(30)
        environment = {**os.environ, "NOTIFY_SOCKET": str(machine.folder / "notify"), "WATCHDOG_USEC": "400000"}
        up = subprocess.Popen([STANDFAST, "up", "jobs:app"], cwd=machine.folder, env=environment)
        try:
            said = [manager.recv(4096).decode()]
            while not said[-1].startswith("READY=1"):
                said.append(manager.recv(4096).decode())
            while said.count("WATCHDOG=1") < 4:
                said.append(manager.recv(4096).decode())
            up.send_signal(signal.SIGTERM)
            while not said[-1].startswith("STOPPING=1"):
                said.append(manager.recv(4096).decode())
            assert up.wait(30) == 0
        finally:
            up.kill()
            up.wait()
