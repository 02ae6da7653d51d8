"""What every contender is measured with, in whatever process its handlers run.

A contender is a module: `python measured.py MODULE DISCIPLINE COUNT` prints one JSON number, or a list of them. Its
handlers tell what they did through files in BENCH_FOLDER, one for each process, mapped into memory: so that to be
measured costs each job the same, about a microsecond, and nobody needs a result backend for it.
"""

import json
import mmap
import os
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from threading import Lock

URL = os.environ.get("BENCH_URL", "")
FOLDER = Path(os.environ.get("BENCH_FOLDER", "."))
PATIENCE = float(os.environ.get("BENCH_PATIENCE", "120"))
"""Seconds after which a contender that has not finished is given up."""

NOTES = 4096
_HEAD = struct.Struct("=qdd")
_NOTE = struct.Struct("=d")
_SIZE = _HEAD.size + NOTES * _NOTE.size


class Tally:
    """How many jobs ran in this process, when the first and the last one did, and what they noted."""

    def __init__(self) -> None:
        self._pid = 0
        self._lock = Lock()

    def tick(self) -> None:
        """Count a job."""
        with self._lock:  # some contenders have threads
            self._count(self._memory())

    def note(self, value: float) -> None:
        """Count a job, and write down a number about it."""
        with self._lock:
            memory = self._memory()
            count, _, _ = _HEAD.unpack_from(memory)
            _NOTE.pack_into(memory, _HEAD.size + count % NOTES * _NOTE.size, value)
            self._count(memory)

    def _count(self, memory: mmap.mmap) -> None:
        now = time.time()
        count, first, _ = _HEAD.unpack_from(memory)
        _HEAD.pack_into(memory, 0, count + 1, first or now, now)

    def _memory(self) -> mmap.mmap:
        if self._pid != os.getpid():
            self._pid = os.getpid()
            with (FOLDER / f"tally-{self._pid}").open("w+b") as file:
                file.truncate(_SIZE)
                self._map = mmap.mmap(file.fileno(), _SIZE)
        return self._map


TALLY = Tally()


def drained(count: int) -> float:
    """Wait until so many jobs have run; return jobs per second from the first start to the last."""
    heads = _wait_for(count, every=0.02)  # when they ran is in the files: to look more often would only slow them
    return count / (max(last for _, _, last in heads) - min(first for _, first, _ in heads if first))


def notes(count: int) -> list[float]:
    """Wait until so many jobs have noted something; return it."""
    _wait_for(count)
    found: list[float] = []
    for file in FOLDER.glob("tally-*"):
        content = file.read_bytes()
        ran, _, _ = _HEAD.unpack_from(content)
        found += [
            _NOTE.unpack_from(content, _HEAD.size + number * _NOTE.size)[0] for number in range(min(ran, NOTES))
        ]
    return found


def _wait_for(count: int, every: float = 0.001) -> list[tuple[int, float, float]]:
    give_up_at = time.monotonic() + PATIENCE
    while True:
        heads = [_HEAD.unpack_from(file.read_bytes()) for file in FOLDER.glob("tally-*") if file.stat().st_size]
        done = sum(head[0] for head in heads)
        if done >= count:
            return heads
        if time.monotonic() > give_up_at:
            sys.exit(f"bench: only {done} of {count} jobs ran within {PATIENCE:g} s")
        time.sleep(every)


def picked_up(enqueue: Callable[[float], object], count: int, warm_up: int = 5) -> list[float]:
    """Enqueue jobs one after the other for idle workers; return the milliseconds from the call to each start."""
    for number in range(warm_up + count):
        enqueue(time.time())
        _wait_for(number + 1)
        time.sleep(0.01)  # let the worker fall idle
    return [wait * 1000 for wait in notes(warm_up + count)[warm_up:]]


def on_time(enqueue: Callable[[float, float], object], count: int) -> list[float]:
    """Enqueue jobs that are due within the third to fifth second from now; return how many ms late each starts."""
    began = time.time()
    for number in range(count):
        due_at = began + 3 + 2 * number / count
        enqueue(due_at, due_at - time.time())
    return [wait * 1000 for wait in notes(count)]


@contextmanager
def workers(command: Sequence[str | Path], count: int = 1, **environment: str) -> Iterator[None]:
    """Run so many worker processes of a contender."""
    running = [
        subprocess.Popen(
            [str(word) for word in command],
            cwd=Path(__file__).parent,
            env={**os.environ, **environment},
            stdout=subprocess.DEVNULL,
            stderr=(FOLDER / f"worker-{number}.log").open("wb"),
        )
        for number in range(count)
    ]
    try:
        yield
    finally:
        for worker in running:
            worker.terminate()
        for worker in running:
            try:
                worker.wait(20)
            except subprocess.TimeoutExpired:
                worker.kill()
                worker.wait()


def main() -> None:
    """Measure one discipline of a contender, as the command line says, and print the answer."""
    contender, name, count = sys.argv[1:]
    # Imported by its name, and not run as a script: so its tasks have the same names here and in its workers.
    print(json.dumps(getattr(import_module(contender), name)(int(count))))


if __name__ == "__main__":
    main()
