"""Many change the same records at once, each in an order of its own: without an error, and every version counts."""

import os
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import UTC, datetime
from random import Random
from uuid import UUID, uuid4

import pytest

from standfast.model.job import NewJob, OnConflict
from standfast.model.records import Change, Decision, Fire, Kind
from standfast.stores.postgres.store import PostgresBackend
from standfast.stores.values import JobFilter

CHANGERS = 8
RECORDS = [f"schedule-{number}" for number in range(20)]
SECONDS = 20.0 if os.environ.get("STANDFAST_PROVE") == "1" else 2.0
LEAST_ROUNDS = 5
MOST = 10_000


class Changer:
    """Changes some of the records, as it has seen them last, for a while; and counts what was made."""

    def __init__(self, url: str, seed: int) -> None:
        self._backend = PostgresBackend(url)
        self._random = Random(seed)
        self.made = Counter[str]()
        self.rounds = 0
        self.jobs: list[str] = []

    def run(self) -> None:
        give_up_at = time.monotonic() + SECONDS
        with closing(self._backend):
            while time.monotonic() < give_up_at or self.rounds < LEAST_ROUNDS:
                self._round()

    def _round(self) -> None:
        verbs = self._backend.verbs
        seen = {record.name: record.version for record in self._backend.run(verbs.records(Kind.SCHEDULE))}
        names = self._random.sample(RECORDS, self._random.randint(1, len(RECORDS)))
        changes = [self._change(name, seen.get(name, 0)) for name in names]
        answers = self._backend.run(verbs.change_records(changes))
        for change, made in zip(changes, answers, strict=True):
            if made:
                self.made[change.name] += 1
                self.jobs += [job.id for job in change.jobs]
        self.rounds += 1

    def _change(self, name: str, seen: int) -> Change:
        job = NewJob(str(UUID(int=self._random.getrandbits(128))), "mail.send", b"{}", queue=name)
        fire = Fire(name, datetime.fromtimestamp(seen, UTC), Decision.FIRED, job_id=job.id)
        return Change(
            Kind.SCHEDULE,
            name,
            seen,
            str(uuid4()),
            b"body",
            fires=(fire,),
            jobs=(job,),
            cancels=tuple(self._random.sample(self.jobs, min(2, len(self.jobs)))),
        )


class Replacer(Changer):
    """Besides, gives its jobs keys that all have to share."""

    def _change(self, name: str, seen: int) -> Change:
        change = super()._change(name, seen)
        [job] = change.jobs
        keyed = NewJob(
            job.id,
            job.task,
            job.payload,
            queue=name,
            key=self._random.choice("abc"),
            on_conflict=OnConflict.REPLACE,
        )
        return Change(
            change.kind,
            name,
            seen,
            change.token,
            b"body",
            fires=change.fires,
            jobs=(keyed,),
            cancels=change.cancels,
        )


@pytest.mark.parametrize("way", ["postgres_url", "pgbouncer_url"])
@pytest.mark.parametrize("kind", [Changer, Replacer])
def test_versions_are_exact(request: pytest.FixtureRequest, way: str, kind: type[Changer]) -> None:
    """Each change that was made is one version, one fire and one job."""
    url = request.getfixturevalue(way)
    changers = [kind(url, seed) for seed in range(CHANGERS)]
    with ThreadPoolExecutor(CHANGERS) as crowd:
        for running in [crowd.submit(changer.run) for changer in changers]:
            running.result()
    made = sum((changer.made for changer in changers), Counter[str]())
    with closing(PostgresBackend(url)) as backend:
        records = backend.run(backend.verbs.records(Kind.SCHEDULE))
        assert {record.name: record.version for record in records} == made
        fires = backend.run(backend.verbs.fires(None, MOST * len(RECORDS)))
        jobs = backend.run(backend.verbs.list_jobs(JobFilter(limit=MOST * len(RECORDS)))).jobs
    assert {job.id for job in jobs} == {job_id for changer in changers for job_id in changer.jobs}
    assert len(jobs) == made.total()
    for name, versions in made.items():
        times = sorted(int(fire.planned.timestamp()) for fire in fires if fire.schedule == name)
        assert times[-min(versions, 1000) :] == [*range(versions)][-1000:]
