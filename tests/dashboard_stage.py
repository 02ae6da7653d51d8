"""A store to which things happen, and a desk of a dashboard at which operations are asked for."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

from standfast.admin.executor import Admin, AnswerCache, OperationContext
from standfast.admin.operation import Role, User
from standfast.admin.registry import BY_NAME
from standfast.model.ids import new_job_id
from standfast.model.job import Ending, Failure, Job, NewJob, Progress
from standfast.model.states import Move
from standfast.settings import read_settings
from standfast.stores.backend import Backend
from standfast.stores.memory.store import MemoryBackend
from standfast.stores.values import ClaimRequest, WorkerInfo
from standfast.stores.verb import Procedure, run_procedure
from standfast.testing import FakeClock

WORKER = "a1b2c3d4e5f60718"
SMTP = Failure("SMTPError", "451 try again", "Traceback (most recent call last):\nSMTPError: 451 try again\n")
ARGS = b'{"v":1,"args":{"to":"ada@example.com","n":[1,2]}}'
SECRET = b'{"v":1,"args":{"to":"ada@example.com"},"secret":{"token":"hunter2-hunter2"}}'


class Stage:
    """A store with one worker, of which an admin has a desk. Nothing that is seen is remembered."""

    def __init__(self, opener: Callable[[FakeClock], Backend] = MemoryBackend, *, read_only: bool = False) -> None:
        self.clock = FakeClock(datetime.now(UTC))
        self.backend: Backend = opener(self.clock)
        loaded = read_settings({"url": "memory://"}, environment={})
        self.settings, self.settings_from = loaded.settings, loaded.where
        self.office = Admin(self, read_only, AnswerCache(fresh=-1.0))
        self._runner = asyncio.Runner()
        self._calls = 0

    def desk(self, role: Role = Role.ADMIN, name: str = "ada") -> OperationContext:
        """Return a desk of somebody with this role."""
        return self.office.desk(User(name, role), "api")

    def read(self, operation: str, /, role: Role = Role.VIEWER, **asked: Any) -> Any:
        """Ask for what there is to see."""
        found = BY_NAME[operation]
        return self.wait(self.desk(role).read(found, found.asked(**asked)))

    def act(self, operation: str, /, role: Role = Role.ADMIN, **asked: Any) -> Any:
        """Do something."""
        found = BY_NAME[operation]
        return self.wait(self.desk(role).act(found, found.asked(**asked)))

    def wait(self, what: Any) -> Any:
        """Run something on the loop of this stage."""
        return self._runner.run(what)

    def do(self, what: Any) -> Any:
        """Run a verb or a procedure."""
        return run_procedure(self.backend.run, what) if isinstance(what, Procedure) else self.backend.run(what)

    @property
    def verbs(self) -> Any:
        """The verbs of the store."""
        return self.backend.verbs

    def register(self, worker: str = WORKER, queues: tuple[str, ...] | None = None) -> str:
        """Let a worker be there."""
        self.do(self.verbs.register(WorkerInfo(worker, "s1", "web-01", 4242, timedelta(seconds=15), queues, 20)))
        return worker

    def enqueue(self, task: str = "send_email", queue: str = "mail", **how: Any) -> str:
        """Enqueue a job."""
        how.setdefault("payload", ARGS)
        job = NewJob(how.pop("id", None) or new_job_id(), task, queue=queue, **how)
        self.do(self.verbs.enqueue([job]))
        return job.id

    def job(self, job_id: str) -> Job:
        """Return a job as it is."""
        found = self.do(self.verbs.get(job_id))
        assert found is not None
        return found

    def end(self, job_id: str, move: Move, **how: Any) -> str:
        """Let a worker claim a job, which must be the next, and end it."""
        ending = Ending(self._claim(job_id), move, started_at=self.clock.now(), **how)
        self.do(self.verbs.finish(WORKER, [ending]))
        return job_id

    def dead(self, message: str = SMTP.message, **how: Any) -> str:
        """Bring about a dead job."""
        failure = Failure(SMTP.type, message, SMTP.traceback)
        return self.end(self.enqueue(max_attempts=1, **how), Move.DIE, failure=failure)

    def completed(self, **how: Any) -> str:
        """Bring about a job that completed."""
        return self.end(self.enqueue(**how), Move.COMPLETE, result=b'{"sent":true}')

    def running(self, **how: Any) -> str:
        """Bring about a job that runs."""
        job_id = self.enqueue(**how)
        ref = self._claim(job_id)
        self.do(self.verbs.start(WORKER, [(ref, self.clock.now())]))
        self.do(self.verbs.progress(WORKER, [(ref, Progress(42, 100, "the shoes"))]))
        return job_id

    def _claim(self, job_id: str) -> Any:
        self.register()
        self._calls += 1
        claims = self.do(self.verbs.claim(ClaimRequest(WORKER, self._calls, 1))).jobs
        assert [claim.job_id for claim in claims] == [job_id]
        return claims[0].ref

    def close(self) -> None:
        """End the loop of this stage, and close its store."""
        self._runner.close()
        self.backend.close()


@contextmanager
def open_stage(
    opener: Callable[[FakeClock], Backend] = MemoryBackend, *, read_only: bool = False
) -> Iterator[Stage]:
    """Open a stage, and close it at the end."""
    stage = Stage(opener, read_only=read_only)
    try:
        yield stage
    finally:
        stage.close()
