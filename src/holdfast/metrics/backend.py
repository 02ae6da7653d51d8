"""An open store whose calls are counted and timed."""

from collections.abc import Iterator
from itertools import compress
from time import perf_counter
from typing import Any, TypeVar

from holdfast.core.job import NewJob, Verdict
from holdfast.metrics.meter import Meter
from holdfast.metrics.places import FENCED
from holdfast.store.backend import Around, Backend
from holdfast.store.verb import Verb

T = TypeVar("T")

_STALE = Verdict.STALE


class MeteredBackend(Around):
    """Another store. What runs in transactions of the caller's own is not seen from here, and not counted."""

    def __init__(self, inner: Backend, meter: Meter) -> None:
        super().__init__(inner)
        self._meter = meter

    def run(self, verb: Verb[T]) -> T:
        """Run the verb and count it."""
        began = perf_counter()
        try:
            answer = self._inner.run(verb)
        except BaseException:
            self._meter.called(verb.name, perf_counter() - began, failed=True)
            raise
        self._answered(verb, answer, perf_counter() - began)
        return answer

    async def arun(self, verb: Verb[T]) -> T:
        """Run the verb and count it."""
        began = perf_counter()
        try:
            answer = await self._inner.arun(verb)
        except BaseException:
            self._meter.called(verb.name, perf_counter() - began, failed=True)
            raise
        self._answered(verb, answer, perf_counter() - began)
        return answer

    def _answered(self, verb: Verb[Any], answer: Any, seconds: float) -> None:
        stale = answer.count(_STALE) if verb.name in FENCED else 0
        self._meter.called(verb.name, seconds, stale=stale)
        if verb.brings:
            self._meter.enqueued(_accepted(verb, answer))


def _accepted(verb: Verb[Any], answer: Any) -> Iterator[NewJob]:
    """Yield the jobs that a verb has brought: those of `enqueue` that were stored, or those of the changes made."""
    if verb.name == "enqueue":
        yield from (job for job in verb.brings if job.id not in answer)
    else:
        for change in compress(verb.brings, answer):
            yield from change.jobs
