"""What `app.background` returns: a piece of work, and the way to ask about it, to wait for it and to cancel it.

waiting ─► running ─► completed | failed | cancelled          enqueued: it became a durable job instead
   └──────────────────────────────► cancelled
"""

from abc import ABC, abstractmethod
from datetime import datetime
from enum import StrEnum
from typing import Generic, TypeVar

from standfast.errors import ResultError, ResultTimeoutError
from standfast.handle import JobHandle

R = TypeVar("R")


class BackgroundState(StrEnum):
    """Where a piece of work is."""

    WAITING = "waiting"
    """As much runs as may, and it has not begun."""
    RUNNING = "running"
    COMPLETED = "completed"
    FAILED = "failed"
    """It raised an exception, which is an incident."""
    CANCELLED = "cancelled"
    """It was told to end and did, or it never began."""
    ENQUEUED = "enqueued"
    """There was no room, and it became a job: `job` is its handle."""


class Background(ABC, Generic[R]):
    """A piece of work in the background. `R` is what its function returns.

    `name` is its function's unless it was given one. `started_at` is None where it has not begun here.
    """

    id: str
    name: str
    started_at: datetime | None = None

    def __repr__(self) -> str:
        return f"<Background {self.name} {self.state} {self.id}>"

    @property
    @abstractmethod
    def state(self) -> BackgroundState:
        """Where it is now."""

    @property
    def job(self) -> JobHandle[R] | None:
        """The job that it became where there was no room for it; else None."""
        return None

    @abstractmethod
    def cancel(self) -> None:
        """Tell it to end: a coroutine is cancelled, a function in a thread is told; one that waits never begins."""

    @abstractmethod
    async def acancel(self) -> None:
        """Tell it to end, without blocking the event loop."""

    @abstractmethod
    def result(self, timeout: float | None = None) -> R:
        """Wait for it and return what its function returned, or raise what that raised; None waits for ever.

        Raises ResultTimeoutError after `timeout` seconds, and BackgroundCancelledError where it was cancelled.
        """

    @abstractmethod
    async def aresult(self, timeout: float | None = None) -> R:
        """Wait for it as `result` does, without blocking the event loop."""

    @abstractmethod
    def ended(self, timeout: float | None = None) -> bool:
        """Wait for its end for so many seconds at most; return whether it came."""

    @abstractmethod
    async def aended(self, timeout: float | None = None) -> bool:
        """Wait for its end as `ended` does, without blocking the event loop."""


class Enqueued(Background[R]):
    """Work that found no room here, and became a durable job."""

    def __init__(self, job: JobHandle[R]) -> None:
        self.id = job.id
        self.name = job.task
        self._job = job

    @property
    def state(self) -> BackgroundState:
        """It is a job now, which has states of its own."""
        return BackgroundState.ENQUEUED

    @property
    def job(self) -> JobHandle[R]:
        """The job that it became."""
        return self._job

    def cancel(self) -> None:
        """Cancel the job."""
        self._job.cancel()

    async def acancel(self) -> None:
        """Cancel the job."""
        await self._job.acancel()

    def result(self, timeout: float | None = None) -> R:
        """Wait for the job; raises as `JobHandle.result` does."""
        return self._job.result(timeout)

    async def aresult(self, timeout: float | None = None) -> R:
        """Wait for the job; raises as `JobHandle.result` does."""
        return await self._job.aresult(timeout)

    def ended(self, timeout: float | None = None) -> bool:
        """Wait for the end of the job."""
        try:
            self._job.result(timeout)
        except ResultTimeoutError:
            return False
        except ResultError:
            return True
        return True

    async def aended(self, timeout: float | None = None) -> bool:
        """Wait for the end of the job."""
        try:
            await self._job.aresult(timeout)
        except ResultTimeoutError:
            return False
        except ResultError:
            return True
        return True
