"""Measures what jobs in its process cost the requests of a web app: their p95 when idle, with gates, and without.

A request waits for a pretended database and renders a little. The jobs are a heavy mix, more than a process can do.
They take turns, round after round, each in a fresh server; what counts is the median of the rounds.
"""

import argparse
import http.client
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from statistics import median, quantiles

from places import HERE, Place, sqlite_places
from servers.process import free_port

AIM = 1.3
"""The p95 with gates by that of an idle process should be at most this."""

MODES = ("idle", "gated", "gated, long turns", "ungated")
"""With gates and Python's own turns of 5 ms it is measured too: the shorter ones can be declined."""

PACE = 0.02
"""Seconds from the beginning of a request to that of the next."""

PERCENTILES = 20
PATIENCE = 60.0


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="bench host", description=__doc__)
    parser.add_argument("--requests", type=int, default=500, help="requests of each measurement (default 500)")
    parser.add_argument("--rounds", type=int, default=3, help="rounds in which all take turns (default 3)")
    parser.add_argument("--json", action="store_true", help="print one object of figures")
    options = parser.parse_args(arguments)
    found: dict[str, list[Figures]] = {mode: [] for mode in MODES}
    with sqlite_places() as places:
        for number in range(options.rounds):
            turn = number % len(MODES)
            for mode in (*MODES[turn:], *MODES[:turn]):
                with places() as place:
                    found[mode].append(_measure(place, mode, options.requests))
    figures = {
        mode: {name: median(each[name] for each in rounds) for name in rounds[0]} for mode, rounds in found.items()
    }
    ratios = {mode: figures[mode]["p95_ms"] / figures["idle"]["p95_ms"] for mode in MODES[1:]}
    report = {**figures, "ratios": ratios, "aim": AIM, "met": ratios["gated"] <= AIM}
    print(json.dumps(report, indent=2)) if options.json else _show(figures, ratios)


Figures = dict[str, float]


def _measure(place: Place, mode: str, requests: int) -> Figures:
    """Return the milliseconds of requests to a fresh server, and how many jobs a second it ended meanwhile."""
    with _serving(place, mode, requests) as port:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
        _taken(connection, "/warm")
        before, began = _done(connection), time.perf_counter()
        waits = list(_waits(connection, requests))
        done, lasted = _done(connection) - before, time.perf_counter() - began
        connection.close()
    cuts = quantiles(waits, n=PERCENTILES, method="inclusive")
    return {"p50_ms": median(waits), "p95_ms": cuts[-1], "jobs_per_second": done / lasted}


def _waits(connection: http.client.HTTPConnection, requests: int) -> Iterator[float]:
    due = time.perf_counter()
    for _ in range(requests):
        due = max(due + PACE, time.perf_counter())
        time.sleep(max(0.0, due - time.perf_counter()))
        began = time.perf_counter()
        _taken(connection, "/")
        yield (time.perf_counter() - began) * 1000


def _taken(connection: http.client.HTTPConnection, path: str) -> bytes:
    connection.request("GET", path)
    answer = connection.getresponse()
    body = answer.read()
    if answer.status != http.client.OK:
        sys.exit(f"bench: {path} was answered by {answer.status}: {body[:200]!r}")
    return body


def _done(connection: http.client.HTTPConnection) -> int:
    return int(_taken(connection, "/done"))


@contextmanager
def _serving(place: Place, mode: str, requests: int) -> Iterator[int]:
    """Start a server and wait until it answers."""
    port, log = free_port(), place.folder / "log"
    paths = os.pathsep.join([str(HERE / "contenders"), *filter(None, [os.environ.get("PYTHONPATH")])])
    ours = {"STANDFAST_URL": place.url, "STANDFAST_HOST": "on", "BENCH_MODE": mode, "BENCH_REQUESTS": str(requests)}
    environment = {**os.environ, "PYTHONPATH": paths, **ours}
    command = [sys.executable, "-m", "uvicorn", "host_web:web", "--port", str(port), "--log-level", "warning"]
    with log.open("wb") as out:
        process = subprocess.Popen(
            command, cwd=place.folder, env=environment, stdout=out, stderr=out, stdin=subprocess.DEVNULL
        )
    try:
        give_up_at = time.monotonic() + PATIENCE
        while not _answers(port):
            if process.poll() is not None or time.monotonic() > give_up_at:
                sys.exit(f"bench: the server did not start:\n{log.read_text()[-2000:]}")
            time.sleep(0.05)
        yield port
    finally:
        process.terminate()
        process.wait(PATIENCE)


def _answers(port: int) -> bool:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
    try:
        connection.request("GET", "/done")
        return connection.getresponse().status == http.client.OK
    except OSError:
        return False
    finally:
        connection.close()


def _show(figures: dict[str, Figures], ratios: dict[str, float]) -> None:
    for mode, each in figures.items():
        beside = f", {ratios[mode]:.2f} times the idle p95" if mode in ratios else ""
        print(
            f"{mode}: p50 {each['p50_ms']:.1f} ms, p95 {each['p95_ms']:.1f} ms{beside};"
            f" {each['jobs_per_second']:.0f} jobs/s"
        )
    met = "met" if ratios["gated"] <= AIM else "missed"
    print(f"with gates: {ratios['gated']:.2f} times the idle p95 (aim: at most {AIM}): {met}")


if __name__ == "__main__":
    main()
