"""Measures Standfast on each store beside its floor and its strongest peers, in one run, so that the ratios hold.

The contenders take turns, round after round; what counts is the median, and the spread stands beside it.
"""

import argparse
import json
import os
import platform
import sqlite3
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from statistics import median, quantiles

from rich.console import Console
from rich.progress import Progress, TaskID

import eyes
import host
import tracing
import watch
from fields import FIELDS, FUNCTIONS, OURS, RATES, Aim, Contender, Field
from places import HERE, PLACES, Place, Places
from processes import import_time, run_python
from report import show

PERCENTILES = 100
MOST_IMPORTS = 11
BESIDE = (
    "Beside it: `bench host` (what jobs cost the requests of the process that they run in), `bench eyes` (how long"
    " pages of the dashboard take where many jobs are kept), `bench tracing` (what spans cost a job), `bench watch`"
    " (what metrics and alerts cost a drain), checkpoints.py (what ctx.resume costs a loop), hot_path.py"
    " (instructions of a job)."
)
PEERS_PYTHON = Path(os.environ.get("BENCH_PEERS_PYTHON", sys.executable)).absolute()


@dataclass(frozen=True, slots=True)
class Figure:
    """A median of some rounds with its spread: jobs per second, or milliseconds."""

    discipline: str
    contender: str
    median: float
    lowest: float
    highest: float
    p99: float | None = None


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much is measured."""

    jobs: int
    rounds: int
    latencies: int
    peers: bool
    only: frozenset[str]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="bench", description=__doc__, epilog=BESIDE)
    parser.add_argument("stores", nargs="*", metavar="STORE", help=f"{', '.join(FIELDS)} (default: all)")
    parser.add_argument("--jobs", type=int, default=30_000, help="jobs of the fast disciplines (default 30,000)")
    parser.add_argument("--rounds", type=int, default=5, help="rounds in which all take turns (default 5)")
    parser.add_argument("--latencies", type=int, default=200, help="jobs to measure latencies by, in one round")
    names = sorted(FUNCTIONS.values())
    parser.add_argument(
        "--only", action="append", choices=names, help="measure this discipline alone, or with others"
    )
    parser.add_argument("--no-peers", action="store_true", help="measure Standfast and the floor alone")
    parser.add_argument("--idle", type=int, default=10, metavar="SECONDS", help="how long to watch an idle worker")
    parser.add_argument("--json", action="store_true", help="print one object of figures")
    options = parser.parse_args()
    unknown = set(options.stores) - FIELDS.keys()
    if unknown:
        parser.error(f"no store is called {unknown.pop()}: choose from {', '.join(FIELDS)}")
    sizes = Sizes(
        options.jobs, options.rounds, options.latencies, not options.no_peers, frozenset(options.only or names)
    )
    with Progress(console=Console(stderr=True), transient=True) as progress:
        stores = [_compete(FIELDS[name], sizes, options.idle, progress) for name in options.stores or FIELDS]
        imports = import_time(min(MOST_IMPORTS, 2 * sizes.rounds + 1))
    report = {
        "machine": f"{platform.system()}, {os.cpu_count()} cores, Python {platform.python_version()}",
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "command": " ".join(["bench", *sys.argv[1:]]),
        "stores": stores,
        "import_ms": imports,
    }
    print(json.dumps(report, indent=2)) if options.json else show(report)


def _compete(field: Field, sizes: Sizes, idle: int, progress: Progress) -> dict[str, object]:
    entries = [
        (discipline, contender)
        for contender in field.contenders
        if sizes.peers or not contender.is_peer
        for discipline in contender.disciplines
        if FUNCTIONS[discipline] in sizes.only
    ]
    latencies = [entry for entry in entries if entry[0] not in RATES]
    rates = [entry for entry in entries if entry[0] in RATES]
    bar = progress.add_task(field.store, total=len(rates) * sizes.rounds + len(latencies) + 1)
    with PLACES[field.store]() as places:
        figures = [
            *_rates(rates, sizes, places, progress, bar),
            *_latencies(latencies, sizes, places, progress, bar),
        ]
        idling = _measure(_ours(field), "idle", idle, places)
        progress.advance(bar)
        server = _server(field.store, places)
    return {
        "store": field.store,
        "server": server,
        "figures": [asdict(figure) for figure in figures],
        "ratios": list(_ratios(field, figures)),
        "idle_percent_of_a_core": idling,
    }


def _rates(
    entries: list[tuple[str, Contender]], sizes: Sizes, places: Places, progress: Progress, bar: TaskID
) -> Iterator[Figure]:
    found: dict[tuple[str, Contender], list[float]] = {entry: [] for entry in entries}
    for number in range(sizes.rounds):
        turn = number % len(entries)
        for discipline, contender in [*entries[turn:], *entries[:turn]]:
            jobs = contender.jobs(discipline, sizes.jobs)
            found[discipline, contender].append(_measure(contender, FUNCTIONS[discipline], jobs, places))
            progress.advance(bar)
    for (discipline, contender), rates in found.items():
        yield Figure(discipline, contender.name, median(rates), min(rates), max(rates))


def _latencies(
    entries: list[tuple[str, Contender]], sizes: Sizes, places: Places, progress: Progress, bar: TaskID
) -> Iterator[Figure]:
    for discipline, contender in entries:
        waits = _measure(contender, FUNCTIONS[discipline], sizes.latencies, places)
        cuts = quantiles(waits, n=PERCENTILES, method="inclusive")
        yield Figure(discipline, contender.name, cuts[49], min(waits), max(waits), p99=cuts[98])
        progress.advance(bar)


def _measure(contender: Contender, function: str, count: int, places: Places) -> object:
    with places() as place:
        python = PEERS_PYTHON if contender.is_peer else Path(sys.executable)
        said = run_python(
            [python, HERE / "contenders" / "measured.py", contender.module, function, str(count)],
            _environment(place),
            HERE / "contenders",
        )
        return json.loads(said)


def _environment(place: Place) -> dict[str, str]:
    paths = os.pathsep.join(map(str, (HERE / "contenders", HERE)))
    return {**os.environ, "PYTHONPATH": paths, "BENCH_URL": place.url, "BENCH_FOLDER": str(place.folder)}


def _ours(field: Field) -> Contender:
    return next(contender for contender in field.contenders if contender.name == OURS)


def _ratios(field: Field, figures: list[Figure]) -> Iterator[dict[str, object]]:
    by_name = {(figure.discipline, figure.contender): figure for figure in figures}
    for aim in field.aims:
        others = [by_name[aim.discipline, name] for name in aim.beside if (aim.discipline, name) in by_name]
        if others:
            yield _ratio(aim, by_name[aim.discipline, OURS], others)


def _ratio(aim: Aim, ours: Figure, others: list[Figure]) -> dict[str, object]:
    """Return how we compare with the best of the others: the greatest rate, or the least latency."""
    if aim.discipline in RATES:
        best = max(others, key=lambda figure: figure.median)
        ratios = [ours.median / best.median]
    else:
        best = min(others, key=lambda figure: figure.median)
        ratios = [best.median / ours.median, min(figure.p99 or 0 for figure in others) / (ours.p99 or 1)]
    return {
        "discipline": aim.discipline,
        "beside": best.contender,
        "ratio": ratios[0],
        "ratio_p99": ratios[1] if len(ratios) > 1 else None,
        "aim": aim.ratio,
        "met": min(ratios) >= aim.ratio,
    }


def _server(store: str, places: Places) -> str:
    if store == "sqlite":
        return f"SQLite {sqlite3.sqlite_version}, synchronous=FULL"
    with places() as place:
        if store == "postgres":
            import psycopg  # noqa: PLC0415 - only where it is measured

            with psycopg.connect(place.url) as connection:
                return f"PostgreSQL {connection.info.server_version / 10_000:.4g}, fsync on"
        import redis  # noqa: PLC0415 - only where it is measured

        version = redis.Redis.from_url(place.url).info("server")["redis_version"]
        return f"Redis {version}, append-only file, everysec"


if __name__ == "__main__":
    beside = {"host": host.main, "eyes": eyes.main, "tracing": tracing.main, "watch": watch.main}
    if sys.argv[1:2] and sys.argv[1] in beside:
        beside[sys.argv[1]](sys.argv[2:])
    else:
        main()
