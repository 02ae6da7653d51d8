"""An import that survives being killed: it goes on where it was, and a bar shows how far it is.

    python examples/import_rows.py                  imports 100,000 rows; its worker is killed half-way
    python examples/import_rows.py --rows 5000      imports fewer

Each row is written under its number, so that a row which is imported again is no duplicate: after a kill that may
happen to the last hundred.
"""

import argparse
import os
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from rich.progress import Progress

from standfast import Context, JobHandle, Standfast

HERE = Path(__file__).resolve().parent
EVERY = 100
LONGEST = 300.0

app = Standfast("sqlite:///import.db", lease=2)


@app.task(max_attempts=10, backoff=0.1)
def import_rows(ctx: Context, rows: int) -> int:
    """Copy rows into a database; return how many were left for this attempt."""
    copied = 0
    database = sqlite3.connect("rows.db", isolation_level=None)
    database.executescript(
        "PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL;"
        "CREATE TABLE IF NOT EXISTS imported (row INTEGER PRIMARY KEY, name TEXT, times INTEGER)"
    )
    for row, name in ctx.resume(read_rows(rows), key=lambda item: item[0], every=EVERY):
        database.execute(
            "INSERT INTO imported VALUES (?, ?, 1) ON CONFLICT (row) DO UPDATE SET times = times + 1", (row, name)
        )
        copied += 1
        ctx.progress(row, rows)
    database.close()
    return copied


def read_rows(rows: int) -> Iterator[tuple[int, str]]:
    """Pretend to read a long file."""
    for row in range(1, rows + 1):
        if row % 10 == 0:
            time.sleep(0.001)
        yield row, f"customer {row}"


def main() -> int:
    """Import in a worker, kill that half-way, and let another one go on."""
    parser = argparse.ArgumentParser(prog="import_rows", description="An import that survives being killed.")
    parser.add_argument("--rows", type=int, default=100_000, help="how many rows (default 100,000)")
    rows = parser.parse_args().rows
    with tempfile.TemporaryDirectory(prefix="standfast-import-", ignore_cleanup_errors=True) as folder:
        os.chdir(folder)
        try:
            handle = import_rows.enqueue(rows=rows)
            watch(handle, rows)
            copied = handle.result(LONGEST)
            database = sqlite3.connect("rows.db")
            [(count, again)] = database.execute("SELECT count(*), sum(times > 1) FROM imported")
            database.close()
        finally:
            app.close()
            os.chdir(HERE)
    print(f"{count:,} rows are imported, {again} of them twice; after the kill there were {copied:,} left")
    return 0 if count == rows and again <= EVERY else 1


def watch(handle: JobHandle[int], rows: int) -> None:
    """Show how far it is; half-way, kill the worker with all its processes, and start another."""
    worker, killed = start_worker(), False
    try:
        with Progress() as bar:
            importing = bar.add_task("importing", total=rows)
            for progress in handle.progress(LONGEST):
                bar.update(importing, completed=progress.done)
                if progress.done >= rows / 2 and not killed:
                    os.killpg(worker.pid, signal.SIGKILL)
                    worker.wait()
                    bar.console.print(
                        f"killed at row {progress.done:,.0f}; another worker goes on, once it is sure"
                    )
                    worker, killed = start_worker(), True
            bar.update(importing, completed=rows)
    finally:
        os.killpg(worker.pid, signal.SIGTERM)
        worker.wait()


def start_worker() -> "subprocess.Popen[bytes]":
    """Start a worker of this app, in a process group of its own."""
    command = [Path(sys.executable).with_name("standfast"), "worker", "import_rows:app", "--app-dir", HERE]
    return subprocess.Popen(  # noqa: S603 - our own command
        command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    )


if __name__ == "__main__":
    sys.exit(main())
