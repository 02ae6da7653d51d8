"""The metrics of a supervisor: what it and its children count, added up, and served over HTTP beside it.

It is served by threads of its own, which ask the store over a connection of their own: neither a slow store nor
somebody who scrapes keeps a beat waiting.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from pathlib import Path
from typing import TypeVar

from standfast.errors import ConfigurationError
from standfast.events import Events, MetricsServed
from standfast.model.clock import Clock
from standfast.model.configuration import Settings
from standfast.observe.figures.counts import Tally
from standfast.observe.health.access import LOOPBACK, Guard, check_token, read_networks
from standfast.observe.health.endpoints import METRICS, Answer, Answers, Request
from standfast.observe.health.http_server import HealthServer
from standfast.observe.health.status import CachedRead
from standfast.observe.metrics.meter import Meter, MeteredTally
from standfast.observe.metrics.scrape import StoreLook, StoreSamples, page
from standfast.observe.metrics.totals import Totals, samples_of
from standfast.stores.backend import Backend
from standfast.stores.contract import Store
from standfast.stores.url import open_backend
from standfast.stores.verb import Verb
from standfast.worker.options import MetricsOptions

T = TypeVar("T")


class Metering:
    """Metrics of one supervisor, which opens its store by `open_backend`."""

    def __init__(self, options: MetricsOptions, folder: Path, events: Events) -> None:
        self.totals = Totals()  # what it and its children have counted
        self._meter = _meter_in(folder)
        self.totals.watch(self._meter.path)
        events.subscribe(self._meter.hear, self._meter.hears)
        self._store = _OwnStore()
        self._look_at_store = StoreLook(self._store)
        networks = options.networks or (() if options.token else LOOPBACK)
        guard = Guard(None if options.token is None else check_token(options.token), read_networks(networks))
        self._answers = Answers(guard, paths=(METRICS,))
        self._looks = CachedRead(self._look, lambda problem: StoreSamples(problem=problem))

    def open_backend(self, settings: Settings) -> Backend:
        """Open the store of the supervisor, whose calls are counted."""
        self._store.settings = settings
        backend = open_backend(settings)
        backend.observe(self._meter.observe)
        return backend

    def tally(self, clock: Clock) -> Tally:
        """Return what counts how jobs end, for figures and metrics."""
        return MeteredTally(self._meter, clock)

    def answer(self, request: Request, malformed: HTTPStatus | None = None) -> Answer:
        """Return the answer to a request."""
        refused = self._answers.at_once(request, malformed)
        return refused or Answer.of(
            request, HTTPStatus.OK, page(self._looks.seen(), samples_of(self.totals.sums()))
        )

    def close(self) -> None:
        """Let go of the store."""
        self._store.close()

    def _look(self) -> StoreSamples:
        if self._store.settings is None:
            return StoreSamples(problem="no worker has told yet which store it is")
        return self._look_at_store()


def _meter_in(folder: Path) -> Meter:
    try:
        return Meter(folder / "supervisor.counts")
    except OSError as error:
        raise ConfigurationError(
            f"metrics cannot be counted in {folder}: {error.strerror}; make room there, or set TMPDIR"
        ) from error


@contextmanager
def metered(options: MetricsOptions | None, folder: Path, events: Events) -> Iterator[Metering | None]:
    """Serve metrics meanwhile, if that is wanted. Raises ConfigurationError where nobody can listen or count."""
    if options is None:
        yield None
        return
    metering = Metering(options, folder, events)
    with HealthServer(metering, options.host, options.port) as server:
        threading.Thread(target=server.serve_forever, args=(0.1,), name="standfast-metrics", daemon=True).start()
        events.emit(MetricsServed(f"{server.url}{METRICS}"))
        try:
            yield metering
        finally:
            server.shutdown()
            metering.close()


class _OwnStore:
    """The store of the supervisor, over a connection of its own; unknown until a child has told where it is.

    Any thread may ask it: the first opens it.
    """

    def __init__(self) -> None:
        self.settings: Settings | None = None
        self._opening = threading.Lock()
        self._opened: Backend | None = None

    @property
    def verbs(self) -> Store:
        """What it can do."""
        return self._backend.verbs

    def call(self, verb: Verb[T]) -> T:
        """Run a verb."""
        return self._backend.run(verb)

    @property
    def _backend(self) -> Backend:
        with self._opening:
            if self._opened is None:
                assert self.settings is not None  # nobody asks before
                self._opened = open_backend(self.settings)
            return self._opened

    def close(self) -> None:
        """Let go of it; a daemon thread that waits for it ends with the process."""
        if self._opened is not None:
            threading.Thread(target=self._opened.close, name="standfast-closing", daemon=True).start()
