"""What an enqueue returns: a job's id and the way to ask about it. It holds no copy of the job and no store."""

import asyncio
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeVar, cast

from holdfast.clock import Clock
from holdfast.codec import decode_result
from holdfast.core.job import Cancellation, Job
from holdfast.core.states import FINAL, State
from holdfast.errors import JobCancelledError, JobDeadError, JobNotFoundError, ResultTimeoutError
from holdfast.store.protocol import Store
from holdfast.store.verb import Verb

R = TypeVar("R")
T = TypeVar("T")

_FIRST_PAUSE = 0.01
_LONGEST_PAUSE = 0.25
_GROWTH = 1.5


class Caller(Protocol):
    """Whoever can run verbs on the store of an app: the app itself."""

    @property
    def verbs(self) -> Store:
        """The verbs of the store."""
        ...

    @property
    def clock(self) -> Clock:
        """Where time comes from."""
        ...

    def call(self, verb: Verb[T]) -> T:
        """Run a verb, blocking."""
        ...

    async def acall(self, verb: Verb[T]) -> T:
        """Run a verb without blocking the event loop."""
        ...


@dataclass(frozen=True)  # slots and Generic do not go together in Python 3.11
class JobHandle(Generic[R]):
    """A job that was enqueued. `R` is what its task returns."""

    id: str
    task: str
    caller: Caller = field(repr=False, compare=False)
    result_type: Any = field(default=Any, repr=False, compare=False)

    def job(self) -> Job:
        """Return the job as it is now. Raises JobNotFoundError."""
        return self._found(self.caller.call(self.caller.verbs.get(self.id)))

    async def ajob(self) -> Job:
        """Return the job as it is now. Raises JobNotFoundError."""
        return self._found(await self.caller.acall(self.caller.verbs.get(self.id)))

    def status(self) -> State:
        """Return the state that the job is in now. Raises JobNotFoundError."""
        return self.job().state

    async def astatus(self) -> State:
        """Return the state that the job is in now. Raises JobNotFoundError."""
        return (await self.ajob()).state

    def cancel(self) -> Cancellation:
        """Cancel the job: at once if it waits, by asking its handler if it is claimed. Raises JobNotFoundError."""
        return self.caller.call(self.caller.verbs.cancel(self.id))

    async def acancel(self) -> Cancellation:
        """Cancel the job: at once if it waits, by asking its handler if it is claimed. Raises JobNotFoundError."""
        return await self.caller.acall(self.caller.verbs.cancel(self.id))

    def result(self, timeout: float | None = None) -> R:
        """Wait for the job and return what its handler returned; None waits for ever.

        Raises ResultTimeoutError after `timeout` seconds, JobDeadError with the error that killed it, and
        JobCancelledError with the reason.
        """
        pauses = _pauses(self.caller.clock, timeout)
        while (job := self.job()).state not in FINAL:
            time.sleep(self._next_pause(pauses, job, timeout))
        return self._read(job)

    async def aresult(self, timeout: float | None = None) -> R:
        """Wait for the job as `result` does, without blocking the event loop."""
        pauses = _pauses(self.caller.clock, timeout)
        while (job := await self.ajob()).state not in FINAL:  # noqa: ASYNC110 - it ends in another process
            await asyncio.sleep(self._next_pause(pauses, job, timeout))
        return self._read(job)

    def _found(self, job: Job | None) -> Job:
        if job is None:
            raise JobNotFoundError(f"there is no job {self.id}; it was deleted, or is in another store")
        return job

    def _next_pause(self, pauses: Iterator[float], job: Job, timeout: float | None) -> float:
        for pause in pauses:
            return pause
        raise ResultTimeoutError(
            f"job {self.id} ({self.task}) is still {job.state} after {timeout:g} s; it goes on, ask again later"
        )

    def _read(self, job: Job) -> R:
        if job.state is State.DEAD:
            raise JobDeadError(f"job {self.id} ({self.task}) is dead after {job.attempt} attempts: {job.error}")
        if job.state is State.CANCELLED:
            raise JobCancelledError(f"job {self.id} ({self.task}) was cancelled: {job.reason}")
        return cast("R", decode_result(job.result or b"null", self.result_type))


def _pauses(clock: Clock, timeout: float | None) -> Iterator[float]:
    """Yield how long to wait before each next look, until the time is up."""
    started_at = clock.boot()
    pause = _FIRST_PAUSE
    while timeout is None or (left := timeout - (clock.boot() - started_at)) > 0:
        yield pause if timeout is None else min(pause, left)
        pause = min(pause * _GROWTH, _LONGEST_PAUSE)
