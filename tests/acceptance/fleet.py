"""A fleet of real `standfast worker` processes on one store, and the means to harm it.

Each worker is a tree, a supervisor and its children, in a process group of its own. Only processes that the fleet
has started are ever signalled, and all of them are gone when it closes.
"""

import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import ModuleType
from typing import Any

import fleet_app
from commands import ask
from fleet_app import SETTINGS, variable_of
from ledger import VARIABLE, Ledger

from standfast.model.job import Attempt, Job
from standfast.model.states import State
from standfast.stores.contract import count_states
from standfast.stores.values import JobFilter, Worker

PROVE = os.environ.get("STANDFAST_PROVE") == "1"
STANDFAST = str(Path(sys.executable).with_name("standfast"))
HERE = Path(__file__).parent
PATIENCE = 60.0
"""Seconds after which what should have happened is a failure: long, because others use the machine too."""

POLL = 0.02


def sizes(*, short: Any, full: Any) -> Any:
    """Return the size of a test: full by `make prove`, else short."""
    return full if PROVE else short


def wait_until(predicate: Callable[[], Any], within: float = PATIENCE, what: str = "it") -> Any:
    """Return what the predicate says as soon as that is true."""
    give_up_at = time.monotonic() + within
    while not (answer := predicate()):
        assert time.monotonic() < give_up_at, f"{what} did not happen within {within:g} s"
        time.sleep(POLL)
    return answer


def now() -> datetime:
    """Return the time as the store tells it."""
    return datetime.now(UTC)


@dataclass(frozen=True, slots=True)
class Tree:
    """A supervisor with its children: one process group."""

    process: subprocess.Popen[bytes]
    log: Path

    @property
    def told(self) -> str:
        """What it has said on its console so far."""
        return self.log.read_text(errors="replace")

    def signal_supervisor(self, number: int) -> None:
        self.process.send_signal(number)

    def signal_tree(self, number: int) -> None:
        os.killpg(self.process.pid, number)

    def kill_tree(self) -> datetime:
        """End supervisor and children at once; return when."""
        killed_at = now()
        self.signal_tree(signal.SIGKILL)
        self.process.wait()
        return killed_at

    def members(self) -> list[int]:
        """Return the processes of the tree that have not ended; a zombie has."""
        listed = subprocess.run(["ps", "-eo", "pid=,pgid=,stat="], check=True, capture_output=True, text=True)
        rows = [line.split() for line in listed.stdout.splitlines()]
        return [int(pid) for pid, group, stat in rows if int(group) == self.process.pid and stat[0] != "Z"]

    def exit_code(self, within: float = PATIENCE) -> int:
        return self.process.wait(within)


class Fleet:
    """One store, one ledger, and the workers on them. Without a URL the store is the SQLite file `path`.

    `module` has the `app` that the workers run, and `make_app`, which gives it for any URL.
    """

    def __init__(self, folder: Path, url: str | None = None, module: ModuleType = fleet_app) -> None:
        self.path = folder / "jobs.db"
        self.url = f"sqlite:///{self.path}" if url is None else url
        self.ledger = Ledger(folder / "ledger")
        self.app = module.make_app(self.url)
        self._target = f"{module.__name__}:app"
        self.trees: list[Tree] = []
        self._folder = folder
        self._temporary = folder / "tmp"
        self._temporary.mkdir()

    # -- workers ---------------------------------------------------------------------------------------------

    def start(self, environment: Mapping[str, str] | None = None, **options: Any) -> Tree:
        """Start a worker tree: what is in fleet_app.SETTINGS is a setting, anything else is a --option."""
        settings = {name: options.pop(name) for name in SETTINGS if name in options}
        given = [word for name, value in options.items() for word in _option(name, value)]
        log = self._folder / f"worker-{len(self.trees)}.log"
        with log.open("wb") as out:
            process = subprocess.Popen(
                [STANDFAST, "worker", self._target, "--app-dir", str(HERE), "--url", self.url, *given],
                env={
                    **self._environment(),
                    **{variable_of(name): str(value) for name, value in settings.items()},
                    **(environment or {}),
                },
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                start_new_session=True,
            )
        self.trees.append(Tree(process, log))
        return self.trees[-1]

    def start_workers(self, count: int, **options: Any) -> list[Tree]:
        """Start worker trees and wait until each has a worker that beats."""
        trees = [self.start(**options) for _ in range(count)]
        for tree in trees:
            self.worker_of(tree)
        return trees

    def workers(self) -> tuple[Worker, ...]:
        return self.app.call(self.app.verbs.workers())

    def worker_of(self, tree: Tree, *, other_than: Sequence[str] = ()) -> Worker:
        """Return the first worker of the tree that is registered, once there is one."""

        def found() -> Worker | None:
            assert tree.process.poll() is None, f"the worker ended:\n{tree.told}"
            mine = [worker for worker in self.workers() if group_of(worker.info.pid) == tree.process.pid]
            return next((worker for worker in mine if worker.info.id not in other_than), None)

        return wait_until(found, what="a worker's registration")

    def child_pid_of(self, tree: Tree) -> int:
        return self.worker_of(tree).info.pid

    def wait_until_it_may_bury(self, tree: Tree) -> None:
        """Wait until a tree has beaten for a whole lease, which entitles it to bury others."""
        worker = self.worker_of(tree)
        entitled_at = worker.started_at + worker.info.lease * 1.2
        wait_until(lambda: now() >= entitled_at)

    def wait_until_acquainted(self) -> None:
        """Wait until each worker has beaten since the last of them first did, and so has heard of all others."""

        def last_beats() -> list[tuple[Worker, datetime]]:
            asked_at = now()  # before: no beat is to seem later than it was
            return [(worker, asked_at - worker.beat_age) for worker in self.workers()]

        wait_until(lambda: all(beat_at > each.started_at for each, beat_at in last_beats()), what="first beats")
        all_there_at, newest = now(), max(worker.started_at for worker in self.workers())
        wait_until(
            lambda: all(at > all_there_at for each, at in last_beats() if each.started_at < newest),
            what="the beat of every worker",
        )

    # -- jobs ------------------------------------------------------------------------------------------------

    def enqueue(self, task: str, *, options: Mapping[str, Any] | None = None, **arguments: Any) -> str:
        return self.app.tasks[task].options(**options or {}).enqueue(**arguments).id

    def job(self, job_id: str) -> Job:
        found = self.app.call(self.app.verbs.get(job_id))
        assert found is not None
        return found

    def jobs(self) -> tuple[Job, ...]:
        return self.app.call(self.app.verbs.list_jobs(JobFilter(limit=1_000_000))).jobs

    def history(self, job_id: str) -> tuple[Attempt, ...]:
        return self.app.call(self.app.verbs.history(job_id))

    def count(self, state: State) -> int:
        return self.app.call(count_states(self.app.verbs))[state]

    def wait_for(self, job_id: str, *states: State, within: float = PATIENCE) -> Job:
        wait_until(lambda: self.job(job_id).state in states, within, f"job {job_id} in {', '.join(states)}")
        return self.job(job_id)

    def wait_for_completed(self, count: int, within: float = PATIENCE) -> None:
        try:
            wait_until(lambda: self.count(State.COMPLETED) >= count, within, f"the completion of {count} jobs")
        except AssertionError as error:
            error.add_note(str(self.app.call(count_states(self.app.verbs))))
            error.add_note("\n".join(map(str, self.workers())))
            raise

    def wait_for_start(self, job_id: str, runs: int = 1) -> None:
        """Wait until the handler itself says that it has started so many times."""
        wait_until(lambda: len(self.ledger.runs_of(job_id)) >= runs, what=f"start {runs} of job {job_id}")

    # -- the world outside -----------------------------------------------------------------------------------

    def standfast(self, *words: str) -> str:
        """Return what a command says on stdout."""
        ended = ask([*words, "--url", self.url], self._environment())
        ended.check_returncode()
        return ended.stdout

    def standfast_json(self, *words: str) -> Any:
        return json.loads(self.standfast(*words, "--json"))

    @contextmanager
    def user_transaction(self) -> Iterator[None]:
        """Hold a write transaction of a user's own on the jobs file of a fleet on SQLite."""
        connection = sqlite3.connect(self.path, timeout=PATIENCE, isolation_level=None)
        try:
            connection.execute("CREATE TABLE IF NOT EXISTS orders (id INTEGER PRIMARY KEY)")
            connection.execute("BEGIN IMMEDIATE")
            connection.execute("INSERT INTO orders DEFAULT VALUES")
            yield
            connection.execute("COMMIT")
        finally:
            connection.close()

    def stop_at_rest(self, *pids: int) -> float:
        """Let processes of the fleet stand still, none of them amid a write to a file; return when.

        On SQLite one that is stopped there holds up all others for as long as it stands still.
        """
        with self._nobody_writes():
            for pid in pids:
                os.kill(pid, signal.SIGSTOP)
            stopped_at = time.time()
            wait_until(lambda: all(map(_stands_still, pids)), what="the stop of all threads")
        return stopped_at

    @contextmanager
    def _nobody_writes(self) -> Iterator[None]:
        files = (self.path.with_name(f"{self.path.name}-beats"), self.path)
        with ExitStack() as held:
            for file in files if self.url.startswith("sqlite:") else ():
                connection = held.enter_context(
                    closing(sqlite3.connect(file, timeout=PATIENCE, isolation_level=None))
                )
                connection.execute("BEGIN IMMEDIATE")
            yield

    def close(self) -> None:
        """End every process that was started here, and what it has started."""
        self.app.close()
        for tree in self.trees:
            with suppress(ProcessLookupError):
                tree.signal_tree(signal.SIGKILL)
            tree.process.wait()
        wait_until(
            lambda: not [pid for tree in self.trees for pid in tree.members()], what="the end of all workers"
        )

    def _environment(self) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith("STANDFAST_")}
        ours = {VARIABLE: str(self.ledger.path), "TMPDIR": str(self._temporary), "COLUMNS": "200"}
        return {**kept, **ours, "PYTHONUNBUFFERED": "1"}


def _option(name: str, value: Any) -> tuple[str, ...]:
    return (f"--{name}",) if value is True else (f"--{name}", str(value))


def _stands_still(pid: int) -> bool:
    """Tell whether each thread of a process has stopped: some run on for a moment after the signal."""
    states = [file.read_text().rpartition(")")[2].split()[0] for file in Path(f"/proc/{pid}/task").glob("*/stat")]
    return set(states) == {"T"}


def group_of(pid: int) -> int | None:
    """Return the process group of a process, or None where there is no such process."""
    try:
        return os.getpgid(pid)
    except ProcessLookupError:
        return None
