"""SQLite: a fault at any system call of a commit, of every verb that writes.

The call fails, or the process is killed before or after it. Afterwards: what was told as done is there, once; of
all else the whole is there or nothing; the next call works, in the process that lives on or in another one.
`make prove NAME=every_byte` tries every call with every fault, on warm connections and cold ones.
"""

import shutil
import sqlite3
import sys
from collections import Counter
from collections.abc import Callable
from contextlib import closing, nullcontext
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from fleet import PROVE

from conformance.harness import TASK, Harness, new_save
from standfast.errors import StoreError
from standfast.model.crash import Death, DeathKind
from standfast.model.job import Ending, JobAction, NewJob, OnConflict, Progress
from standfast.model.states import Move, State
from standfast.stores.contract import Store, cancel_job, change_job, count_states
from standfast.stores.sqlite.engine import Entry
from standfast.stores.sqlite.store import SqliteBackend
from standfast.stores.values import ClaimRequest, WorkerBeat, WorkerInfo
from standfast.stores.verb import Access, Verb
from standfast.testing.clock import FakeClock
from system_calls import Fault, run_with_fault, window

pytestmark = [
    pytest.mark.timeout(3000 if PROVE else 120),
    pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning"),
]

STEP = 1 if PROVE else 61
"""Every so manieth call with a fault is tried."""

Tell = Callable[[str], None]
Make = Callable[[Store], Verb[Any]]
NEXT = NewJob("next", "task", b"next")
EXPIRED = 16.0
DONE = "done"


@pytest.fixture
def tell(capsys: pytest.CaptureFixture[str]) -> Tell:
    """Say how often something was tried; at full size the words are seen."""

    def say(text: str) -> None:
        with capsys.disabled() if PROVE else nullcontext():
            sys.stdout.write(f"\nevery byte, sqlite, {text}\n")

    return say


def enqueue(*jobs: NewJob) -> Callable[[Harness], Make]:
    return lambda _: lambda verbs: verbs.enqueue(jobs)


def placed(state: State, make: Callable[[Store, Any], Verb[Any]], **fields: Any) -> Callable[[Harness], Make]:
    """Have a job in a state; the verb is about it."""

    def prepare(harness: Harness) -> Make:
        job = harness.place(state, **fields)
        return lambda verbs: make(verbs, job)

    return prepare


def claimed(harness: Harness) -> Make:
    worker = harness.register()
    for _ in range(5):
        harness.enqueue()
    return lambda verbs: verbs.claim(ClaimRequest(worker, 1, 3))


def changed(harness: Harness) -> Make:
    changes = [harness.new_change("first"), harness.new_change("second", jobs=(harness.new_job(),))]
    return lambda verbs: verbs.change_records(changes)


def registered(_: Harness) -> Make:
    info = WorkerInfo("worker", "supervisor", "host", 1, timedelta(seconds=15), None, 4)
    return lambda verbs: verbs.register(info)


def beaten(harness: Harness) -> Make:
    worker = harness.register()
    harness.clock.advance(1)
    return lambda verbs: verbs.beat([WorkerBeat(worker)])


def reconciled(harness: Harness) -> Make:
    job = harness.place(State.HELD)
    return lambda verbs: verbs.reconcile(WorkerBeat(job.worker, closed_call=100))


def condemned(harness: Harness) -> Make:
    worker = harness.register()
    harness.clock.advance(EXPIRED)
    return lambda verbs: verbs.condemn(frozenset({worker}))


def buried(harness: Harness) -> Make:
    job = harness.place(State.RUNNING)
    harness.expire(job.worker)
    return lambda verbs: verbs.bury(job.worker, Death(DeathKind.VANISHED))


def results_forgotten(harness: Harness) -> Make:
    job = harness.place(State.RUNNING)
    harness.finish(job.worker, job.ref, Move.COMPLETE, result=b"1", keep_result=timedelta(seconds=1))
    harness.clock.advance(2)
    return lambda verbs: verbs.forget_results(10)


def jobs_forgotten(harness: Harness) -> Make:
    harness.place(State.COMPLETED)
    harness.clock.advance(3600)
    return lambda verbs: verbs.forget_jobs(timedelta(seconds=1), 10)


def resumed(harness: Harness) -> Make:
    harness.run(harness.verbs.pause("mail"))
    return lambda verbs: verbs.resume("mail")


VERBS: dict[str, Callable[[Harness], Make]] = {
    "enqueue one": enqueue(NewJob("one", "task", b"payload")),
    "enqueue many": enqueue(*(NewJob(f"job-{number}", "task", b"x" * 900) for number in range(200))),
    "enqueue tagged": enqueue(NewJob("one", "task", b"payload", tags=("a", "b"), delay=timedelta(hours=1))),
    "enqueue keyed": placed(
        State.READY,
        lambda verbs, _: verbs.enqueue([NewJob("two", TASK, b"", key="k", on_conflict=OnConflict.REPLACE)]),
        key="k",
    ),
    "claim": claimed,
    "start": placed(State.HELD, lambda verbs, job: verbs.start(job.worker, [(job.ref, FakeClock().now())])),
    "progress": placed(State.RUNNING, lambda verbs, job: verbs.progress(job.worker, [(job.ref, Progress(1, 2))])),
    "save": placed(State.RUNNING, lambda verbs, job: verbs.save(job.worker, [new_save(job.ref, 1, {"a": b"1"})])),
    "finish": placed(
        State.RUNNING, lambda verbs, job: verbs.finish(job.worker, [Ending(job.ref, Move.COMPLETE, result=b"42")])
    ),
    "change_jobs cancel": placed(State.READY, lambda verbs, job: cancel_job(verbs, job.job_id)),
    "change_jobs requeue": placed(State.DEAD, lambda verbs, job: change_job(verbs, JobAction.RETRY, job.job_id)),
    "change_jobs discard": placed(State.DEAD, lambda verbs, job: change_job(verbs, JobAction.DISCARD, job.job_id)),
    "change_jobs supersede": placed(
        State.DEAD,
        lambda verbs, job: change_job(verbs, JobAction.DISCARD, job.job_id, instead=NewJob("new", "task", b"")),
    ),
    "change_jobs reschedule": placed(
        State.SCHEDULED,
        lambda verbs, job: change_job(
            verbs, JobAction.RESCHEDULE, job.job_id, FakeClock().now() + timedelta(hours=2)
        ),
    ),
    "change_jobs": placed(State.DEAD, lambda verbs, job: verbs.change_jobs(JobAction.RETRY, [job.job_id])),
    "signal": placed(State.RUNNING, lambda verbs, job: verbs.signal(job.job_id, "paid", "token", b"1")),
    "pause": lambda _: lambda verbs: verbs.pause("mail"),
    "resume": resumed,
    "change_records": changed,
    "register": registered,
    "beat": beaten,
    "reconcile": reconciled,
    "condemn": condemned,
    "bury": buried,
    "forget_results": results_forgotten,
    "forget_jobs": jobs_forgotten,
    "forget_dead": placed(State.DEAD, lambda verbs, _: verbs.forget_dead(timedelta(0), 10)),
}
READING = {
    *("glance", "get", "list_jobs", "history", "memos", "queues", "workers", "queue_ages"),
    *("situation", "unsettled", "records", "due_records", "fires"),
}


@dataclass(frozen=True)
class Scene:
    """A store that waits for a verb, and what it holds without and with it; both followed by one more call."""

    folder: Path
    clock: FakeClock
    make: Make
    is_cold: bool = False
    beside: tuple[NewJob, ...] = ()
    """Jobs of others in line, which share the transaction."""

    def act(self, folder: Path) -> str:
        """Run the verb, then another call; return what was told of both."""
        with closing(SqliteBackend(folder / "jobs.db", clock=self.clock)) as backend:
            verb = self.make(backend.verbs)
            if not self.is_cold:
                backend.run(backend.verbs.resume("nothing"))
                backend.run(backend.verbs.beat([]))
                backend.run(count_states(backend.verbs))
            for job in self.beside:
                entry = Entry(backend.verbs.enqueue([job]))
                backend._engine()._writers[Access.WRITE].put_in_line(entry)
            told = DONE
            with window():
                try:
                    answer = backend.run(verb)
                except StoreError as error:
                    told = f"error {error}"
            if told == DONE:
                told += f" {answer}"
            return f"{told}\n{_follow(backend)}"

    def go_on(self, folder: Path) -> str:
        """Make another call, in a process that did not see the fault."""
        with closing(SqliteBackend(folder / "jobs.db", clock=self.clock)) as backend:
            return _follow(backend)


def _follow(backend: SqliteBackend) -> str:
    """Make another call, which may fail once."""
    try:
        backend.run(backend.verbs.enqueue([NEXT]))
    except StoreError:
        backend.run(backend.verbs.enqueue([NEXT]))
        return "second"
    return "first"


def dump(folder: Path) -> dict[str, list[str]]:
    """Return every row of both files, and see that they are sound."""
    rows = {}
    for name in ("jobs.db", "jobs.db-beats"):
        with closing(sqlite3.connect(folder / name)) as own:
            assert own.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
            for (table,) in own.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
                found = own.execute(f"SELECT * FROM {table}").fetchall()
                rows[f"{name} {table}"] = sorted(map(repr, found))
    return rows


class Trial:
    """Runs a scene with one fault after the other, and judges each."""

    def __init__(self, scene: Scene, folder: Path) -> None:
        self._scene = scene
        self._folder = folder
        self._before = self._after_going_on(self._copy())
        copy = self._copy()
        whole = run_with_fault(partial(scene.act, copy))
        assert whole.report is not None
        assert whole.report.startswith(DONE), whole.report
        self._report = whole.report
        self._after = dump(copy)
        assert self._after != self._before, "the verb writes nothing"
        self.calls = whole.calls
        self.runs, self.slow = Counter[str](), 0

    def run(self, fault: Fault, at: int) -> None:
        copy = self._copy()
        ended = run_with_fault(partial(self._scene.act, copy), fault, at)
        if not ended.struck:
            return
        self.runs[str(fault)] += 1
        if ended.report is None:
            assert fault in {Fault.KILLED_BEFORE, Fault.KILLED_AFTER}
            self._scene.go_on(copy)
        found, where = dump(copy), f"{fault} at {ended.struck}, which is {at} of {self.calls}: {ended.report}"
        if ended.report is not None and ended.report.startswith(DONE):
            assert ended.report.splitlines()[0] == self._report.splitlines()[0], where
            assert found == self._after, f"told as done, and is not there: {where}"
        else:
            assert ended.report is None or ended.report.startswith("error "), where
            assert found in (self._before, self._after), f"neither the whole nor nothing: {where}"
        self.slow += bool(ended.report and ended.report.endswith("second"))

    def _after_going_on(self, copy: Path) -> dict[str, list[str]]:
        self._scene.go_on(copy)
        return dump(copy)

    def _copy(self) -> Path:
        copy = self._folder / "copy"
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(self._scene.folder, copy, ignore=shutil.ignore_patterns("*-bell"))
        return copy


def scene_of(verb: str, folder: Path, **fields: Any) -> Scene:
    clock, base = FakeClock(), folder / "base"
    base.mkdir()
    with closing(SqliteBackend(base / "jobs.db", clock=clock)) as backend:
        make = VERBS[verb](Harness(backend, clock))
        backend.run(count_states(backend.verbs))
    return Scene(base, clock, make, **fields)


def try_all(tell: Tell, trial: Trial, name: str, step: int, first: int = 0) -> None:
    faults = [(fault, at) for at in range(1, trial.calls + 1) for fault in Fault]
    for fault, at in faults[first % step :: step]:
        trial.run(fault, at)
    tell(
        f"{name}: {trial.calls} system calls, {sum(trial.runs.values())} runs with a fault:"
        f" {dict(sorted(trial.runs.items()))}, {trial.slow} next calls that worked at the second try"
    )


@pytest.mark.parametrize("verb", VERBS)
def test_a_verb(verb: str, quick_path: Path, tell: Tell) -> None:
    """Alone in its transaction, with files that are open."""
    trial = Trial(scene_of(verb, quick_path), quick_path)
    try_all(tell, trial, verb, STEP, list(VERBS).index(verb))
    assert trial.runs


def test_a_group(quick_path: Path, tell: Tell) -> None:
    """Of several in one transaction all is there, or nothing."""
    others = (NewJob("other", "task", b"1"), NewJob("another", "task", b"2"))
    trial = Trial(scene_of("enqueue one", quick_path, beside=others), quick_path)
    try_all(tell, trial, "a group of three", STEP)
    assert trial.runs


def test_the_first_call_of_a_process(quick_path: Path, tell: Tell) -> None:
    """While the files are opened, too."""
    trial = Trial(scene_of("enqueue one", quick_path, is_cold=True), quick_path)
    try_all(tell, trial, "enqueue one, files not open yet", STEP * 2)
    assert trial.runs


def test_every_verb_that_writes_is_tried(tmp_path: Path) -> None:
    verbs = {name for name in vars(Store) if not name.startswith("_") and name != "lease_clock"}
    tried = set[str]()
    for number, make in enumerate(make for verb, make in VERBS.items() if " " in verb):
        with closing(SqliteBackend(tmp_path / f"{number}.db", clock=FakeClock())) as backend:
            tried.add(make(Harness(backend, FakeClock()))(backend.verbs).name)
    tried |= {verb for verb in VERBS if " " not in verb}
    assert tried == verbs - READING
