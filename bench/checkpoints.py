"""Measures what `ctx.resume` costs a loop whose items take a millisecond each: its time by that of a bare loop.

Both run in one worker and take turns, so that the ratio holds; what counts is the median.
"""

import argparse
import json
import os
import sys
from statistics import median

from places import HERE, PLACES, Place, Places
from processes import run_python
from standfast import Standfast

AIM = 1.05
"""The ratio that a store should stay below."""

TASKS = ("bare", "resumed")
LONGEST = 600.0


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="checkpoints", description=__doc__)
    parser.add_argument("stores", nargs="*", metavar="STORE", help=f"{', '.join(PLACES)} (default: all)")
    parser.add_argument("--items", type=int, default=2_000, help="items of each loop (default 2,000)")
    parser.add_argument("--rounds", type=int, default=5, help="rounds in which both take turns (default 5)")
    parser.add_argument("--json", action="store_true", help="print one object of figures")
    options = parser.parse_args()
    unknown = set(options.stores) - PLACES.keys()
    if unknown:
        parser.error(f"no store is called {unknown.pop()}: choose from {', '.join(PLACES)}")
    figures = {}
    for store in options.stores or PLACES:
        with PLACES[store]() as places:
            figures[store] = _measure(places, options.items, options.rounds)
        if not options.json:
            ratio = figures[store]["ratio"]
            print(f"{store}: {ratio:.3f} times as long as a bare loop (aim: below {AIM})")
    if options.json:
        print(json.dumps(figures, indent=2))


def _measure(places: Places, items: int, rounds: int) -> dict[str, float]:
    """Return the median seconds of each kind of loop, and their ratio."""
    with places() as place:
        app = Standfast(place.url)
        queued = {task: app.task(name=task)(_elsewhere) for task in TASKS}
        handles = [(task, queued[task].enqueue(items=items)) for _ in range(rounds) for task in TASKS]
        _work(place)
        taken = {task: [handle.result(LONGEST) for name, handle in handles if name == task] for task in TASKS}
        app.close()
    bare, resumed = (median(taken[task]) for task in TASKS)
    return {"bare": bare, "resumed": resumed, "ratio": resumed / bare}


def _elsewhere(items: int) -> float:
    """Stand for a task of the worker's app."""
    raise NotImplementedError(items)


def _work(place: Place) -> None:
    words = [
        "worker",
        "checkpoints_app:app",
        "--drain",
        "--concurrency",
        "1",
        "--app-dir",
        str(HERE / "contenders"),
    ]
    code = "from standfast.cli.main import main; main()"
    run_python([sys.executable, "-c", code, *words], {**os.environ, "STANDFAST_URL": place.url}, place.folder)


if __name__ == "__main__":
    main()
