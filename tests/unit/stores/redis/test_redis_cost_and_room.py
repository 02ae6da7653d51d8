"""What the scripts of the Redis store cost a server, and what they do on a full one: each test has its own."""

from collections.abc import Callable
from datetime import timedelta

import msgspec
import pytest
from redis_scene import Open, Servers, calls_of, everything, fill

from conformance import Harness
from servers import RedisServer
from standfast.errors import StoreFullError
from standfast.model.crash import DeathKind
from standfast.model.job import (
    HISTORY_FIRST,
    HISTORY_LAST,
    Attempt,
    Claim,
    Ending,
    JobAction,
    OnConflict,
    Progress,
    Verdict,
)
from standfast.model.states import Move, State
from standfast.stores.contract import cancel_job, change_job
from standfast.stores.values import ClaimAnswer, WorkerBeat
from standfast.testing import FakeClock


@pytest.fixture
def private(redis_server: Servers) -> RedisServer:
    return redis_server()


@pytest.fixture
def store(private: RedisServer, open_store: Open) -> Harness:
    clock = FakeClock()
    return Harness(open_store(private.url(), clock=clock), clock)


def test_one_job_takes_few_commands(private: RedisServer, store: Harness) -> None:
    """Nothing is done for what a plain job does not have, nor for listeners that are not there."""
    store.enqueue()
    assert calls_of(private, store.enqueue) == {"evalsha": 1, "incr": 1, "set": 1, "exists": 1, "zadd": 2}


def test_a_claim_where_nothing_waits(private: RedisServer, store: Harness) -> None:
    """It ends before anything is made ready for a choice, and writes nothing."""
    worker = store.register()
    store.claim(worker)
    answers: list[ClaimAnswer] = []
    ran = calls_of(private, lambda: answers.append(store.ask(worker, 1)))
    assert answers == [ClaimAnswer((), store.clock.now())]
    assert ran == {"evalsha": 1, "hexists": 1, "exists": 1, "zrange": 1}


def test_commands_do_not_grow_with_the_jobs(private: RedisServer, store: Harness) -> None:
    """To put in, to give and to end hundreds of jobs takes the server some dozen commands, not some for each."""
    worker = store.register()

    def commands(action: Callable[[], object]) -> int:
        return sum(calls_of(private, action).values())

    jobs = [store.new_job() for _ in range(500)]
    assert commands(lambda: store.run(store.verbs.enqueue(jobs))) < 20
    claims: list[Claim] = []
    assert commands(lambda: claims.extend(store.claim(worker, 500))) < 30
    endings = [Ending(claim.ref, Move.COMPLETE, store.clock.now(), result=b"1") for claim in claims]
    assert commands(lambda: store.run(store.verbs.finish(worker, endings))) < 20
    assert len(claims) == len(jobs)


def test_a_history_that_was_never_folded_is_looked_at_in_pieces(private: RedisServer, store: Harness) -> None:
    """Others come in between: a look at thousands of claims, as an older release kept, held up the server."""
    placed = store.place(State.HELD)
    assert store.history("unknown") == ()
    store.finish(placed.worker, placed.ref, Move.SNOOZE)
    entry = b"".join(map(msgspec.msgpack.encode, ("w", 1, 2, "snooze", None, None, None, "finish")))
    with private.connect() as own:
        own.hset(f"{{standfast}}:life:{placed.job_id}", mapping={f"h{fence}": entry for fence in range(2, 2001)})
        own.hset(f"{{standfast}}:life:{placed.job_id}", "f", 2000)
    looks: list[tuple[Attempt, ...]] = []
    ran = calls_of(private, lambda: looks.append(store.history(placed.job_id)))
    assert (ran["evalsha"], ran.get("hgetall")) == (4, None)
    assert sum(each.folded for each in looks[0]) == 2000 - HISTORY_FIRST - HISTORY_LAST


def test_a_full_server_lets_work_come_to_its_end(private: RedisServer, store: Harness) -> None:
    """It refuses new jobs, all or nothing; whatever brings those that it has to their end goes on."""
    worker, other = store.register(), store.register()
    jobs = [store.enqueue(key=f"k{place}" if place % 2 else None) for place in range(6)]
    with private.connect() as own:
        own.config_set("maxmemory", 1)
        before = everything(own)
        with pytest.raises(StoreFullError):
            store.enqueue(tags=("red",))
        assert everything(own) == before
    plain, keyed, retried, crashed, *_ = (claim.ref for claim in store.claim(worker))
    assert store.start(worker, crashed) is Verdict.ACCEPTED
    assert store.run(store.verbs.progress(worker, [(crashed, Progress(1))])) == (Verdict.ACCEPTED,)
    assert store.beat(worker, 100, frozenset({crashed})).accepted == {worker}
    assert store.finish(worker, plain, Move.COMPLETE, result=b"1") is Verdict.ACCEPTED
    assert store.finish(worker, keyed, Move.COMPLETE, result=b"1") is Verdict.ACCEPTED
    assert store.finish(worker, retried, Move.RETRY) is Verdict.ACCEPTED
    assert store.run(cancel_job(store.verbs, crashed.job_id))
    store.run(store.verbs.reconcile(WorkerBeat(worker, 100, frozenset({crashed}))))
    assert store.bury(worker, DeathKind.VANISHED) == (crashed,)
    for claim in store.claim(other):
        store.finish(other, claim.ref, Move.COMPLETE)
    assert {store.job(job_id).state for job_id in jobs} == {State.COMPLETED, State.CANCELLED}
    store.clock.advance(1)
    assert store.run(store.verbs.forget_jobs(timedelta(), 100)) == len(jobs)


def test_a_full_server_makes_room_by_itself(private: RedisServer, store: Harness) -> None:
    """Results whose time is over are forgotten, of plain completions and of others, and the jobs after them."""
    worker = store.register()
    jobs = [store.enqueue(), store.enqueue(key="k")]
    for claim in store.claim(worker):
        store.finish(worker, claim.ref, Move.COMPLETE, result=b"1", keep_result=timedelta(seconds=1))
    store.clock.advance(2)
    fill(private)
    assert store.run(store.verbs.forget_results(100)) == 2
    assert [store.job(job_id).result for job_id in jobs] == [None, None]
    assert store.run(store.verbs.forget_jobs(timedelta(), 100)) == 2


def test_a_full_server_can_be_operated(private: RedisServer, store: Harness) -> None:
    """Whatever people do to get out of trouble is not refused: to pause, to cancel, to requeue, to discard."""
    worker = store.register()
    dead = [store.enqueue(key="dead"), store.enqueue()]
    for claim in store.claim(worker):
        store.finish(worker, claim.ref, Move.DIE)
    held = store.enqueue(key="k")
    assert store.claimed_ids(worker) == [held]
    replacing = store.enqueue(key="k", on_conflict=OnConflict.REPLACE)
    fill(private)
    store.run(store.verbs.pause("default"))
    store.clock.advance(5)
    store.run(store.verbs.pause("default"))
    (queue,) = (queue for queue in store.run(store.verbs.queues()) if queue.name == "default")
    assert queue.paused_at == store.clock.now() - timedelta(seconds=5)
    store.run(cancel_job(store.verbs, replacing))
    assert store.job(replacing).state is State.CANCELLED
    store.run(change_job(store.verbs, JobAction.RETRY, dead[0]))
    assert store.job(dead[0]).state is State.READY
    store.run(change_job(store.verbs, JobAction.DISCARD, dead[1]))
    assert store.job(dead[1]).state is State.CANCELLED
    store.run(store.verbs.resume("default"))
    fill(private, is_full=False)
    assert store.taken_by(key="k") == held
