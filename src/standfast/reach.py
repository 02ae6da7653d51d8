"""What an app reaches by name in its store: a job, its files and its signals; locks and semaphores."""

from collections.abc import Mapping
from typing import Any, Protocol

from standfast.core.job import Job
from standfast.durable.files import SavedFile
from standfast.durable.shelf import Shelf
from standfast.errors import ArgumentsError
from standfast.handle import Caller, JobHandle
from standfast.locks import Lock
from standfast.locks.leased import Leased
from standfast.locks.problems import refuse_bad_lock
from standfast.locks.session import Session
from standfast.locks.ways import House
from standfast.policy import Seconds
from standfast.policy.reading import as_seconds
from standfast.spelling import options_of
from standfast.store.errand import arun_errand, run_errand
from standfast.store.files import find_files

AnyJob = JobHandle[Any] | Job | str
"""A job, as itself, by its handle or by its id."""


class App(House, Caller, Protocol):
    """What an app is made of, for those who reach into its store."""

    @property
    def shelf(self) -> Shelf:
        """Where the files are that jobs save."""
        ...


class Reach:
    """The part of an app that reaches jobs and locks."""

    def handle(self: App, job_id: str) -> JobHandle[Any]:
        """Return a handle for a job whose id was kept; `task.handle` knows the type of its result too."""
        return JobHandle(job_id, "", self)

    def files(self: App, job: AnyJob) -> Mapping[str, SavedFile]:
        """Return the files that a job has saved, by name. Raises JobNotFoundError."""
        return run_errand(self.call, find_files(self.verbs, self.shelf, _meant(self, job).id))

    async def afiles(self: App, job: AnyJob) -> Mapping[str, SavedFile]:
        """Return the files that a job has saved without blocking the event loop. Raises JobNotFoundError."""
        return await arun_errand(self.acall, find_files(self.verbs, self.shelf, _meant(self, job).id))

    def signal(self: App, job: AnyJob, name: str, data: Any = None) -> None:
        """Send a job, given as its handle, itself or its id, a signal: `ctx.wait_for(name)` returns `data` there.

        A job that waits for it goes on; for any other it is kept until its handler asks for it. Raises
        ArgumentsError for what JSON cannot carry, JobNotFoundError, and JobStateError where the job is over.
        """
        _meant(self, job).signal(name, data)

    async def asignal(self: App, job: AnyJob, name: str, data: Any = None) -> None:
        """Send a job a signal as `signal` does, without blocking the event loop."""
        await _meant(self, job).asignal(name, data)

    @options_of("app.lock")
    def lock(
        self: App, name: str, *, ttl: Seconds = 30, timeout: Seconds | None = None, session: bool = False
    ) -> Lock:
        """Return a lock that one at a time holds, of all who use the store: `with app.lock("nightly"):`.

        While it is held it is renewed; when its holder dies, it ends after `ttl` at most. A block waits for it for
        `timeout` seconds, or for ever; then LockTimeoutError is raised. With `session`, on PostgreSQL alone, it is
        held by a connection instead, and ends the moment that dies.
        """
        refuse_bad_lock(name, 1, ttl, timeout)
        flavour = Session(self, name) if session else Leased(self, name, 1, float(as_seconds(ttl)))
        return Lock(self, name, flavour, as_seconds(timeout))

    @options_of("app.semaphore")
    def semaphore(self: App, name: str, places: int, *, ttl: Seconds = 30, timeout: Seconds | None = None) -> Lock:
        """Return one place of a lock that so many at a time hold: `with app.semaphore("api", 5):`.

        Who asks is given a place while fewer than its own `places` are held, whatever others say. A lock is a
        semaphore of one place, so both have their names in common.
        """
        refuse_bad_lock(name, places, ttl, timeout)
        return Lock(self, name, Leased(self, name, places, float(as_seconds(ttl))), as_seconds(timeout))


def _meant(app: App, job: AnyJob) -> JobHandle[Any]:
    if isinstance(job, JobHandle | Job):
        return JobHandle(job.id, "", app)
    if not isinstance(job, str):
        raise ArgumentsError(f"a job is meant by itself, its handle or its id, not by {job!r:.80}")
    return JobHandle(job, "", app)
