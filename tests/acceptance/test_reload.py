"""New code comes in without a stop: by SIGHUP, or as soon as a file changes; a closed terminal still ends it."""

import os
import pty
import signal
import subprocess
import sys
from contextlib import suppress

import pytest
from fleet import STANDFAST, sizes, wait_until

from standfast import Standfast
from standfast.supervisor.children import EARLY_DEATHS_LIMIT

pytestmark = pytest.mark.timeout(180)

APP = """
import time

from standfast import Standfast

app = Standfast({url!r}, lease=2)

@app.task
def version() -> str:
    time.sleep(0.02)
    return {version!r}
"""


class Site:
    """A folder with an app whose code changes, and a worker on it."""

    def __init__(self, folder, url=None):
        self.folder = folder
        self.url = url or f"sqlite:///{folder}/jobs.db"
        self.log = folder / "log"
        self.file = folder / "site_jobs.py"
        self.write("one")
        self.app = Standfast(self.url)

        @self.app.task
        def version() -> str: ...

        self.version = version
        self.process = None

    def write(self, version):
        self.file.write_text(APP.format(url=self.url, version=version))

    def start(self, *options, command="worker", **how):
        """Start a worker, and wait until it is ready."""
        self.begin(*options, command=command, **how)
        wait_until(lambda: "ready: 1 task" in self.told or self.process.poll() is not None)

    def begin(self, *options, command="worker", **how):
        environment = {name: value for name, value in os.environ.items() if not name.startswith("STANDFAST_")}
        environment["PYTHONDONTWRITEBYTECODE"] = "1"  # two versions of one size within a second look the same
        words = [STANDFAST, command, "site_jobs:app", "--app-dir", str(self.folder), *options]
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                words, env=environment, **{"stdin": subprocess.DEVNULL, "stdout": log, "stderr": log, **how}
            )

    @property
    def told(self):
        return self.log.read_text()

    def answer(self):
        return self.version.enqueue().result(timeout=60)

    def until_said(self, words, times=1):
        wait_until(lambda: self.told.count(words) >= times, what=f"{words!r}, {times} times, in {self.told}")

    def close(self):
        self.app.close()
        if self.process is not None:
            with suppress(ProcessLookupError):
                self.process.kill()
            self.process.wait()


@pytest.fixture(params=["sqlite", "postgres"])
def site(request, tmp_path):
    site = Site(tmp_path, None if request.param == "sqlite" else request.getfixturevalue("postgres_url"))
    yield site
    site.close()


@pytest.fixture
def here(tmp_path):
    site = Site(tmp_path)
    yield site
    site.close()


@pytest.mark.parametrize("site", sizes(short=["sqlite"], full=["sqlite", "postgres"]), indirect=True)
def test_sighup_brings_in_new_code_under_load(site):
    """All children are replaced one after the other while jobs flow; none is lost, and then the code is the new."""
    site.start("--processes", "2")
    assert site.answer() == "one"
    flow = [site.version.enqueue() for _ in range(200)]
    site.write("two")
    site.process.send_signal(signal.SIGHUP)
    site.until_said("a reload was asked for", 2)
    site.until_said("stopping", 2)
    assert {handle.result(timeout=60) for handle in flow} <= {"one", "two"}
    assert [site.answer() for _ in range(5)] == ["two"] * 5
    assert {site.app.call(site.app.verbs.get(handle.id)).attempt for handle in flow} == {0}
    assert "crashed" not in site.told


def test_sighup_with_broken_code_changes_nothing(here):
    """It is said loudly what is wrong and that the old children stay; with the next SIGHUP all is well."""
    here.start("--processes", "2")
    here.until_said("ready:", 2)
    here.file.write_text("this is no Python\n")
    here.process.send_signal(signal.SIGHUP)
    here.until_said("stays: no other could take its place: site_jobs cannot be imported: SyntaxError")
    assert here.answer() == "one"
    assert here.told.count("ready:") == 2
    here.write("two")
    here.process.send_signal(signal.SIGHUP)
    here.until_said("stopping", 2)
    assert here.answer() == "two"


def test_sighup_before_the_first_worker_is_ready_is_not_lost(here):
    """What is imported then may be the old code still: the reload is told, and done once a worker is ready."""
    waits, goes_on = here.folder / "waits", here.folder / "goes_on"
    gate = f"""
import pathlib, time
pathlib.Path({str(waits)!r}).touch()
while not pathlib.Path({str(goes_on)!r}).exists():
    time.sleep(0.02)
"""
    here.file.write_text(here.file.read_text() + gate)
    here.begin()
    wait_until(waits.exists)
    here.process.send_signal(signal.SIGHUP)
    here.until_said("a reload was asked for before a worker was ready")
    here.write("two")
    goes_on.touch()
    here.until_said("stopped")
    assert here.answer() == "two"


def test_sighup_does_not_move_to_another_store(here, tmp_path):
    """A store is not changed by a reload: what the old children hold is in the old one."""
    here.start()
    here.file.write_text(APP.format(url=f"sqlite:///{tmp_path}/other.db", version="two"))
    here.process.send_signal(signal.SIGHUP)
    here.until_said("names another store than before: restart")
    assert here.answer() == "one"


def test_reload_follows_the_files(here):
    """A change is named and brought in at once; a syntax error is told and waited out."""
    here.start("--reload")
    assert here.answer() == "one"
    here.write("three")
    here.until_said("site_jobs.py has changed")
    wait_until(lambda: here.answer() == "three")
    assert here.told.count("site_jobs.py has changed") == 1
    here.file.write_text("def broken(:\n")
    here.until_said("waiting for the next change")
    assert here.answer() == "three"
    here.write("four")
    wait_until(lambda: here.answer() == "four")
    here.process.send_signal(signal.SIGTERM)
    assert here.process.wait(60) == 0


def test_reload_waits_where_the_first_start_fails(here):
    """There is nothing to run yet, and no reason to give up."""
    here.file.write_text("def broken(:\n")
    here.begin("--reload")
    here.until_said("waiting for the next change")
    for times in range(2, EARLY_DEATHS_LIMIT + 3):  # a save may also end the child without a word
        here.file.write_text("import os\nos._exit(3)\n" if times % 2 else f"def broken_{times}(:\n")
        here.until_said("waiting for the next change", times)
    assert "its process exited with status 3; waiting for the next change" in here.told
    here.write("one")
    wait_until(lambda: here.answer() == "one")
    assert here.process.poll() is None


def test_up_runs_workers(here):
    here.start(command="up")
    assert here.answer() == "one"
    here.process.send_signal(signal.SIGTERM)
    assert here.process.wait(60) == 0


IN_A_TERMINAL = """
import os, signal, sys
os.setsid()
import fcntl, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
signal.signal(signal.SIGHUP, signal.SIG_IGN if {nohup} else signal.SIG_DFL)
os.execv(sys.argv[1], sys.argv[1:])
"""


@pytest.mark.parametrize("nohup", [False, True])
def test_the_end_of_a_terminal(here, nohup):
    """A worker ends with the terminal in which it runs, but not under nohup; `kill -HUP` there means a reload."""
    ours, theirs = pty.openpty()
    words = [STANDFAST, "worker", "site_jobs:app", "--app-dir", str(here.folder)]
    with here.log.open("ab") as log:
        here.process = subprocess.Popen(
            [sys.executable, "-c", IN_A_TERMINAL.format(nohup=nohup), *words], stdin=theirs, stdout=log, stderr=log
        )
    os.close(theirs)
    here.until_said("ready:")
    here.process.send_signal(signal.SIGHUP)
    here.until_said("a reload was asked for")
    here.until_said("stopped")

    os.close(ours)

    if not nohup:
        assert here.process.wait(60) == 0
        return
    with pytest.raises(subprocess.TimeoutExpired):
        here.process.wait(2)
    assert here.answer() == "one"
    here.process.send_signal(signal.SIGHUP)
    here.until_said("a reload was asked for", 2)
