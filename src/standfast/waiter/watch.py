"""One who waits for one job."""

from collections.abc import Callable

from standfast.core.job import Glance
from standfast.errors import JobNotFoundError, StandfastError
from standfast.latch import Latch

Until = Callable[[Glance], bool]
"""Says whether what is seen of a job is what its watcher waits for."""


class Watch:
    """One who waits for one job. It is over once `until` holds, or once an error says that it never will."""

    def __init__(self, job_id: str, until: Until) -> None:
        self.job_id = job_id
        self.until = until
        self._seen: Glance | StandfastError | None = None
        self._over = Latch()

    def ended(self, within: float) -> bool:
        """Wait for its end, blocking, for so many seconds at most; return whether it came."""
        return self._over.wait(within)

    async def aended(self, within: float) -> bool:
        """Wait as `ended` does, without blocking the event loop."""
        return await self._over.await_(within)

    def outcome(self) -> Glance:
        """Return what was seen, or raise why nothing can be; once it is over."""
        if isinstance(self._seen, StandfastError):
            raise self._seen
        if self._seen is None:
            raise RuntimeError("the watch is not over: wait for it first")
        return self._seen

    def end(self, seen: Glance | StandfastError) -> None:
        """Let it be over."""
        self._seen = seen
        self._over.set()


def job_not_found(job_id: str) -> JobNotFoundError:
    """Return the error for a job that is not there."""
    return JobNotFoundError(
        f"there is no job {job_id}; it was deleted, or is in another store, or the transaction that enqueued it has"
        " not committed"
    )
