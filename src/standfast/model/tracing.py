"""What the rest of Standfast knows of tracing: two protocols. An app that does not trace has None instead."""

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import timedelta
from typing import Protocol

from standfast.model.job import Claim, Ending, NewJob
from standfast.model.secrets import Scrub


class AttemptTrace(Protocol):
    """The span of one attempt. `step` and `ids` may be used from any thread of it."""

    def carried(self) -> Mapping[str, str]:
        """Return what another process needs to go on with the trace."""

    def ids(self) -> Mapping[str, str]:
        """Return the `trace_id` and `span_id` of the code that asks, as W3C writes them, if it has any."""

    def step(self, name: str, scrub: Scrub) -> AbstractContextManager[None]:
        """Put a span around a step that runs."""

    def end(self, ending: Ending | None) -> None:
        """End the span: this is how the attempt ended, None where its claim is lost."""


class Tracing(Protocol):
    """Makes spans. Nothing of it fails on account of whoever exports them."""

    def enqueueing(self, jobs: Sequence[NewJob]) -> AbstractContextManager[Sequence[NewJob]]:
        """Put a span around an enqueue of jobs of one task; they go on with it as they are given here."""

    def begin(self, claim: Claim, waited: timedelta, worker: str) -> AttemptTrace | None:
        """Begin the span of an attempt in the present context, that of its job being what it goes on with."""

    def go_on(self, carried: Mapping[str, str]) -> AttemptTrace | None:
        """Go on, in the present context, with the span of an attempt that another process has begun."""

    def flush(self, seconds: float) -> None:
        """Have what was not exported yet exported; blocks, for about so long at most."""

    def trace_id(self, claim: Claim) -> str | None:
        """Return the id of the trace that a job belongs to."""
