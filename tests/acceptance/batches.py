"""One process that enqueues, claims and finishes jobs in batches, by the verbs of a PostgreSQL store alone."""

import time
from datetime import timedelta

from standfast.model.ids import new_job_id
from standfast.model.job import Claim, Ending, NewJob, Verdict
from standfast.model.states import Move
from standfast.stores.postgres.store import PostgresBackend
from standfast.stores.values import ClaimRequest, WorkerInfo

BATCH = 500
WORKER = "w"
PAYLOAD = b'{"v":1,"args":{"n":12345}}'


class Batches:
    """A store, and its only worker."""

    def __init__(self, url: str) -> None:
        self.backend = PostgresBackend(url)
        self._calls = 0
        self.backend.run(
            self.backend.verbs.register(WorkerInfo(WORKER, "supervisor", "here", 1, timedelta(hours=1)))
        )

    def close(self) -> None:
        self.backend.close()

    def enqueue(self, count: int) -> None:
        """Let so many jobs come in, all due now."""
        for start in range(0, count, BATCH):
            size = min(BATCH, count - start)
            jobs = [NewJob(new_job_id(), "task", PAYLOAD) for _ in range(size)]
            self.backend.run(self.backend.verbs.enqueue(jobs))

    def claim(self, limit: int = BATCH) -> tuple[Claim, ...]:
        """Take at most so many jobs."""
        self._calls += 1
        return self.backend.run(self.backend.verbs.claim(ClaimRequest(WORKER, self._calls, limit))).jobs

    def finish(self, claims: tuple[Claim, ...]) -> None:
        """Complete jobs; each has to be ours still."""
        endings = [Ending(claim.ref, Move.COMPLETE) for claim in claims]
        verdicts = self.backend.run(self.backend.verbs.finish(WORKER, endings))
        assert set(verdicts) == {Verdict.ACCEPTED}

    def drain(self, count: int) -> float:
        """Claim and finish so many jobs; return how many a second."""
        began, done = time.perf_counter(), 0
        while done < count:
            claims = self.claim()
            assert claims, f"{done} jobs of {count} were found"
            self.finish(claims)
            done += len(claims)
        return count / (time.perf_counter() - began)

    def pass_through(self, count: int) -> float:
        """Enqueue so many jobs, then drain them; return how many a second were drained."""
        self.enqueue(count)
        return self.drain(count)
