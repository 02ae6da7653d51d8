"""Measures what tracing costs: enqueues and a drain without it, with unwanted spans, and with exported ones.

The spans go to memory, in batches, as OpenTelemetry's own processor makes them: what is measured is how they are
made, not where they are sent. The modes take turns, round after round; what counts is the median.
"""

import argparse
import json
import os
import sys
from collections.abc import Sequence
from statistics import median

from places import HERE, PLACES, Place
from processes import run_python

OFF, UNSAMPLED, EXPORTED = "off", "unsampled", "exported"
MODES = (OFF, UNSAMPLED, EXPORTED)
DISCIPLINES = {"enqueue one by one": "one_by_one", "enqueue in bulk": "in_bulk", "drain, 1 worker": "drain"}
FEWER = 10
"""Of so many jobs one is enqueued one by one: that takes its time."""

Figures = dict[str, float]


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="bench tracing", description=__doc__)
    parser.add_argument("store", nargs="?", choices=sorted(PLACES), default="sqlite", help="default: sqlite")
    parser.add_argument("--jobs", type=int, default=10_000, help="jobs of each measurement (default 10,000)")
    parser.add_argument("--rounds", type=int, default=3, help="rounds in which all take turns (default 3)")
    parser.add_argument("--json", action="store_true", help="print one object of figures")
    options = parser.parse_args(arguments)
    found: dict[str, dict[str, list[float]]] = {name: {mode: [] for mode in MODES} for name in DISCIPLINES}
    with PLACES[options.store]() as places:
        for number in range(options.rounds):
            turn = number % len(MODES)
            for name in DISCIPLINES:
                for mode in (*MODES[turn:], *MODES[:turn]):
                    with places() as place:
                        found[name][mode].append(_measure(place, mode, name, options.jobs))
    rates = {name: {mode: median(rounds) for mode, rounds in modes.items()} for name, modes in found.items()}
    ratios = {name: {mode: each[mode] / each[OFF] for mode in MODES[1:]} for name, each in rates.items()}
    report = {"store": options.store, "jobs_per_second": rates, "ratios": ratios}
    print(json.dumps(report, indent=2)) if options.json else _show(rates, ratios)


def _measure(place: Place, mode: str, discipline: str, jobs: int) -> float:
    """Return jobs per second, by an app of its own."""
    function = DISCIPLINES[discipline]
    count = max(20, jobs // FEWER) if function == "one_by_one" else jobs
    paths = [HERE / "contenders", HERE, *filter(None, [os.environ.get("PYTHONPATH")])]
    ours = {"BENCH_URL": place.url, "BENCH_FOLDER": str(place.folder), "BENCH_TRACING": mode}
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, paths)), **ours}
    command = [sys.executable, HERE / "contenders" / "measured.py", "ours", function, str(count)]
    rate: float = json.loads(run_python(command, environment, HERE / "contenders"))
    return rate


def _show(rates: dict[str, Figures], ratios: dict[str, Figures]) -> None:
    for name, each in rates.items():
        traced = [f"{mode} {each[mode]:,.0f} ({ratios[name][mode]:.2f} of that)" for mode in MODES[1:]]
        print(f"{name}: {each[OFF]:,.0f} jobs/s without tracing, {', '.join(traced)}")


if __name__ == "__main__":
    main()
