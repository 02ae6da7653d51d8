"""The scripts of the Redis store: what the conformance suite, which sees answers only, cannot see of them."""

from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

import msgspec
import pytest
import redis
from redis_scene import Open, everything, names_of, scripted

from conformance import Harness
from conformance.agreeing import History
from conformance.harness import TASK
from standfast.errors import KeyTakenError, ValueNotStoredError
from standfast.model.crash import Death, DeathKind
from standfast.model.job import (
    ClaimRef,
    Ending,
    Failure,
    JobAction,
    KnownTask,
    NewJob,
    OnConflict,
    Progress,
    Verdict,
)
from standfast.model.states import ENDINGS, RETURNS, Move, Reason, State
from standfast.stores.contract import cancel_job, change_job, count_states
from standfast.stores.values import ClaimRequest, JobFilter, WorkerInfo
from standfast.stores.verb import Script, Statement, follow
from standfast.testing import FakeClock

EVERY_BYTE = bytes(range(256))
MANY = 5000
"""More than Lua takes as arguments of one call, in jobs with a value each."""


# -- the short ways ------------------------------------------------------------------------------------------------


def test_one_job_leaves_what_it_leaves_among_others(store: Harness, server: redis.Redis) -> None:
    """A single plain job has a script of its own, which writes the very same as that for many."""
    jobs = [NewJob(f"job-{number}", TASK, b"{}", queue="mail", priority=-3) for number in range(2)]
    for job in jobs:
        store.run(store.verbs.enqueue([job]))
    one_by_one = everything(server)
    server.flushdb()
    store.run(store.verbs.enqueue(jobs))
    assert everything(server) == one_by_one


@pytest.mark.parametrize("known", [1, 2, 3])
def test_jobs_that_are_known_already(store: Harness, server: redis.Redis, known: int) -> None:
    """One or many of them, alone or among new ones: they stay as they are, and wait once."""
    jobs = [NewJob(f"job-{number}", TASK, b"{}") for number in range(4)]
    store.run(store.verbs.enqueue(jobs[:known]))
    before = everything(server)
    store.run(store.verbs.enqueue(jobs[:known]))
    after = everything(server)
    assert {name for name in before | after if before.get(name) != after.get(name)} == {"{standfast}:arrivals"}
    store.run(store.verbs.enqueue(jobs))
    assert store.claimed_ids(store.register()) == [job.id for job in jobs]


# -- values --------------------------------------------------------------------------------------------------------


def test_payloads_and_results_are_any_bytes(store: Harness) -> None:
    """What goes in comes out, whatever the bytes, by the short way of plain completions and by the long one."""
    plain, keyed = store.enqueue(payload=EVERY_BYTE), store.enqueue(payload=EVERY_BYTE[::-1], key="k")
    worker = store.register()
    claims = store.claim(worker)
    assert [claim.payload for claim in claims] == [EVERY_BYTE, EVERY_BYTE[::-1]]
    endings = [Ending(claim.ref, Move.COMPLETE, result=claim.payload) for claim in claims]
    assert store.run(store.verbs.finish(worker, endings)) == (Verdict.ACCEPTED, Verdict.ACCEPTED)
    assert [store.job(job_id).result for job_id in (plain, keyed)] == [EVERY_BYTE, EVERY_BYTE[::-1]]


@pytest.mark.parametrize("key", [None, "k"])
@pytest.mark.parametrize("result", [None, b""])
def test_an_empty_result_is_a_result(store: Harness, key: str | None, result: bytes | None) -> None:
    """Nothing and no bytes at all are told apart."""
    job_id, worker = store.enqueue(key=key), store.register()
    store.finish(worker, store.claim_one(worker), Move.COMPLETE, result=result)
    assert store.job(job_id).result == result


@pytest.mark.parametrize("when", [datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)])
def test_times_beyond_what_a_double_can_tell(store: Harness, when: datetime) -> None:
    """A time is kept to the microsecond, even where a score cannot."""
    job_id, worker = store.enqueue(run_at=when), store.register()
    assert store.job(job_id).run_at == when
    for claim in store.claim(worker):
        assert claim.run_at == when
        store.finish(worker, claim.ref, Move.RELEASE)
    assert store.job(job_id).run_at == when
    assert store.ask(worker, 0).next_due_at is not None


def test_names_do_not_run_into_each_other(store: Harness) -> None:
    """Names of queues, tasks and keys may hold what the names of our own keys are made of."""
    worker = store.register()
    store.enqueue(queue="a", task="a:0:0")
    store.finish(worker, store.claim_one(worker), Move.BLOCK, reason=Reason.NO_WORKER)
    beside = store.enqueue(queue="a:0:0:1:a")
    assert store.claimed_ids(worker, queues=("a:0:0:1:a",)) == [beside]
    assert store.taken_by(task="a", key="b:c") is None
    assert store.taken_by(task="a:b", key="c") is None


# -- one step ------------------------------------------------------------------------------------------------------


def test_a_refused_enqueue_leaves_no_trace(store: Harness, server: redis.Redis) -> None:
    """The last job of a call is refused, and of those before, one of which ends another, nothing is there."""
    store.enqueue(key="one")
    store.enqueue(key="two")
    before = everything(server)
    jobs = [
        store.new_job(tags=("red",)),
        store.new_job(key="one", on_conflict=OnConflict.REPLACE),
        store.new_job(key="three"),
        store.new_job(key="two", on_conflict=OnConflict.RAISE),
    ]
    with pytest.raises(KeyTakenError, match="which is ready"):
        store.run(store.verbs.enqueue(jobs))
    assert everything(server) == before


def test_jobs_of_one_call_meet_before_anything_is_written(store: Harness, server: redis.Redis) -> None:
    """A job may be refused its key because of one that came with it, and then neither is there."""
    before = everything(server)
    jobs = [store.new_job(key="k"), store.new_job(key="k", on_conflict=OnConflict.RAISE)]
    with pytest.raises(KeyTakenError, match=jobs[0].id):
        store.run(store.verbs.enqueue(jobs))
    assert everything(server) == before


def test_a_stale_write_changes_nothing(store: Harness, server: redis.Redis) -> None:
    """Not a byte, whichever write it is."""
    store.enqueue()
    worker, other = store.register(), store.register()
    stale = store.claim_one(worker)._replace(fence=2)
    before = everything(server)
    now = store.clock.now()
    assert store.finish(other, stale._replace(fence=1), Move.COMPLETE) is Verdict.STALE
    assert store.finish(worker, stale, Move.COMPLETE) is Verdict.STALE
    assert store.finish(worker, stale, Move.RETRY) is Verdict.STALE
    assert store.run(store.verbs.start(worker, [(stale, now)])) == (Verdict.STALE,)
    assert store.run(store.verbs.progress(worker, [(stale, Progress(1))])) == (Verdict.STALE,)
    assert everything(server) == before


def test_a_burial_begins_anew_when_something_came_between(store: Harness) -> None:
    """A wish to cancel that falls between the two steps of a burial is heeded, not overwritten."""
    placed = store.place(State.RUNNING)
    names: list[str] = []

    def call(script: Statement) -> Any:
        assert isinstance(script, Script)
        names.append(script.name)
        if names == ["orphans", "bury"]:
            store.run(cancel_job(store.verbs, placed.job_id))
        return store.run(scripted(script.name, *script.args))

    bury = store.verbs.bury(placed.worker, Death(DeathKind.STOPPED))
    assert follow(bury.steps, call) == (placed.ref,)
    assert names == ["orphans", "bury", "orphans", "bury"]
    job = store.job(placed.job_id)
    assert (job.state, job.reason) == (State.CANCELLED, Reason.REQUESTED)


# -- many ----------------------------------------------------------------------------------------------------------


def test_calls_of_many_jobs(store: Harness) -> None:
    """More jobs in one call than Lua takes arguments: they come in, are given and end like a few."""
    jobs = [store.new_job(key=f"k{place}" if place % 2 else None) for place in range(MANY)]
    assert store.run(store.verbs.enqueue(jobs)) == {}
    worker = store.register()
    claims = store.claim(worker, MANY)
    assert [claim.job_id for claim in claims] == [job.id for job in jobs]
    held = frozenset(claim.ref for claim in claims)
    assert store.beat(worker, closed_call=100, held=held).unnamed == frozenset()
    assert len(store.run(store.verbs.glance([job.id for job in jobs]))) == MANY
    endings = [Ending(claim.ref, Move.COMPLETE) for claim in claims]
    assert store.run(store.verbs.finish(worker, endings)) == (Verdict.ACCEPTED,) * MANY
    assert store.run(count_states(store.verbs))[State.COMPLETED] == MANY
    store.clock.advance(1)
    assert store.run(store.verbs.forget_jobs(timedelta(), MANY)) == MANY


def test_a_list_that_passes_over_many(store: Harness) -> None:
    """A job is found behind thousands of others, and the pages of a list meet without a gap."""
    oldest = store.enqueue(task="rare")
    store.run(store.verbs.enqueue([store.new_job() for _ in range(MANY // 2)]))
    (found,) = store.run(store.verbs.list_jobs(JobFilter(task="rare"))).jobs
    assert found.id == oldest
    newest_first, before = [], None
    while page := store.run(store.verbs.list_jobs(JobFilter(limit=700, before=before))).jobs:
        newest_first += [job.id for job in page]
        before = page[-1].id
    assert newest_first == sorted(newest_first, reverse=True)
    assert len(newest_first) == MANY // 2 + 1


# -- what is left --------------------------------------------------------------------------------------------------


def test_every_key_has_the_tag_of_its_namespace(redis_url: str, open_store: Open, server: redis.Redis) -> None:
    """After a long and wild history there is no key outside the slot, and two namespaces do not meet."""
    clock = FakeClock()
    model = Harness(open_store(redis_url, clock=clock), clock)
    other = Harness(open_store(redis_url, clock=clock, namespace="shop"), clock)
    history = History(model, (other,), Random(4))
    for _ in range(150):
        history.step()
        history.compare()
    assert {name[: name.find("}") + 1] for name in names_of(server)} == {"{standfast}", "{standfast:shop}"}


def test_nothing_is_left_of_jobs_that_were_retired(store: Harness, server: redis.Redis) -> None:
    """Jobs of all kinds went through all kinds of ends; once they are retired, only numbers are left of them."""
    worker = store.register()
    store.enqueue(key="kept", keep_key=timedelta(seconds=30), tags=("red", "blue"))
    store.enqueue(key="dying", tags=("red",), priority=3)
    store.enqueue(key="replaced", queue="other")
    unknown = store.enqueue(queue="third", version=2)
    claims = {claim.job_id: claim.ref for claim in store.claim(worker)}
    replacement = store.enqueue(key="replaced", queue="other", on_conflict=OnConflict.REPLACE)
    store.enqueue(key="given-up", delay=timedelta(hours=1))
    store.enqueue(key="given-up", delay=timedelta(hours=1), on_conflict=OnConflict.REPLACE)
    kept, dying, replaced, _ = claims.values()
    store.start(worker, kept)
    store.run(store.verbs.progress(worker, [(kept, Progress(1, 2))]))
    store.finish(worker, kept, Move.COMPLETE, result=b"1", keep_result=timedelta(days=1))
    store.finish(worker, dying, Move.DIE, failure=Failure("ValueError", "no"))
    store.finish(worker, replaced, Move.RETRY)
    store.finish(worker, claims[unknown], Move.BLOCK, reason=Reason.NO_WORKER)
    _crash_with_all(store)
    store.run(change_job(store.verbs, JobAction.RETRY, dying.job_id))
    last = store.register()
    groups = {each.group for each in store.beat(last).suspects}
    for group in (0, *groups):
        for claim in store.claim(last, look_ahead=timedelta(hours=2), ahead_limit=9, group=group):
            store.finish(last, claim.ref, Move.COMPLETE, result=b"", keep_result=timedelta(seconds=1))
    assert store.job(replacement).state is State.COMPLETED
    store.clock.advance(60)
    assert store.run(store.verbs.forget_results(100)) > 0
    assert store.run(store.verbs.forget_jobs(timedelta(seconds=1), 100)) == 7
    store.beat(last)
    for name in (worker, last):
        store.run(store.verbs.bury(name, Death(DeathKind.STOPPED)))
    assert {name.removeprefix("{standfast}:") for name in names_of(server)} == {
        "arrivals",
        "buried",
        "epoch:result",
        "format",
        "hires",
    }


def _crash_with_all(store: Harness) -> None:
    """Let a worker take what there is and crash with all of it, so that there are suspects."""
    worker = store.register()
    started = frozenset(claim.ref for claim in store.claim(worker, adopt=(KnownTask(TASK, 2),)))
    store.bury(worker, DeathKind.CRASHED, started, "signal 9")


@pytest.mark.parametrize("move", sorted(ENDINGS - RETURNS))
def test_an_end_leaves_neither_claim_nor_key(store: Harness, server: redis.Redis, move: Move) -> None:
    """As soon as a job has ended, nothing is kept that only an unfinished one needs."""
    worker = store.register()
    store.enqueue(key="k")
    store.enqueue()
    for claim in store.claim(worker):
        store.finish(worker, claim.ref, move)
    kinds = {name.split(":")[1] for name in names_of(server)}
    assert not kinds & {"key", "held", "claims", "lane", "lanes", "queues", "again", "followers"}


def test_a_kept_key_expires_by_itself(store: Harness, server: redis.Redis) -> None:
    """A key that nobody asks for again does not stay for ever, and goes no earlier than it may."""
    worker = store.register()
    store.enqueue(key="k", keep_key=timedelta(hours=1))
    store.finish(worker, store.claim_one(worker), Move.COMPLETE)
    (name,) = (name for name in names_of(server) if ":key:" in name)
    assert 3600 < server.ttl(name) < 4000


def test_a_lease_that_no_number_of_the_server_can_tell(store: Harness) -> None:
    """It is refused, and neither views nor beats of others have to do with it."""
    info = WorkerInfo("worker", "supervisor", "host", 1, timedelta.max)
    with pytest.raises(ValueNotStoredError, match="lease"):
        store.run(store.verbs.register(info))
    store.run(store.verbs.register(msgspec.structs.replace(info, lease=timedelta(days=36_500))))
    (worker,) = store.run(store.verbs.workers())
    assert (worker.info.lease, worker.beat_age) == (timedelta(days=36_500), timedelta())
    assert store.beat(store.register()).next_expiry == timedelta(days=36_500)


def test_claims_do_not_wait_for_what_was_taken_away_by_hand(store: Harness, server: redis.Redis) -> None:
    """A job whose key is gone is passed over, and those beside it are given and can end."""
    gone, there = store.enqueue(), store.enqueue()
    held, worker = store.enqueue(), store.register()
    server.delete(f"{{standfast}}:job:{gone}")
    assert store.claimed_ids(worker) == [there, held]
    server.delete(f"{{standfast}}:job:{held}")
    assert store.finish(worker, ClaimRef(held, 1), Move.RETRY) is Verdict.STALE
    assert store.run(store.verbs.claim(ClaimRequest(worker, 9, 1))).jobs == ()
    assert store.bury(worker, DeathKind.STOPPED) == (ClaimRef(there, 1),)
    assert store.job(there).state is State.READY
