"""Counts the instructions that a job costs in our own processes: `make instructions`, with valgrind.

Such a count differs less from run to run than a time does, so two versions of the code can be compared by it. What
a server or the kernel does for a job is not in it. Run it on a quiet machine: a drain does some work by time.
"""

import argparse
import os
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from shutil import which

from rich.console import Console
from rich.table import Table

from places import HERE, PLACES, Place, Places
from processes import TOLD

_WORK = "from standfast.cli.main import main; main()"
_COMMAND = re.compile(r"^cmd: (.*)", re.MULTILINE)
_TOTAL = re.compile(r"^(?:summary|totals): (\d+)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Discipline:
    """Something that is done with so many jobs. Counted are processes with this in their command, and no others."""

    name: str
    before: Callable[[Place, int], None]
    counted: Callable[[int], list[str]]
    process: str


def _ours(function: str, count: int) -> list[str]:
    return [str(HERE / "contenders" / "measured.py"), "ours", function, str(count)]


def _drain() -> list[str]:
    return ["-c", _WORK, "worker", "ours_app:app", "--drain"]


def _nothing(_place: Place, _count: int) -> None:
    """Leave the store empty."""


def _fill(place: Place, count: int) -> None:
    _run([sys.executable, *_ours("in_bulk", count)], place)


DISCIPLINES = (
    Discipline("enqueue, one by one", _nothing, lambda count: _ours("one_by_one", count), "ours"),
    Discipline("enqueue_many", _nothing, lambda count: _ours("in_bulk", count), "ours"),
    # Not in the supervisor, which looks ten times a second whether nothing is left.
    Discipline("drain", _fill, lambda _: _drain(), "standfast.hosts.child"),
    Discipline("with metrics", _fill, lambda _: [*_drain(), "--metrics", "0"], "standfast.hosts.child"),
)


def main() -> None:
    """Count and print."""
    parser = argparse.ArgumentParser(prog="hot_path", description=__doc__)
    parser.add_argument("stores", nargs="*", metavar="STORE", help=f"{', '.join(PLACES)} (default: all)")
    parser.add_argument(
        "--jobs", type=int, default=300, help="jobs of the small run; the large one has thrice as many"
    )
    options = parser.parse_args()
    if which("valgrind") is None:
        sys.exit("hot_path: valgrind is not on PATH: install it first, as in apt-get install valgrind")
    table = Table("thousand instructions per job", *(each.name for each in DISCIPLINES))
    for store in options.stores or PLACES:
        with PLACES[store]() as places:
            costs = [_cost(each, places, options.jobs) for each in DISCIPLINES]
        table.add_row(store, *(f"{cost / 1000:,.1f}" for cost in costs))
    Console().print(table)


def _cost(discipline: Discipline, places: Places, jobs: int) -> float:
    """Return the instructions of one job more: those of a large run less those of a small one."""
    small, large = (_instructions(discipline, places, count) for count in (jobs, 3 * jobs))
    return (large - small) / (2 * jobs)


def _instructions(discipline: Discipline, places: Places, count: int) -> int:
    with places() as place:
        discipline.before(place, count)
        out = place.folder / "callgrind"
        valgrind = ["valgrind", "--tool=callgrind", "--trace-children=yes", f"--callgrind-out-file={out}.%p"]
        _run([*valgrind, sys.executable, *discipline.counted(count)], place)
        said = [file.read_text() for file in place.folder.glob("callgrind.*")]
        return sum(
            int(_TOTAL.findall(text)[-1]) for text in said if discipline.process in _COMMAND.findall(text)[0]
        )


def _run(command: list[str], place: Place) -> None:
    environment = {
        **os.environ,
        "BENCH_URL": place.url,
        "BENCH_FOLDER": str(place.folder),
        "STANDFAST_URL": place.url,
        "PYTHONPATH": os.pathsep.join([str(HERE), os.environ.get("PYTHONPATH", "")]),
        "PYTHONHASHSEED": "0",
    }
    done = subprocess.run(
        command, cwd=HERE / "contenders", env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode:
        sys.exit(f"hot_path: {' '.join(command)} failed:\n{done.stderr[-TOLD:]}")


if __name__ == "__main__":
    main()
