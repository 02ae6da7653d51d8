"""`make bench`: what the claim protocol costs on SQLite, beside the least that any queue on SQLite must do.

*bare* is a sketch with the sqlite3 module alone: one narrow table, insert, claim, finish; no fencing against lost
workers, no history, no checks. *holdfast* is the verbs of the store, in one process. Both write to a new file, in
the current folder (a temporary folder may be in memory), with the same settings: WAL, synchronous=FULL. No handler
runs: this measures the store, not a worker.
"""

import argparse
import json
import sqlite3
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Protocol

from rich.console import Console
from rich.progress import track
from rich.table import Table

from holdfast import new_job_id
from holdfast.core.job import Ending, NewJob
from holdfast.core.states import Move
from holdfast.store.protocol import ClaimRequest, WorkerInfo
from holdfast.store.sqlite.backend import SqliteBackend

PAYLOAD = b'{"v":1,"args":{"number":42}}'
RESULT = b"null"
BATCHES = (500, 1)
WORKER = "bench"
ONE_BY_ONE = 40
"""Each job pays for its own fsyncs there, so so many times fewer are measured."""


class Contender(Protocol):
    """Something that can queue jobs in a file."""

    def insert(self, count: int) -> None:
        """Store so many jobs in one transaction."""
        ...

    def drain(self, count: int) -> int:
        """Claim so many in one transaction and finish them in another; return how many there were."""
        ...

    def close(self) -> None:
        """Let go of the file."""
        ...


class Bare:
    """The least: three statements."""

    def __init__(self, path: Path) -> None:
        self._database = sqlite3.connect(path, isolation_level=None)
        self._database.execute("PRAGMA journal_mode = WAL")
        self._database.execute("PRAGMA synchronous = FULL")
        self._database.execute("PRAGMA wal_autocheckpoint = 4000")
        self._database.execute(
            "CREATE TABLE job (seq INTEGER PRIMARY KEY, id TEXT UNIQUE, state TEXT, fence INTEGER, payload, result)"
        )
        self._database.execute("CREATE INDEX ready ON job (seq) WHERE state = 'ready'")

    def insert(self, count: int) -> None:
        """Store so many jobs in one transaction."""
        self._database.execute("BEGIN IMMEDIATE")
        rows = [(new_job_id(), PAYLOAD) for _ in range(count)]
        self._database.executemany("INSERT INTO job (id, state, fence, payload) VALUES (?, 'ready', 0, ?)", rows)
        self._database.execute("COMMIT")

    def drain(self, count: int) -> int:
        """Claim so many in one transaction and finish them in another; return how many there were."""
        self._database.execute("BEGIN IMMEDIATE")
        rows = self._database.execute(
            "UPDATE job SET state = 'held', fence = fence + 1 WHERE seq IN"
            " (SELECT seq FROM job WHERE state = 'ready' ORDER BY seq LIMIT ?) RETURNING seq, fence, payload",
            (count,),
        ).fetchall()
        self._database.execute("COMMIT")
        self._database.execute("BEGIN IMMEDIATE")
        self._database.executemany(
            "UPDATE job SET state = 'completed', result = ? WHERE seq = ? AND fence = ?",
            [(RESULT, seq, fence) for seq, fence, _ in rows],
        )
        self._database.execute("COMMIT")
        return len(rows)

    def close(self) -> None:
        """Let go of the file."""
        self._database.close()


class Verbs:
    """What ships."""

    def __init__(self, path: Path) -> None:
        self._backend = SqliteBackend(path)
        self._call = 0
        worker = WorkerInfo(id=WORKER, supervisor=WORKER, host="localhost", pid=0, lease=timedelta(hours=1))
        self._backend.run(self._backend.verbs.register(worker))

    def insert(self, count: int) -> None:
        """Store so many jobs in one transaction."""
        jobs = [NewJob(id=new_job_id(), task="nothing", payload=PAYLOAD) for _ in range(count)]
        self._backend.run(self._backend.verbs.enqueue(jobs))

    def drain(self, count: int) -> int:
        """Claim so many in one transaction and finish them in another; return how many there were."""
        self._call += 1
        request = ClaimRequest(worker=WORKER, call=self._call, limit=count)
        claims = self._backend.run(self._backend.verbs.claim(request)).jobs
        endings = [Ending(claim.ref, Move.COMPLETE, result=RESULT) for claim in claims]
        self._backend.run(self._backend.verbs.finish(WORKER, endings))
        return len(claims)

    def close(self) -> None:
        """Let go of the file."""
        self._backend.close()


CONTENDERS: dict[str, Callable[[Path], Contender]] = {"bare": Bare, "holdfast": Verbs}


def measure(make: Callable[[Path], Contender], jobs: int, batch: int) -> dict[str, float]:
    """Return jobs per second, inserted and drained."""
    with (
        tempfile.TemporaryDirectory(prefix="holdfast-bench-", dir=Path.cwd()) as folder,
        closing(make(Path(folder, "bench.db"))) as contender,
    ):
        began = time.perf_counter()
        for _ in range(jobs // batch):
            contender.insert(batch)
        inserted = time.perf_counter()
        drained = sum(iter(lambda: contender.drain(batch), 0))
        ended = time.perf_counter()
    if drained != jobs // batch * batch:
        sys.exit(f"bench: {drained} jobs were drained of {jobs // batch * batch}: something is wrong")
    return {"insert": drained / (inserted - began), "claim + finish": drained / (ended - inserted)}


def figures(jobs: int, rounds: int) -> Iterator[dict[str, float | str | int]]:
    """Yield a row per batch size and step: the best of some rounds, the two contenders taking turns."""
    plan = [(batch, name) for batch in BATCHES for _ in range(rounds) for name in CONTENDERS]
    best: dict[tuple[int, str, str], float] = {}
    for batch, name in track(plan, "measuring", console=Console(stderr=True), transient=True):
        for step, rate in measure(CONTENDERS[name], jobs if batch > 1 else jobs // ONE_BY_ONE, batch).items():
            best[batch, step, name] = max(rate, best.get((batch, step, name), 0.0))
    for batch in BATCHES:
        for step in ("insert", "claim + finish"):
            bare, ours = (best[batch, step, name] for name in CONTENDERS)
            yield {"step": step, "batch": batch, "bare": bare, "holdfast": ours, "ratio": ours / bare}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="bench", description="The claim protocol beside bare sqlite3.")
    parser.add_argument(
        "--jobs", type=int, default=20_000, help="how many, in batches; one by one, 1 in 40 of them"
    )
    parser.add_argument("--rounds", type=int, default=3, help="the best of so many counts")
    parser.add_argument("--json", action="store_true", help="print an array of figures")
    options = parser.parse_args()
    rows = list(figures(options.jobs, options.rounds))
    if options.json:
        print(json.dumps(rows, indent=2))
        return
    table = Table("step", "batch", "bare sqlite3", "holdfast", "ratio", title="jobs per second, one process")
    for row in rows:
        table.add_row(
            str(row["step"]),
            str(row["batch"]),
            f"{row['bare']:,.0f}",
            f"{row['holdfast']:,.0f}",
            f"{row['ratio']:.2f}",
        )
    Console().print(table)


if __name__ == "__main__":
    main()
