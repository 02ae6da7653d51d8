"""The demo, as `make run` starts it: jobs run, wait, fail, retry, die and come back, and a schedule fires."""

import json
import os
import pty
import re
import select
import shlex
import subprocess
import sys
import time
from pathlib import Path

import httpx
import pytest
from fleet import wait_until

ROOT = Path(__file__).resolve().parents[2]
DEMO = [sys.executable, str(ROOT / "examples" / "demo.py")]
STANDFAST = str(Path(sys.executable).with_name("standfast"))


@pytest.fixture
def environment():
    kept = {name: value for name, value in os.environ.items() if name not in {"STANDFAST_URL", "COLUMNS"}}
    return {**kept, "PYTHONUNBUFFERED": "1"}


def test_the_demo_tells_its_whole_story_and_ends(tmp_path, environment):
    """Jobs succeed, wait, fail, back off, die, and a schedule fires; stats and the command to requeue follow."""
    folder = tmp_path / "shop"

    told = subprocess.run(
        [*DEMO, "--once", "--folder", str(folder)],
        cwd=ROOT,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=60,
        check=True,
    ).stdout

    story = [
        r"ready: 6 tasks",
        r"It tells its story and ends\. `make run` at a terminal goes on, with the dashboard\.",
        r"✚ schedule count_stock added: every 3 seconds",
        r"✔ count_stock \w{8} completed",
        r"✔ send_mail \w{8} completed",
        r"↻ send_mail \w{8} failed \(1/2\): ConnectionError: .*fail@example.com — next try in \d",
        r"▶ monthly_report \w{8} started\n",  # on time: a late start would say so
        r"monthly_report \w{8} █+░* 60% \(18 of 30\)",
        r"✔ monthly_report \w{8} completed in [2-4]",
        r"✘ send_mail \w{8} dead after 2 attempts",
        r"✔ pack_order \w{8} completed",
        r"completed +\d+ ",
        r"dead +\d+ ",
        r"count_stock +every 3 seconds .* active",
        r"month-end +at 06:00 on the 1st of the month, Asia/Taipei time .* 06:00 Asia/Taipei",
        r"worker \w+ pid \d+ stopped",
    ]
    missing = [chapter for chapter in story if not re.search(chapter, told)]
    assert not missing, told
    assert "/sign-in" not in told, "a link to what has ended is of no use"
    url = f"sqlite:///{folder / 'shop.db'}"
    dead = states(url, environment)["dead"]
    retry = re.search(r"^ +(\S*standfast dead retry .*)$", told, re.MULTILINE)
    assert retry, told
    subprocess.run(shlex.split(retry[1]), cwd=ROOT, env=environment, check=True, capture_output=True, timeout=30)
    after = states(url, environment)
    assert after.get("dead", 0) == dead - 1
    assert after["ready"] >= 1


def test_the_demo_refuses_a_folder_with_something_in_it(tmp_path, environment):
    """Leftovers cannot confuse a run: its database is always new."""
    (tmp_path / "shop.db").touch()

    ended = subprocess.run(
        [*DEMO, "--once", "--folder", str(tmp_path)], env=environment, capture_output=True, text=True, check=False
    )

    assert ended.returncode == 1
    assert "is not empty" in ended.stderr


def test_at_a_terminal_the_dead_job_comes_back_and_ctrl_c_drains(environment):
    """The demo goes on after its story: the printed command revives the dead job, and Ctrl-C ends it with 0."""
    with Terminal(DEMO, ROOT, environment) as terminal:
        terminal.expect("The worker goes on")
        retry = re.search(r"(\S*standfast dead retry (\S+) --url (\S+))", terminal.text)
        assert retry, terminal.text
        with httpx.Client() as browser:
            link = re.search(r"Open the dashboard: (http\S+)", terminal.text)
            assert browser.get(link[1]).is_success
            assert "pack_order" in browser.get(httpx.URL(link[1]).join("/jobs?task=pack_order")).text
        subprocess.run(shlex.split(retry[1]), cwd=ROOT, env=environment, check=True, capture_output=True)
        wait_until(lambda: deaths(retry[2], retry[3], environment) == 2, what="the second death")
        terminal.type("\x03")
        terminal.expect("pid [0-9]+ stopped")
        assert terminal.exit_code() == 0


def deaths(job, url, environment):
    """Return how often a job died."""
    asked = subprocess.run(
        [STANDFAST, "jobs", "show", job, "--json", "--url", url],
        env=environment,
        check=True,
        capture_output=True,
        timeout=30,
    )
    return asked.stdout.count(b'"how": "die"')


def states(url, environment):
    """Return how many jobs are in each state that occurs."""
    asked = subprocess.run(
        [STANDFAST, "stats", "--json", "--url", url], env=environment, check=True, capture_output=True, timeout=30
    )
    return {state: count for state, count in json.loads(asked.stdout)["states"].items() if count}


TAKE_TERMINAL = """
import fcntl, os, sys, termios
os.setsid()
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
os.execv(sys.argv[1], sys.argv[1:])
"""


class Terminal:
    """A program in a terminal of its own; Ctrl-C is typed, and reaches it as the kernel sends it."""

    def __init__(self, command, cwd, environment):
        self.text = ""
        self._line, far_end = pty.openpty()
        self._process = subprocess.Popen(
            [sys.executable, "-c", TAKE_TERMINAL, *command],
            cwd=cwd,
            env={**environment, "TERM": "dumb", "COLUMNS": "200"},
            stdin=far_end,
            stdout=far_end,
            stderr=far_end,
        )
        os.close(far_end)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self._process.poll() is None:
            self._process.terminate()
        self._process.wait(60)
        os.close(self._line)

    def type(self, keys):
        os.write(self._line, keys.encode())

    def expect(self, pattern, within=30.0):
        give_up_at = time.monotonic() + within
        while not re.search(pattern, self.text):
            readable, _, _ = select.select([self._line], [], [], max(0, give_up_at - time.monotonic()))
            assert readable, f"no {pattern!r} within {within} s:\n{self.text}"
            self.text += os.read(self._line, 65536).decode(errors="replace")

    def exit_code(self):
        return self._process.wait(60)
