"""A store to which things happen that reports tell of."""

from datetime import timedelta
from typing import Any
from uuid import uuid4

from figures_stage import Stage
from standfast import State
from standfast.admin.reports import gather_report
from standfast.model.concurrency import run_without_loop
from standfast.model.ids import new_job_id
from standfast.model.job import Ending, Failure, NewJob
from standfast.model.records import Change, Kind
from standfast.model.states import Move
from standfast.observe.reports.report import Report
from standfast.stores.values import ClaimRequest, WorkerInfo
from standfast.stores.verb import run_procedure

LEASE = timedelta(days=9)


class Happening(Stage):
    """A store to which things happen."""

    def __init__(self) -> None:
        super().__init__()
        self.calls = 0

    def work(self, *queues: str) -> None:
        """Let a worker live, which serves some queues, or all."""
        info = WorkerInfo("w1", "s1", "web-01", 1, LEASE, queues or None, 20)
        self.backend.run(self.verbs.register(info))

    def die(self, error: str, task: str = "send", queue: str = "mail", **more: Any) -> str:
        """Let a job die of an error now."""
        payload = b'{"v":1,"args":{"pin":"4711"}}'
        job = NewJob(new_job_id(), task, queue=queue, payload=payload, max_attempts=1, **more)
        self.backend.run(self.verbs.enqueue([job]))
        self.calls += 1
        [claim] = self.backend.run(self.verbs.claim(ClaimRequest("w1", self.calls, 1))).jobs
        ending = Ending(claim.ref, Move.DIE, started_at=self.clock.now(), failure=Failure("OSError", error, ""))
        self.backend.run(self.verbs.finish("w1", [ending]))
        assert self.backend.run(self.verbs.get(job.id)).state is State.DEAD
        return job.id

    def write(self, kind: Kind, name: str, body: bytes, **more) -> None:
        self.backend.run(self.verbs.change_records([Change(kind, name, 0, str(uuid4()), body, **more)]))

    def report(self, **span) -> Report:
        run_without_loop(self.publish())
        return run_procedure(self.backend.run, gather_report(self.verbs, timedelta(**span)))
