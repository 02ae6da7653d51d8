"""One answer to a scrape: what processes have counted, and how the store stands."""

import time
from collections.abc import Iterable

import msgspec

from standfast.metrics import families as family
from standfast.metrics.exposition import written
from standfast.metrics.families import Sample
from standfast.metrics.goals import Goals
from standfast.metrics.storewide import Fleet
from standfast.store.asked import Asked
from standfast.words import standfast_version


class StoreSamples(msgspec.Struct, frozen=True):
    """What a look at the store brought; `problem` if it did not answer."""

    samples: tuple[Sample, ...] = ()
    problem: str | None = None


class StoreLook:
    """Asks a store, when it is called, for all that is told about the fleet."""

    def __init__(self, asked: Asked) -> None:
        self._fleet = Fleet(asked)
        self._goals = Goals(asked)

    def __call__(self) -> StoreSamples:
        """Return how it stands now."""
        began_at = time.monotonic()
        samples = [*self._fleet.samples(), *self._goals.samples()]
        samples.append(Sample(family.LOOK_SECONDS.name, (), round(time.monotonic() - began_at, 6)))
        return StoreSamples(tuple(samples))


def page(seen: StoreSamples, counted: Iterable[Sample] = ()) -> str:
    """Return the text for Prometheus: what was counted here, if anything, and how the store stands."""
    up = Sample(family.STORE_UP.name, (), 0 if seen.problem else 1)
    build = Sample(family.BUILD.name, (standfast_version(),), 1)
    return written([*counted, build, up, *seen.samples])
