"""Measures what it costs a drain to be watched: by metrics that are scraped, rules, objectives and channels.

A worker that is watched and one that is not, on a store each, drain in turn, a second or so at a time, so that what
else the machine does meets both alike; each round has fresh ones, which change servers. What counts is processor
time, of the worker with its supervisor and of the store's server, while it drains: rules and scrapes are included
that fall into that time. Beside the ratio of the sums stands how far it can be trusted: between which figures it is
for 95 of 100 choices of as many turns from these. What tracing costs is measured by `bench tracing`.
"""

import argparse
import http.client
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from random import Random
from statistics import quantiles
from threading import Event, Thread

from rich.console import Console
from rich.progress import Progress

from places import HERE, PLACES, Place
from processes import cpu_seconds
from servers.process import free_port
from standfast import Standfast, State
from standfast.stores.contract import count_states

AIM = 1.03
"""The processor time of a drain that is watched, by that of one that is not, should be at most this."""

WARM_UP = 2000
"""Jobs before anything counts: a process that has just begun does much for the first time."""

CHOICES = 2000
"""So many times rounds are chosen anew, to see how much depends on which there were."""

PATIENCE = 300.0
POLL = 0.05


@dataclass(frozen=True, slots=True)
class Turn:
    """Seconds of processors that a drain took, by who is not watched and by who is, one after the other."""

    plain: float
    watched: float


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="bench watch", description=__doc__)
    parser.add_argument("stores", nargs="*", metavar="STORE", help=f"{', '.join(PLACES)} (default: all)")
    parser.add_argument("--jobs", type=int, default=25_000, help="jobs of each drain (default 25,000)")
    parser.add_argument("--turns", type=int, default=20, help="drains of each worker (default 20)")
    parser.add_argument("--rounds", type=int, default=6, help="so many times with fresh workers (default 6)")
    parser.add_argument(
        "--scrape", type=float, default=15.0, metavar="SECONDS", help="between scrapes (default 15)"
    )
    parser.add_argument("--json", action="store_true", help="print one object of figures")
    options = parser.parse_args(arguments)
    unknown = set(options.stores) - PLACES.keys()
    if unknown:
        parser.error(f"no store is called {unknown.pop()}: choose from {', '.join(PLACES)}")
    with Progress(console=Console(stderr=True), transient=True) as progress:
        report = {store: _compare(store, options, progress) for store in options.stores or PLACES}
    print(json.dumps(report, indent=2)) if options.json else _show(report)


def _compare(store: str, options: argparse.Namespace, progress: Progress) -> dict[str, object]:
    turns: list[Turn] = []
    scraped = 0
    bar = progress.add_task(store, total=options.rounds * options.turns)
    with PLACES[store]() as one, PLACES[store]() as other:
        for number in range(options.rounds):
            port = free_port()
            with (
                (other if number % 2 else one)() as place,
                (one if number % 2 else other)() as watched_place,
                _working(place) as plain,
                _working(watched_place, port) as watched,
                _scraping(port, options.scrape) as scrapes,
            ):
                for turn in range(options.turns):
                    turns.append(_take_turns(plain, watched, options.jobs, turned=bool(turn % 2)))
                    progress.advance(bar)
            scraped += len(scrapes)
    random = Random(0)
    cuts = quantiles((_ratio(random.choices(turns, k=len(turns))) for _ in range(CHOICES)), n=40)
    done = options.jobs * len(turns)
    return {
        "jobs": options.jobs,
        "turns": options.turns,
        "rounds": options.rounds,
        "scraped": scraped,
        "plain_us_per_job": sum(turn.plain for turn in turns) / done * 1e6,
        "watched_us_per_job": sum(turn.watched for turn in turns) / done * 1e6,
        "ratio": _ratio(turns),
        "ratio_from": cuts[0],
        "ratio_to": cuts[-1],
        "aim": AIM,
        "met": cuts[-1] <= AIM,
    }


def _take_turns(plain: "Drainer", watched: "Drainer", jobs: int, *, turned: bool) -> Turn:
    took = {each: each.drain(jobs) for each in ((watched, plain) if turned else (plain, watched))}
    return Turn(took[plain], took[watched])


def _ratio(turns: Sequence[Turn]) -> float:
    return sum(turn.watched for turn in turns) / sum(turn.plain for turn in turns)


class Drainer:
    """A worker of a place, which drains jobs when it is told to."""

    def __init__(self, app: Standfast, place: Place, worker: subprocess.Popen[bytes]) -> None:
        self._app = app
        self._place = place
        self._worker = worker
        self._given = 0

    def drain(self, jobs: int) -> float:
        """Return the seconds of processors that it takes to drain so many. Raises TimeoutError if it does not."""
        call, verbs = self._app.call, self._app.verbs
        call(verbs.pause("default"))
        self._app.tasks["noop"].enqueue_many({"n": number} for number in range(jobs))
        self._given += jobs
        before, give_up_at = self._spent(), time.monotonic() + PATIENCE
        call(verbs.resume("default"))
        while call(verbs.queue_ages()).queues or call(count_states(verbs))[State.COMPLETED] < self._given:
            if self._worker.poll() is not None or time.monotonic() > give_up_at:
                raise TimeoutError
            time.sleep(POLL)
        return self._spent() - before

    def _spent(self) -> float:
        server = self._place.server
        return cpu_seconds(self._worker.pid) + (cpu_seconds(server) if server else 0.0)


async def noop(n: int) -> None:
    """Do nothing: what is given here is done by the worker's own."""


@contextmanager
def _working(place: Place, metrics: int | None = None) -> Iterator[Drainer]:
    """Start a worker, which is watched if there is a port for its metrics."""
    paths = os.pathsep.join([str(HERE / "contenders"), *filter(None, [os.environ.get("PYTHONPATH")])])
    ours = {"STANDFAST_URL": place.url, "BENCH_FOLDER": str(place.folder), "PYTHONPATH": paths}
    ours["PYTHONHASHSEED"] = "0"
    command = [sys.executable, "-c", "from standfast.cli.main import main; main()", "worker", "watched_app:app"]
    if metrics is not None:
        command += ["--metrics", f"127.0.0.1:{metrics}"]
        ours["BENCH_WATCHED"] = "1"
    log = place.folder / "log"
    with log.open("wb") as out:
        worker = subprocess.Popen(command, cwd=place.folder, env={**os.environ, **ours}, stdout=out, stderr=out)
    try:
        with Standfast(place.url) as app:
            app.task(noop)
            drainer = Drainer(app, place, worker)
            drainer.drain(WARM_UP)
            yield drainer
    except TimeoutError:
        sys.exit(f"bench: the worker does not work:\n{log.read_text()[-2000:]}")
    finally:
        worker.terminate()
        worker.wait(60)


@contextmanager
def _scraping(port: int, every: float) -> Iterator[list[int]]:
    """Ask for metrics every so often, from this process, whose time does not count."""
    sizes: list[int] = []
    over = Event()

    def scrape() -> None:
        while not over.wait(every):
            sizes.append(_scrape(port))

    scraper = Thread(target=scrape)
    scraper.start()
    try:
        yield sizes
    finally:
        over.set()
        scraper.join()


def _scrape(port: int) -> int:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        connection.request("GET", "/metrics")
        answer = connection.getresponse()
        body = answer.read()
    finally:
        connection.close()
    if answer.status != http.client.OK:
        sys.exit(f"bench: /metrics was answered by {answer.status}: {body[:200]!r}")
    return len(body)


def _show(report: Mapping[str, dict[str, object]]) -> None:
    for store, told in report.items():
        met = "met" if told["met"] else "not shown"
        print(
            f"{store}: {told['ratio']:.3f} times the processor time ({told['ratio_from']:.3f} to"
            f" {told['ratio_to']:.3f}), {told['watched_us_per_job']:.1f} beside {told['plain_us_per_job']:.1f} µs a"
            f" job, scraped {told['scraped']} times; the aim, all of that at most {AIM}, is {met}"
        )


if __name__ == "__main__":
    main()
