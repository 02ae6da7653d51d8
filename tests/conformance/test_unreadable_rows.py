"""A row that cannot be read costs its own job: no claim, no look and no beat fails of it, and others run."""

import asyncio
import sqlite3
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from datetime import timedelta
from types import MappingProxyType
from typing import Any

import psycopg
import pytest
from msgspec.structs import force_setattr
from redis import Redis

from conformance import Harness
from conformance.harness import TASK
from empty_stores import STORES
from harnesses import open_harness
from standfast import Standfast
from standfast.errors import PayloadError
from standfast.model.codec import decode_result
from standfast.model.crash import DeathKind
from standfast.model.job import UNREADABLE, Ending, Failure, JobAction, Verdict
from standfast.model.records import Kind
from standfast.model.states import Move, State
from standfast.stores.contract import cancel_job, change_job, count_states
from standfast.stores.values import JobFilter, WorkerBeat
from standfast.testing.faults import Faults
from standfast.testing.worker import InProcessWorker, KitEnvironment, Run
from standfast.worker.completer import problem_of

Damage = Callable[["Scene"], None]


class Scene:
    """Three jobs of a store, of which the second is to be damaged."""

    def __init__(self, harness: Harness, request: pytest.FixtureRequest) -> None:
        self.harness = harness
        self.request = request
        one, self.damaged, other = (
            harness.enqueue(
                payload=b'{"v":1,"args":{}}', start_within=timedelta(hours=1), metadata={"a": "b"}, tags=("t",)
            )
            for _ in range(3)
        )
        self.sound = {one, other}

    def sqlite(self, sql: str) -> None:
        path = self.harness.backend._engine()._files.jobs  # type: ignore[attr-defined]
        with closing(sqlite3.connect(path)) as own, own:
            own.execute(f"UPDATE standfast_job SET {sql} WHERE id = ?", (self.damaged,))

    def postgres(self, sql: str, table: str = "job") -> None:
        schema = self.request.getfixturevalue("emptied_schema")
        with psycopg.connect(self.request.getfixturevalue("shared_postgres"), autocommit=True) as own:
            own.execute(f"UPDATE {schema.name}.{table} SET {sql} WHERE id = %s", (self.damaged,))

    def redis(self, act: Callable[[Redis, str], object]) -> None:
        with Redis.from_url(self.request.getfixturevalue("shared_redis")) as own:
            act(own, self.damaged)

    def memory(self, **fields: Any) -> None:
        row = self.harness.verbs._jobs[self.damaged]  # type: ignore[attr-defined]
        for name, value in fields.items():
            if hasattr(row, name):
                setattr(row, name, value)
            else:
                force_setattr(row.new, name, value)


def in_sqlite(sql: str) -> Damage:
    return lambda scene: scene.sqlite(sql)


def in_postgres(sql: str) -> Damage:
    return lambda scene: scene.postgres(sql)


def in_redis(act: Callable[[Redis, str], object]) -> Damage:
    return lambda scene: scene.redis(act)


def text_of(job_id: str) -> str:
    return f"{{standfast}}:job:{job_id}"


def rewrite(change: Callable[[bytes], bytes]) -> Damage:
    def act(own: Redis, job_id: str) -> None:
        text = own.get(text_of(job_id))
        assert isinstance(text, bytes)
        own.set(text_of(job_id), change(text))

    return in_redis(act)


def in_life(act: Callable[[Redis, str], object]) -> Damage:
    """Damage what became of a job after it was claimed and given back."""

    def damage(scene: Scene) -> None:
        worker = scene.harness.register()
        for claim in scene.harness.claim(worker):
            scene.harness.finish(worker, claim.ref, Move.RELEASE)
        scene.redis(lambda own, job_id: act(own, f"{{standfast}}:life:{job_id}"))

    return damage


DAMAGES: Mapping[str, tuple[str, Damage]] = MappingProxyType(
    {
        "memory: a limit that is no time": ("memory", lambda scene: scene.memory(start_by="soon")),
        **{
            f"sqlite: {sql}": ("sqlite", in_sqlite(sql))
            for sql in (
                "metadata = '{\"half'",
                "metadata = '[1]'",
                "metadata = CAST(x'ff' AS TEXT)",
                "on_late = 'whatever'",
                "start_by = 'soon'",
                "run_at = 'soon'",
                "task = CAST(x'ff' AS TEXT)",
                "queue = CAST(x'ff' AS TEXT)",
                "queue = x'ff'",
                "on_late = x'00', max_attempts = 'many', version = 'new', attempt = 'often', priority = 'high'",
            )
        },
        **{
            f"postgres: {sql}": ("postgres", in_postgres(sql))
            for sql in ("metadata = '{\"half'", "metadata = '[1]'", "on_late = 'whatever'")
        },
        "redis: no text at all": ("redis", rewrite(lambda _: b"")),
        "redis: half a text": ("redis", rewrite(lambda text: text[:50])),
        "redis: another text": ("redis", rewrite(lambda _: b"\xff" * 200)),
        "redis: its length": ("redis", rewrite(lambda text: text[:31] + b"\x00\x00\x00\x09" + text[35:])),
        "redis: its arrival": ("redis", rewrite(lambda text: b"x" * 31 + text[31:])),
        "redis: an array of nothing": ("redis", rewrite(lambda text: text[:31] + b"\x00\x00\x00\x01\x90{}")),
        "redis: a life that is no hash": (
            "redis",
            in_life(lambda own, life: (own.delete(life), own.set(life, "x"))),
        ),
        "redis: a fence that is no number": ("redis", in_life(lambda own, life: own.hset(life, "f", "x"))),
        "redis: a time that is no number": ("redis", in_life(lambda own, life: own.hset(life, "t", "x"))),
        "redis: a hash where its text was": (
            "redis",
            in_redis(lambda own, job_id: (own.delete(text_of(job_id)), own.hset(text_of(job_id), "a", "b"))),
        ),
    }
)


@pytest.fixture(params=DAMAGES)
def scene(request: pytest.FixtureRequest, quick_path: Any) -> Iterator[Scene]:
    """Three jobs, one of them damaged."""
    name, damage = DAMAGES[request.param]
    with open_harness(name, STORES[name], request, quick_path) as harness:
        scene = Scene(harness, request)
        damage(scene)
        yield scene


def look_at_everything(harness: Harness, job_id: str) -> None:
    """Ask for all that a store tells people and programs."""
    verbs = harness.verbs
    harness.snapshot()
    assert harness.run(verbs.situation(job_id)) is not None
    assert job_id in harness.run(verbs.glance([job_id]))
    assert job_id in {job.id for job in harness.run(verbs.list_jobs(JobFilter(), 1000)).jobs}
    for which in (JobFilter(tags=("t",)), JobFilter(states=frozenset({State.READY, State.SCHEDULED, State.DEAD}))):
        harness.run(verbs.list_jobs(which))
    harness.run(verbs.queue_ages())
    harness.run(verbs.unsettled(None))
    assert all(number >= 0 for number in harness.run(count_states(verbs)).values())


def claim_all(harness: Harness, worker: str) -> list[Any]:
    """Claim until there is nothing: what stands out of line is found by the second call."""
    claims = list(harness.claim(worker))
    return claims + list(harness.claim(worker))


def is_unreadable(claim: Any) -> bool:
    return problem_of(claim) is not None


def test_a_damaged_row_costs_one_job(scene: Scene) -> None:
    """The healthy jobs of its claim complete in the call in which it ends as dead; nothing is left to drain."""
    harness = scene.harness
    look_at_everything(harness, scene.damaged)
    worker = harness.register()
    claims = {claim.job_id: claim for claim in claim_all(harness, worker)}
    assert claims.keys() == {*scene.sound, scene.damaged}
    assert {job_id for job_id, claim in claims.items() if is_unreadable(claim)} == {scene.damaged}
    look_at_everything(harness, scene.damaged)
    assert harness.beat(worker, held=frozenset(claim.ref for claim in claims.values())).accepted == {worker}
    harness.start(worker, claims[scene.damaged].ref)
    failure = Failure("PayloadError", UNREADABLE)
    endings = [
        Ending(claim.ref, Move.DIE, failure=failure) if is_unreadable(claim) else Ending(claim.ref, Move.COMPLETE)
        for claim in claims.values()
    ]
    assert set(harness.run(harness.verbs.finish(worker, endings))) == {Verdict.ACCEPTED}
    assert set(harness.run(harness.verbs.finish(worker, endings))) == {Verdict.ACCEPTED}
    look_at_everything(harness, scene.damaged)
    job = harness.job(scene.damaged)
    assert job.state is State.DEAD
    assert UNREADABLE in (job.error or "")
    assert harness.last_attempt(scene.damaged).how == Move.DIE
    assert {harness.job(job_id).state for job_id in scene.sound} == {State.COMPLETED}
    assert [
        job.id for job in harness.run(harness.verbs.list_jobs(JobFilter(states=frozenset({State.DEAD})))).jobs
    ] == [scene.damaged]
    assert harness.run(harness.verbs.unsettled(None)) == 0


def test_a_worker_runs_the_others_and_ends(scene: Scene) -> None:
    """It ends the damaged one as dead, with the reason, and comes to an end when nothing is left."""
    backend, clock = scene.harness.backend, scene.harness.clock
    app, ran = Standfast("memory://"), list[Run]()
    app.task(name=TASK)(lambda: None)
    app._backend = backend
    ground = KitEnvironment(app, backend, clock, app.events, Faults())

    async def drain() -> None:
        await InProcessWorker(ground, ran.append, raising=False).work()

    asyncio.run(drain())
    assert {run.job_id: run.outcome for run in ran} == {
        scene.damaged: "die",
        **dict.fromkeys(scene.sound, "complete"),
    }
    job = scene.harness.job(scene.damaged)
    assert job.state is State.DEAD
    assert UNREADABLE in (job.error or "")
    assert scene.harness.run(scene.harness.verbs.unsettled(None)) == 0


def test_a_damaged_row_is_found_anew_after_every_return(scene: Scene) -> None:
    """It is given back, buried with its worker, requeued, discarded and forgotten as any other job."""
    harness = scene.harness
    worker = harness.register()
    claims = claim_all(harness, worker)
    for claim in claims:
        harness.finish(worker, claim.ref, Move.RELEASE)
    refs = {claim.ref for claim in claim_all(harness, worker)}
    assert {ref.job_id for ref in refs} == {*scene.sound, scene.damaged}
    assert set(harness.bury(worker, DeathKind.STOPPED)) == refs
    worker = harness.register()
    for claim in claim_all(harness, worker):
        harness.finish(worker, claim.ref, Move.DIE, failure=Failure("PayloadError", UNREADABLE))
    harness.run(change_job(harness.verbs, JobAction.RETRY, scene.damaged))
    look_at_everything(harness, scene.damaged)
    [claim] = claim_all(harness, worker)
    assert harness.run(harness.verbs.reconcile(harness_beat(worker))) == (claim.ref,)
    [claim] = claim_all(harness, worker)
    harness.finish(worker, claim.ref, Move.DIE, failure=Failure("PayloadError", UNREADABLE))
    harness.run(change_job(harness.verbs, JobAction.DISCARD, scene.damaged))
    harness.clock.advance(86_400)
    assert harness.run(harness.verbs.forget_jobs(timedelta(hours=1), 10)) >= 1
    assert harness.run(harness.verbs.get(scene.damaged)) is None


def harness_beat(worker: str) -> Any:
    return WorkerBeat(worker, 1000, frozenset())


def test_a_cancelled_one_is_over(scene: Scene) -> None:
    """A person may also cancel what cannot be read."""
    harness = scene.harness
    harness.run(cancel_job(harness.verbs, scene.damaged))
    assert harness.job(scene.damaged).state is State.CANCELLED
    worker = harness.register()
    assert {claim.job_id for claim in claim_all(harness, worker)} == scene.sound


# -- what else Redis keeps -----------------------------------------------------------------------------------------


@pytest.fixture
def redis_scene(request: pytest.FixtureRequest, quick_path: Any) -> Iterator[Scene]:
    with open_harness("redis", STORES["redis"], request, quick_path) as harness:
        yield Scene(harness, request)


def test_a_claim_that_cannot_be_read_is_given_back(redis_scene: Scene) -> None:
    """Its worker is refused, beats as before, and the job runs again under a greater fence; others complete."""
    harness, worker = redis_scene.harness, redis_scene.harness.register()
    refs = [claim.ref for claim in harness.claim(worker)]
    redis_scene.redis(lambda own, job_id: own.hset("{standfast}:claims", job_id, b"\xc1 damaged"))
    look_at_everything(harness, redis_scene.damaged)
    assert harness.beat(worker, closed_call=99, held=frozenset(refs)).unnamed == {worker}
    endings = [Ending(ref, Move.COMPLETE) for ref in refs]
    verdicts = dict(zip(refs, harness.run(harness.verbs.finish(worker, endings)), strict=True))
    assert {ref.job_id for ref, verdict in verdicts.items() if verdict is Verdict.STALE} == {redis_scene.damaged}
    harness.run(harness.verbs.reconcile(harness_beat(worker)))
    [again] = harness.claim(worker)
    assert again.ref > next(ref for ref in refs if ref.job_id == redis_scene.damaged)
    assert harness.finish(worker, again.ref, Move.COMPLETE) is Verdict.ACCEPTED
    assert harness.run(harness.verbs.unsettled(None)) == 0
    look_at_everything(harness, redis_scene.damaged)


@pytest.mark.parametrize("kind", [DeathKind.STOPPED, DeathKind.CRASHED])
def test_a_worker_with_damaged_claims_is_buried(redis_scene: Scene, kind: DeathKind) -> None:
    """Its claim, its history or its registration cannot be read: what it had is given back all the same."""
    harness, worker = redis_scene.harness, redis_scene.harness.register()
    for claim in harness.claim(worker):
        harness.finish(worker, claim.ref, Move.RELEASE)
    assert len(harness.claim(worker)) == 3

    def damage(own: Redis, job_id: str) -> None:
        own.hset("{standfast}:claims", job_id, b"\xc1 damaged")
        own.hset(f"{{standfast}}:life:{job_id}", "h1", b"\xc1 damaged")
        own.hset("{standfast}:workers", worker, b"\xc1 damaged")

    redis_scene.redis(damage)
    other = harness.register()
    assert harness.beat(other).accepted == {other}
    assert harness.beat(worker).accepted == frozenset()
    look_at_everything(harness, redis_scene.damaged)
    assert len(harness.bury(worker, kind)) == 3
    harness.clock.advance(60)
    suspects = {each.group for each in harness.beat(other).suspects}
    claimed = {claim.job_id for group in {0, *suspects} for claim in harness.claim(other, group=group)}
    assert claimed == {*redis_scene.sound, redis_scene.damaged}


def test_a_completion_that_cannot_be_read_has_no_result(redis_scene: Scene) -> None:
    """It is completed, and whoever asks for its result is told that it cannot be read."""
    harness, worker = redis_scene.harness, redis_scene.harness.register()
    for claim in harness.claim(worker):
        harness.finish(worker, claim.ref, Move.COMPLETE, result=b"1")
    redis_scene.redis(lambda own, job_id: own.set(f"{{standfast}}:done:{job_id}", b"\xc1 damaged"))
    look_at_everything(harness, redis_scene.damaged)
    job = harness.job(redis_scene.damaged)
    assert job.state is State.COMPLETED
    with pytest.raises(PayloadError):
        decode_result(job.result or b"")


def test_a_record_that_cannot_be_read_costs_no_other(redis_scene: Scene) -> None:
    """It is shown without a body, is forgotten as any other, and the others are read."""
    harness = redis_scene.harness
    for name in ("a", "b"):
        assert harness.change(name, due_at=harness.clock.now())
    redis_scene.redis(lambda own, _: own.hset("{standfast}:records:schedule", "a", b"damaged"))
    assert {record.name: record.body for record in harness.kept().records} == {"a": b"", "b": b"body"}
    due = harness.run(harness.verbs.due_records(Kind.SCHEDULE, timedelta(), 10)).records
    assert {record.name for record in due} == {"a", "b"}
    [damaged] = [record for record in due if record.name == "a"]
    assert harness.change("a", seen=damaged.version, body=None)
    assert harness.record("a") is None


# -- what else SQLite keeps ----------------------------------------------------------------------------------------


def test_a_worker_whose_queues_cannot_be_read_stops_no_beat(
    request: pytest.FixtureRequest, quick_path: Any
) -> None:
    """The others of its fleet beat and are shown."""
    with open_harness("sqlite", STORES["sqlite"], request, quick_path) as harness:
        odd, other = harness.register(queues=("a",)), harness.register()
        path = harness.backend._engine()._files.jobs  # type: ignore[attr-defined]
        with closing(sqlite3.connect(path)) as own, own:
            own.execute("UPDATE standfast_worker SET queues = '[\"a' WHERE id = ?", (odd,))
        assert harness.beat(other).accepted == {other}
        assert len(harness.run(harness.verbs.workers())) == 2


@pytest.mark.parametrize("name", ["sqlite", "postgres"])
def test_a_state_that_is_none_is_shown_as_dead(name: str, request: pytest.FixtureRequest, quick_path: Any) -> None:
    """Who waits for the job is told so, and pages show it."""
    with open_harness(name, STORES[name], request, quick_path) as harness:
        scene, worker = Scene(harness, request), harness.register()
        for claim in harness.claim(worker):
            harness.finish(worker, claim.ref, Move.CANCEL, reason="no")
        if name == "sqlite":
            scene.sqlite("state = 'whatever'")
        else:
            scene.postgres("state = 'whatever'", "outcome")
        look_at_everything(harness, scene.damaged)
        assert harness.run(harness.verbs.glance([scene.damaged]))[scene.damaged].state is State.DEAD
        assert UNREADABLE in (harness.job(scene.damaged).error or "")
