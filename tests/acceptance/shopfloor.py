"""A shop with a database, an app and real workers, in a folder of its own; whatever it started, it ends.

with Shop(tmp_path) as shop:
    handle = shop.tasks.pack.enqueue(order=1)
    shop.worker()
    handle.result(timeout=30)
"""

import importlib.util
import json
import os
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing, suppress
from pathlib import Path

from commands import BRIEF, ask

from standfast.model.states import Move
from standfast.stores.contract import count_states

HERE = Path(__file__).resolve().parent
STANDFAST = str(Path(sys.executable).with_name("standfast"))
PROVE = bool(os.environ.get("STANDFAST_PROVE"))
PATIENCE = 60.0
"""Seconds after which something is taken not to happen; a sound run needs a fraction of it."""


def environment(**more):
    """Return the surroundings without what would lead a command elsewhere."""
    kept = {name: value for name, value in os.environ.items() if name not in {"STANDFAST_URL", "COLUMNS"}}
    return {**kept, "PYTHONUNBUFFERED": "1", **more}


def eventually(condition, what="", within=PATIENCE):
    """Wait until the condition holds, and return what it returned."""
    give_up_at = time.monotonic() + within
    while not (found := condition()):
        assert time.monotonic() < give_up_at, f"not within {within:g} s: {what or condition}"
        time.sleep(0.02)
    return found


def import_anew(path):
    """Import a file as a module of its own, whatever else bears its name."""
    spec = importlib.util.spec_from_file_location(f"{path.stem}_{os.urandom(4).hex()}", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def _is_worker(pid):
    """Tell whether a process runs jobs: the guard of its supervisor does not."""
    try:
        return b"standfast.hosts.child" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False


class Worker:
    """A `standfast worker` in a process group of its own; its words go to a file."""

    def __init__(self, command, words, env):
        self._words = words
        with words.open("wb") as file:
            self.process = subprocess.Popen(
                command, env=env, stdin=subprocess.DEVNULL, stdout=file, stderr=file, start_new_session=True
            )

    @property
    def pid(self):
        return self.process.pid

    @property
    def words(self):
        return self._words.read_text(errors="replace")

    @property
    def children(self):
        """The process numbers of its children, without the guard."""
        path = Path(f"/proc/{self.pid}/task/{self.pid}/children")
        return [int(pid) for pid in path.read_text().split() if _is_worker(pid)]

    def ready(self):
        """Wait until its first child works."""
        eventually(lambda: " ready: " in self.words or self.process.poll() is not None, "a worker is ready")
        assert self.process.poll() is None, self.words
        return self

    def wait(self, within=PATIENCE):
        """Wait for its end and return the exit code."""
        try:
            return self.process.wait(within)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"the worker goes on after {within:g} s:\n{self.words}") from None

    def stop(self, within=PATIENCE):
        """Ask it to stop and return its exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.wait(within)

    def kill(self):
        """End the whole tree at once."""
        with suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        self.process.wait()


class Shop:
    """A folder with an app and its database, and the workers started on them."""

    def __init__(self, folder, source="shop_app.py"):
        folder.mkdir(exist_ok=True)
        self.folder = folder
        self.module = folder / "shop.py"
        shutil.copy(HERE / source, self.module)
        self.tasks = import_anew(self.module)
        self.app = self.tasks.app
        self.workers = []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for worker in self.workers:
            worker.kill()
        self.app.close()

    @property
    def database(self):
        return self.folder / "jobs.db"

    @property
    def url(self):
        return f"sqlite:///{self.database}"

    def worker(self, *options, target="shop:app", through=(), **env):
        """Start a worker and wait until it works."""
        return self.start(*options, target=target, through=through, **env).ready()

    def start(self, *options, target="shop:app", through=(), **env):
        """Start a worker."""
        command = [*through, STANDFAST, "worker", target, "--app-dir", str(self.folder), *options]
        words = self.folder / f"worker-{len(self.workers)}.log"
        self.workers.append(Worker(command, words, environment(TMPDIR=str(self.folder), **env)))
        return self.workers[-1]

    def drain(self, *options, target="shop:app", **env):
        """Run a worker until nothing is left to do."""
        worker = self.start("--drain", *options, target=target, **env)
        assert worker.wait() == 0, worker.words
        return worker

    def put(self, name):
        """Make a file that a handler waits for."""
        (self.folder / name).touch()

    # -- what was done, and what is known -----------------------------------------------------------------------

    def ledger(self, job=None, what=None):
        """Return the effects so far, in order."""
        file = self.folder / "ledger"
        lines = [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
        return [
            line
            for line in lines
            if (job is None or line["job"] == job.id) and (what is None or line["what"] == what)
        ]

    def job(self, handle):
        return handle.job()

    def history(self, handle):
        return self.app.call(self.app.verbs.history(handle.id))

    def attempts(self, handle):
        """Return its history without the claims that were given back: a busy worker lets no job wait for long.

        One that was marked as started and then was not is put off, as a handler may ask for as well.
        """
        return [attempt for attempt in self.history(handle) if attempt.how not in {Move.RELEASE, Move.SNOOZE}]

    def counts(self):
        """Return how many jobs are in each state that occurs."""
        return {str(state): count for state, count in self.app.call(count_states(self.app.verbs)).items() if count}

    def become(self, handle, state, within=PATIENCE):
        """Wait until the job is in that state and return it."""
        try:
            eventually(lambda: handle.status() == state, f"{handle.task} {handle.id} is {state}", within)
        except AssertionError as error:
            error.add_note(f"it is now {handle.job()!r}")
            raise
        return handle.job()

    def settled(self, handles, within=PATIENCE):
        """Wait until every one of these jobs is final."""
        final = {"completed", "dead", "cancelled"}
        eventually(
            lambda: all(handle.status() in final for handle in handles), f"all final: {self.counts()}", within
        )

    def sql(self, statement, *parameters, file=None):
        """Change the database by hand."""
        with closing(sqlite3.connect(file or self.database, timeout=30)) as connection:
            rows = connection.execute(statement, parameters).fetchall()
            connection.commit()
        return rows

    # -- the command line ---------------------------------------------------------------------------------------

    def standfast(self, *args, through=()):
        """Run a command on this shop's store."""
        return run(*args, "--url", self.url, through=through)

    def asked(self, *args):
        """Run a command and return its JSON."""
        done = self.standfast(*args, "--json")
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def why(self, handle):
        return self.asked("why", handle.id)["text"]


def run(*args, through=(), **env):
    """Run a command, in a process of its own if that matters."""
    if args[0] in BRIEF and not through:
        return ask(args, environment(**env))
    return subprocess.run(
        [*through, STANDFAST, *args],
        env=environment(**env),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )


def assert_one_line(said, *words):
    """One line that names what is wrong, and no traceback."""
    assert re.fullmatch(r"standfast: [^\n]+\n", said), said
    for word in words:
        assert word in said, said
