"""An open store whose calls are counted and timed."""

import logging
from collections.abc import Iterator
from itertools import compress
from time import perf_counter
from typing import Any, TypeVar

from standfast.core.job import NewJob, Verdict
from standfast.metrics.meter import Meter
from standfast.metrics.places import FENCED
from standfast.store.backend import Around, Backend
from standfast.store.verb import Verb

log = logging.getLogger(__name__)

T = TypeVar("T")

_STALE = Verdict.STALE


class MeteredBackend(Around):
    """Another store. What runs in transactions of the caller's own is not seen from here, and not counted.

    Whatever becomes of counting, the caller hears what the store has said, and nothing else.
    """

    def __init__(self, inner: Backend, meter: Meter) -> None:
        super().__init__(inner)
        self._meter = meter
        self._failed = False

    def run(self, verb: Verb[T]) -> T:
        """Run the verb and count it."""
        began = perf_counter()
        try:
            answer = self._inner.run(verb)
        except BaseException:
            self._refused(verb, perf_counter() - began)
            raise
        self._answered(verb, answer, perf_counter() - began)
        return answer

    async def arun(self, verb: Verb[T]) -> T:
        """Run the verb and count it."""
        began = perf_counter()
        try:
            answer = await self._inner.arun(verb)
        except BaseException:
            self._refused(verb, perf_counter() - began)
            raise
        self._answered(verb, answer, perf_counter() - began)
        return answer

    def _answered(self, verb: Verb[Any], answer: Any, seconds: float) -> None:
        try:
            stale = answer.count(_STALE) if verb.name in FENCED else 0
            self._meter.called(verb.name, seconds, stale=stale)
            if verb.brings:
                self._meter.enqueued(_accepted(verb, answer))
        except Exception as error:  # noqa: BLE001 - the store has answered, and that is what the caller is to know
            self._uncounted(error)

    def _refused(self, verb: Verb[Any], seconds: float) -> None:
        try:
            self._meter.called(verb.name, seconds, failed=True)
        except Exception as error:  # noqa: BLE001 - what the store has raised is what the caller is to know
            self._uncounted(error)

    def _uncounted(self, error: Exception) -> None:
        """Say once that something is not counted."""
        if not self._failed:
            self._failed = True
            log.warning("metrics: some calls of the store are not counted: %s: %s", type(error).__name__, error)


def _accepted(verb: Verb[Any], answer: Any) -> Iterator[NewJob]:
    """Yield the jobs that a verb has brought: those of `enqueue` that were stored, or those of the changes made."""
    if verb.name == "enqueue":
        yield from (job for job in verb.brings if job.id not in answer)
    else:
        for change in compress(verb.brings, answer):
            yield from change.jobs
