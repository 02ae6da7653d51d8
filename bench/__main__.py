"""Measures Holdfast on SQLite beside its floor and its fastest peer, in one run, so that the ratios hold.

The contenders take turns, round after round; what counts is the median, and the spread stands beside it.
"""

import argparse
import json
import platform
import sqlite3
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from statistics import median, quantiles

from rich.console import Console
from rich.progress import Progress
from rich.table import Table

import floor
import ours
import peer_huey
from processes import import_time

Measure = Callable[[Path, int], float]

PERCENTILES = 100
IMPORTS = 11


@dataclass(frozen=True, slots=True)
class Rate:
    """Jobs per second of one contender in one discipline."""

    discipline: str
    contender: str
    measure: Measure
    share: float = 1.0
    """Which part of the jobs it is given: the slow ones take their time."""


ENQUEUE, BULK, DRAIN = "enqueue one by one", "enqueue_many", "drain"
ONE_IN = 20

RATES = [
    Rate(ENQUEUE, "floor", floor.one_by_one, 1 / ONE_IN),
    Rate(ENQUEUE, "holdfast", ours.one_by_one, 1 / ONE_IN),
    Rate(ENQUEUE, "huey", peer_huey.one_by_one, 1 / ONE_IN),
    Rate(BULK, "floor", floor.in_bulk),
    Rate(BULK, "holdfast", ours.in_bulk),
    Rate(DRAIN, "floor", floor.drain),
    Rate(DRAIN, "floor, ordered ids", floor.drain_ordered),
    Rate(DRAIN, "holdfast", ours.drain),
    Rate(DRAIN, "holdfast, plain functions", ours.drain_threads, 1 / 2),
    Rate(DRAIN, "huey", peer_huey.drain, 1 / 10),
]

AIMS = {
    (ENQUEUE, "floor"): 0.8,
    (BULK, "floor"): 0.6,
    (DRAIN, "floor"): 0.5,
    (DRAIN, "huey"): 6.0,
}
PICKUP_AIMS = {"p50": 3.0, "p99": 15.0}
IDLE_AIM = 1.0
IMPORT_AIM = 100.0


@dataclass(frozen=True, slots=True)
class Figure:
    """A median of some rounds with its spread."""

    discipline: str
    contender: str
    median: float
    lowest: float
    highest: float


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="bench", description=__doc__)
    parser.add_argument("--jobs", type=int, default=30_000, help="jobs of the fast disciplines (default 30,000)")
    parser.add_argument("--rounds", type=int, default=5, help="rounds in which all take turns (default 5)")
    parser.add_argument("--pickups", type=int, default=300, help="jobs to measure the pickup latency by")
    parser.add_argument(
        "--idle", type=float, default=10.0, metavar="SECONDS", help="how long to watch an idle worker"
    )
    parser.add_argument("--json", action="store_true", help="print one object of figures")
    options = parser.parse_args()
    with Progress(console=Console(stderr=True), transient=True) as progress:
        figures = _rates(options.jobs, options.rounds, progress)
        others = _others(options.pickups, options.idle, progress)
    report = {
        "machine": _machine(),
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "command": " ".join(["bench", *sys.argv[1:]]),
        "rates": [asdict(figure) for figure in figures],
        "ratios": list(_ratios(figures)),
        **others,
    }
    print(json.dumps(report, indent=2)) if options.json else _show(report)


def _rates(jobs: int, rounds: int, progress: Progress) -> list[Figure]:
    bar = progress.add_task("rates", total=rounds * len(RATES))
    found: dict[Rate, list[float]] = {rate: [] for rate in RATES}
    for number in range(rounds):
        turn = number % len(RATES)
        for rate in [*RATES[turn:], *RATES[:turn]]:
            found[rate].append(_in_a_folder(rate.measure, max(20, int(jobs * rate.share))))
            progress.advance(bar)
    return [
        Figure(rate.discipline, rate.contender, median(rates), min(rates), max(rates))
        for rate, rates in found.items()
    ]


def _others(pickups: int, idle_seconds: float, progress: Progress) -> dict[str, object]:
    bar = progress.add_task("latency and idling", total=4)
    answers: dict[str, object] = {}
    for name, contender in (("holdfast", ours), ("huey", peer_huey)):
        answers[f"pickup_ms_{name}"] = _percentiles(_in_a_folder(contender.pickup, pickups))
        progress.advance(bar)
    answers["idle_percent_of_a_core"] = _in_a_folder(ours.idle, idle_seconds)
    progress.advance(bar)
    answers["import_ms"] = import_time(IMPORTS)
    progress.advance(bar)
    return answers


def _in_a_folder(measure: Callable[[Path, int], float] | Callable[[Path, int], list[float]], size: float) -> object:
    """Measure in a fresh folder of this file system: a temporary one may live in memory, where a commit is free."""
    with tempfile.TemporaryDirectory(prefix="holdfast-bench-", dir=Path.cwd()) as folder:
        return measure(Path(folder), size)


def _percentiles(waits: list[float]) -> dict[str, float]:
    cuts = quantiles(waits, n=PERCENTILES, method="inclusive")
    return {"p50": cuts[49], "p99": cuts[98], "max": max(waits)}


def _ratios(figures: list[Figure]) -> Iterator[dict[str, object]]:
    medians = {(figure.discipline, figure.contender): figure.median for figure in figures}
    for (discipline, other), aim in AIMS.items():
        ratio = medians[discipline, "holdfast"] / medians[discipline, other]
        yield {"discipline": discipline, "beside": other, "ratio": ratio, "aim": aim}


def _machine() -> str:
    return f"{platform.system()}, Python {platform.python_version()}, SQLite {sqlite3.sqlite_version}"


def _show(report: dict[str, object]) -> None:
    console = Console()
    rates = Table(
        "discipline", "contender", "jobs/s", "lowest", "highest", title="Rates: medians, and their spread"
    )
    for rate in report["rates"]:
        numbers = (f"{rate[name]:,.0f}" for name in ("median", "lowest", "highest"))
        rates.add_row(rate["discipline"], rate["contender"], *numbers)
    console.print(rates)
    aims = Table("what", "measured", "aim", "", title="Aims")
    for ratio in report["ratios"]:
        what = f"{ratio['discipline']}: holdfast / {ratio['beside']}"
        _add_aim(aims, what, f"{ratio['ratio']:.2f}", f"≥ {ratio['aim']:g}", ratio["ratio"] >= ratio["aim"])
    for percentile, aim in PICKUP_AIMS.items():
        ours_ms, huey_ms = (report[f"pickup_ms_{name}"][percentile] for name in ("holdfast", "huey"))
        what = f"pickup across processes, {percentile} (huey: {huey_ms:.1f} ms)"
        _add_aim(aims, what, f"{ours_ms:.1f} ms", f"≤ {aim:g} ms", ours_ms <= aim)
    idle, imports = report["idle_percent_of_a_core"], report["import_ms"]
    _add_aim(aims, "idle worker", f"{idle:.2f} % of a core", f"≤ {IDLE_AIM:g} %", idle <= IDLE_AIM)
    _add_aim(aims, "import holdfast", f"{imports:.0f} ms", f"≤ {IMPORT_AIM:g} ms", imports <= IMPORT_AIM)
    console.print(aims)
    console.print(f"{report['machine']}; {report['date']}; {report['command']}", style="dim")


def _add_aim(table: Table, what: str, measured: str, aim: str, met: bool) -> None:
    table.add_row(what, measured, aim, "[green]met[/]" if met else "[yellow]missed[/]")


if __name__ == "__main__":
    main()
