"""Which jobs a claim gives: the same in SQLite as in the reference model, whatever there is and is asked for."""

from collections.abc import Iterator
from datetime import timedelta
from itertools import count
from pathlib import Path
from random import Random
from typing import Any

import pytest

from holdfast.core.job import Claim, Ending, KnownTask, NewJob
from holdfast.core.states import Move, Reason
from holdfast.store.backend import Backend
from holdfast.store.memory.backend import MemoryBackend
from holdfast.store.protocol import ClaimRequest, WorkerInfo
from holdfast.store.sqlite import SqliteBackend
from holdfast.testing import FakeClock

CLOCK = FakeClock()
QUEUES = ("a", "b", "c")
UNKNOWN = "unknown"
MAX_WAIT = timedelta(seconds=60)


@pytest.fixture
def backends(tmp_path: Path) -> Iterator[tuple[Backend, Backend]]:
    sqlite = SqliteBackend(tmp_path / "jobs.db", clock=CLOCK)
    yield MemoryBackend(CLOCK), sqlite
    sqlite.close()


@pytest.mark.parametrize("seed", range(12))
def test_claims_are_those_of_the_reference_model(backends: tuple[Backend, Backend], seed: int) -> None:
    """Any jobs and any requests: shares, longest waits, adoption and the order of queues mean the same."""
    random = Random(seed)
    jobs = [new_job(random, number) for number in range(random.randrange(40, 200))]
    for backend in backends:
        fill(backend, jobs)
    calls = count(2)
    given = 0
    while given < len(jobs):
        request = any_request(random, next(calls))
        model, sqlite = (backend.run(backend.verbs.claim(request)) for backend in backends)
        assert sorted(ids(sqlite.jobs)) == sorted(ids(model.jobs)), request
        assert sqlite.next_due_at == model.next_due_at
        given += len(model.jobs)


def new_job(random: Random, number: int) -> NewJob:
    return NewJob(
        id=f"{number:03}",
        task=random.choice(["known", "known", UNKNOWN]),
        payload=b"",
        queue=random.choice(QUEUES),
        priority=random.choice([-5, 0, 0, 0, 1, 7]),
        run_at=CLOCK.now() - timedelta(seconds=random.choice([0, 1, 29, 30, 31, 50, 50, 100])),
    )


def fill(backend: Backend, jobs: list[NewJob]) -> None:
    """Store the jobs, those of the unknown task as blocked(no_worker)."""
    backend.run(backend.verbs.register(WorkerInfo("w", "s", "h", 1, timedelta(hours=1))))
    backend.run(backend.verbs.enqueue([job for job in jobs if job.task == UNKNOWN]))
    claims = backend.run(backend.verbs.claim(ClaimRequest("w", 1, len(jobs)))).jobs
    endings = [Ending(claim.ref, Move.BLOCK, reason=Reason.NO_WORKER) for claim in claims]
    backend.run(backend.verbs.finish("w", endings))
    backend.run(backend.verbs.enqueue([job for job in jobs if job.task != UNKNOWN]))


def any_request(random: Random, call: int) -> ClaimRequest:
    fields: dict[str, Any] = {"queues": tuple(random.sample(QUEUES, len(QUEUES)))}
    if random.random() < 0.4:
        fields["shares"] = tuple(random.choice([0, 1, 2, 5]) for _ in QUEUES)
    if random.random() < 0.8:
        fields["max_wait"] = MAX_WAIT
    if random.random() < 0.5:
        fields["adopt"] = (KnownTask(UNKNOWN, 1),)
    if random.random() < 0.3:
        fields["closed"] = tuple(random.sample(QUEUES, random.choice([1, 2])))
    return ClaimRequest("w", call, random.choice([1, 1, 2, 5, 9, 30]), **fields)


def ids(claims: tuple[Claim, ...]) -> list[str]:
    return [claim.job_id for claim in claims]
