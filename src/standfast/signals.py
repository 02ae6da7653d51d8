"""Sending a signal to a job: what its handler waits for with `ctx.wait_for`."""

import asyncio
import logging
import time
from contextlib import suppress
from typing import Any, Protocol, TypeVar

from standfast.codec import encode_result
from standfast.core.job import Job
from standfast.core.memo import MEMO_LIMIT, signal_name
from standfast.core.names import signal_problems
from standfast.errors import ArgumentsError, JobStateError, ResultEncodingError, StoreError
from standfast.ids import new_job_id
from standfast.patience import PASSING, Patience
from standfast.phrases import Phrase
from standfast.spelling import nearest
from standfast.store.protocol import Store
from standfast.store.verb import Verb

T = TypeVar("T")

log = logging.getLogger(__name__)

_A_SLIP = 0.75
"""From which likeness on a signal may have been meant for the one that is waited for."""


class Caller(Protocol):
    """Whoever can run verbs: the app."""

    @property
    def verbs(self) -> Store:
        """The verbs of the store."""
        ...

    @property
    def retry_for(self) -> float:
        """For how many seconds to go on trying while the store is away."""
        ...

    def call(self, verb: Verb[T]) -> T:
        """Run a verb, blocking."""
        ...

    async def acall(self, verb: Verb[T]) -> T:
        """Run a verb without blocking the event loop."""
        ...


def encode_signal(name: str, data: Any) -> bytes:
    """Return what is sent with a signal, as JSON. Raises ArgumentsError that says what cannot be sent."""
    for problem in signal_problems(name):
        raise ArgumentsError(problem)
    try:
        body = encode_result(data)
    except ResultEncodingError as error:
        raise ArgumentsError(f"signal {name!r} cannot be sent: {error.__cause__ or error}") from error
    if len(body) > MEMO_LIMIT:
        raise ArgumentsError(
            f"the data of signal {name!r} takes {len(body):,} bytes and at most {MEMO_LIMIT:,} are stored;"
            " keep it elsewhere and send a reference to it"
        )
    return body


async def send(caller: Caller, job_id: str, name: str, data: Any, *, at_once: bool) -> None:
    """Send a signal once: a try whose answer was lost may have sent it, and the next has the same token."""
    body, token, patience = encode_signal(name, data), new_job_id(), Patience(caller.retry_for)
    while True:
        try:
            verb = caller.verbs.signal(job_id, name, token, body)
            sent = caller.call(verb) if at_once else await caller.acall(verb)
        except PASSING as error:
            pause = patience.pause_after(error)
        else:
            break
        if at_once:
            time.sleep(pause)  # noqa: ASYNC251 - no event loop is waiting
        else:
            await asyncio.sleep(pause)
    if not sent:
        raise too_late(job_id, name)
    with suppress(StoreError):  # it is sent, whatever becomes of the hint
        look = caller.verbs.get(job_id)
        _tell_slip(name, caller.call(look) if at_once else await caller.acall(look))


def _tell_slip(name: str, job: Job | None) -> None:
    """Say so in the log if the job waits for a signal of nearly this name: it would go on waiting."""
    waited = None if job is None else signal_name(job.reason)
    if job is not None and waited is not None and waited != name and nearest(name, [waited], _A_SLIP):
        log.warning("job %s was sent signal %r, and waits for signal %r: was that meant?", job.id, name, waited)


def too_late(job_id: str, name: str) -> JobStateError:
    """Return the error of a signal to a job that is over."""
    return JobStateError(Phrase("refusal.over", job=job_id, signal=repr(name)))
