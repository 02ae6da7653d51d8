"""Records and fires in Redis: what the conformance suite, which sees answers only, cannot see of them."""

import asyncio
import subprocess
import sys
from collections import Counter
from datetime import timedelta
from random import Random

import pytest
import redis
from redis_scene import LONG, Open, Servers, calls_of, everything, fill, names_of, scripted, until_registered

from conformance import Harness
from standfast.errors import JobStateError, StoreFullError
from standfast.model.records import FIRES_KEPT, Change, Decision, Fire, Kind
from standfast.model.states import State
from standfast.stores.redis.doctor import refuse_missing_keys
from standfast.stores.redis.store import RedisBackend
from standfast.stores.verb import Script, Statement, Tone, follow
from standfast.testing import FakeClock

CRASH_ONLY = 120.0
"""Seconds that only a call which hangs exceeds."""


def _in(seconds: float) -> timedelta:
    return timedelta(seconds=seconds)


# -- what is written -----------------------------------------------------------------------------------------------


def test_what_is_kept_of_a_record(store: Harness, server: redis.Redis) -> None:
    """One field and, if it is due some time, one place in a list; a fire is a place in that of its schedule."""
    fire = store.new_fire("nightly", note="so")
    store.change("nightly", due_at=store.clock.now(), fires=(fire,))
    store.change("shop", kind=Kind.RELEASE)
    assert names_of(server) == {
        "{standfast}:arrivals",
        "{standfast}:records:schedule",
        "{standfast}:due:schedule",
        "{standfast}:fires:nightly",
        "{standfast}:fired",
        "{standfast}:records:release",
    }


def test_nothing_is_left_of_what_is_forgotten(store: Harness, server: redis.Redis) -> None:
    """Neither record nor fires, nor any place in a list; only the number of arrivals."""
    for kind in Kind:
        assert store.change("a", kind=kind, due_at=store.clock.now(), fires=(store.new_fire(),) * 3)
    store.change("b", fires=(store.new_fire("b"),))
    for kind in Kind:
        assert store.change("a", kind=kind, seen=1, body=None)
    assert store.change("b", seen=1, body=None)
    assert names_of(server) == {"{standfast}:arrivals"}


def test_a_refused_change_writes_nothing(store: Harness, server: redis.Redis) -> None:
    """Not a byte: as many come too late to fire as there are supervisors, each time."""
    store.change("a")
    store.change("a", seen=1)
    change = store.new_change("a", seen=1, jobs=(store.new_job(),), fires=(store.new_fire(),))
    before = everything(server)
    assert store.run(store.verbs.change_records([change])) == (False,)
    assert everything(server) == before


def test_a_repeated_change_writes_nothing(store: Harness, server: redis.Redis) -> None:
    """Who did not get the answer hears it again, and the store is as it was."""
    changes = [
        store.new_change("a", jobs=(store.new_job(key="k", tags=("t",)),), fires=(store.new_fire(),)),
        store.new_change("b", body=b"\x00" * 100, due_at=store.clock.now()),
    ]
    assert store.run(store.verbs.change_records(changes)) == (True, True)
    before = everything(server)
    store.clock.advance(1)
    assert store.run(store.verbs.change_records(changes)) == (True, True)
    assert everything(server) == before


def test_names_hold_what_names_of_keys_are_made_of(store: Harness) -> None:
    """Names, tokens and notes may be any text, and bodies any bytes, such as look like what stands before them."""
    names = ["", ":", "a:b", "fires:a", "schedule", "\x00", "{x}", "*", "\N{SNOWMAN}" * 50]
    bodies = [b"", b"\x00" * 20, bytes(range(256)), b"000000000000001", b":"]
    for place, name in enumerate(names):
        fire = store.new_fire(name, note=name, job_id=name)
        body = bodies[place % len(bodies)]
        assert store.change(name, token=name * 3, body=body, due_at=store.clock.now(), fires=(fire,))
        assert store.change(name, token=name * 3, body=body, due_at=store.clock.now(), fires=(fire,))
    records = store.run(store.verbs.records(Kind.SCHEDULE))
    assert {record.name: record.body for record in records} == {
        name: bodies[place % len(bodies)] for place, name in enumerate(names)
    }
    for name in names:
        (fire,) = store.run(store.verbs.fires(name, 5))
        assert (fire.schedule, fire.note, fire.job_id) == (name, name, name)


def test_jobs_of_a_change_leave_what_jobs_leave(store: Harness, server: redis.Redis) -> None:
    """They are accepted as by an enqueue, to the byte."""
    jobs = [
        *(store.new_job(queue="q") for _ in range(2)),
        store.new_job(key="k", keep_key=_in(5), tags=("t",), payload=bytes(range(256))),
        store.new_job(run_at=store.clock.now() + _in(9), priority=3),
    ]
    store.run(store.verbs.enqueue(jobs))
    enqueued = everything(server)
    server.flushdb()
    store.change("a", jobs=tuple(jobs))
    assert store.change("a", seen=1, body=None)
    assert everything(server) == enqueued


# -- all or nothing ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("state", [State.HELD, State.RUNNING])
def test_a_job_that_is_not_to_be_withdrawn(store: Harness, server: redis.Redis, state: State) -> None:
    """A worker has it: nothing of the call happens, not even the changes before it."""
    placed, waiting = store.place(state), store.enqueue(queue="other")
    before = everything(server)
    changes = [
        store.new_change("first", jobs=(store.new_job(),), cancels=(waiting,)),
        store.new_change("second", withdraws=(waiting, placed.job_id)),
    ]
    with pytest.raises(JobStateError, match=placed.job_id):
        store.run(store.verbs.change_records(changes))
    assert everything(server) == before
    changes[1] = store.new_change("second", seen=3, withdraws=(placed.job_id,))
    assert store.run(store.verbs.change_records(changes)) == (True, False)  # what is not made withdraws nothing


def test_jobs_are_withdrawn_before_others_come(store: Harness) -> None:
    """Their keys are free for the jobs of the same change; what is unknown or final is passed over."""
    old, over = store.enqueue(key="k", delay=_in(60)), store.place(State.COMPLETED, queue="other")
    new = store.new_job(key="k")
    assert store.change("a", withdraws=(old, over.job_id, "unknown"), jobs=(new,))
    assert store.job(old).state is State.CANCELLED
    assert store.job(over.job_id).state is State.COMPLETED
    assert store.taken_by(key="k") == new.id


def test_a_full_server_refuses_new_work(redis_server: Servers, open_store: Open) -> None:
    """A new record or a job is refused with all that comes with it, and nothing is left of the call."""
    private, clock = redis_server(), FakeClock()
    store = Harness(open_store(private.url(), clock=clock), clock)
    store.change("a", due_at=clock.now(), fires=(store.new_fire(),))
    waiting = store.enqueue(delay=_in(60))
    store.change("b")
    fill(private)
    refused = [
        [store.new_change("new")],
        [store.new_change("a", seen=1, jobs=(store.new_job(),), fires=(store.new_fire(note="new"),))],
        [store.new_change("b", seen=1, body=None), store.new_change("a", seen=1, jobs=(store.new_job(),))],
        [store.new_change("a", seen=1, cancels=(waiting,)), store.new_change("new")],
    ]
    with private.connect() as own:
        before = everything(own)
        for changes in refused:
            with pytest.raises(StoreFullError):
                store.run(store.verbs.change_records(changes))
            assert everything(own) == before


def test_a_full_server_lets_schedules_be_stopped(redis_server: Servers, open_store: Open) -> None:
    """To pause one, to note that it did not fire, to take back its jobs, to forget it: none is refused."""
    private, clock = redis_server(), FakeClock()
    store = Harness(open_store(private.url(), clock=clock), clock)
    job = store.new_job(delay=_in(60), key="k")
    made = store.new_change("a", due_at=clock.now(), jobs=(job,), fires=(store.new_fire(job_id=job.id),))
    store.run(store.verbs.change_records([made]))
    store.change("b")
    fill(private)
    assert store.run(store.verbs.change_records([made])) == (True,)
    taken_back = store.new_fire(decision=Decision.REVOKED)
    assert store.change("a", seen=1, body=b"paused", fires=(taken_back,), withdraws=(job.id,))
    assert store.job(job.id).state is State.CANCELLED
    assert [fire.decision for fire in store.run(store.verbs.fires("a", 9))] == [Decision.REVOKED]
    assert store.change("b", seen=1, body=None)
    assert [record.body for record in store.run(store.verbs.records(Kind.SCHEDULE))] == [b"paused"]


# -- many ----------------------------------------------------------------------------------------------------------


def _scripts_of(store: Harness, changes: list[Change]) -> int:
    """Make changes, all of which can be made; return how many scripts that took."""
    names: list[str] = []

    def call(script: Statement) -> object:
        assert isinstance(script, Script)
        names.append(script.name)
        return store.run(scripted(script.name, *script.args))

    assert follow(store.verbs.change_records(changes).steps, call) == (True,) * len(changes)
    assert set(names) == {"change"}
    return len(names)


def test_very_many_changes_are_made_in_steps(store: Harness) -> None:
    """None of them takes the server long, a change is never cut in two, and what may undo all is one step."""
    assert _scripts_of(store, [store.new_change(f"a{number}") for number in range(600)]) == 3
    assert len(store.run(store.verbs.records(Kind.SCHEDULE))) == 600
    jobs = [tuple(store.new_job() for _ in range(size)) for size in (100, 100, 5000, 3)]
    assert _scripts_of(store, [store.new_change(f"b{len(own)}{own[0].id}", jobs=own) for own in jobs]) == 3
    assert len(store.claim(store.register(), 9000)) == 5203
    together = [store.new_change(f"c{number}", withdraws=("unknown",)) for number in range(2500)]
    assert _scripts_of(store, together) == 1


def test_many_names_and_fires_in_one_call(store: Harness) -> None:
    """More than Lua takes as arguments of one call."""
    names = [f"{number:05d}" for number in range(9000)]
    store.run(store.verbs.change_records([store.new_change(name, due_at=store.clock.now()) for name in names]))
    assert [record.name for record in store.run(store.verbs.records(Kind.SCHEDULE, names))] == names
    assert [record.name for record in store.run(store.verbs.due_records(Kind.SCHEDULE, _in(0), 8500)).records] == (
        names[:8500]
    )
    times = [store.clock.now() + _in(second) for second in range(9000)]
    store.change("fired", fires=tuple(store.new_fire("fired", planned=time) for time in times))
    kept = store.run(store.verbs.fires(None, 9000))
    assert [fire.planned for fire in kept] == times[: -FIRES_KEPT - 1 : -1]


def test_pages_of_the_fires_of_many_schedules(store: Harness) -> None:
    """Schedules that fire at all kinds of intervals: each page is what a sorted list of all would give."""
    chance, start, fires = Random(3), store.clock.now(), list[Fire]()
    for number in range(250):
        name, interval = f"s{number % 7}-{number}", chance.choice((1, 1, 60, 3600, 86400))
        own = [
            store.new_fire(name, planned=start + _in(interval * place))
            for place in range(chance.choice((1, 9, 50)))
        ]
        store.change(name, fires=tuple(own))
        fires += own
    fires.sort(key=lambda fire: (fire.planned, fire.schedule), reverse=True)
    for limit in (7, 50, 400):
        before, seen = None, list[tuple[str, object]]()
        while page := store.run(store.verbs.fires(None, limit, before)):
            assert len({fire.planned for fire in page[limit - 1 :]}) <= 1
            seen += [(fire.schedule, fire.planned) for fire in page]
            before = page[-1].planned
        assert seen == [(fire.schedule, fire.planned) for fire in fires]


def test_the_latest_fires_do_not_cost_a_look_at_all(redis_server: Servers, open_store: Open) -> None:
    """Of many schedules only those are looked at that fired lately."""
    private, clock = redis_server(), FakeClock()
    store = Harness(open_store(private.url(), clock=clock), clock)
    changes = [
        store.new_change(name, fires=(store.new_fire(name, planned=clock.now() + _in(number)),))
        for number, name in enumerate(f"s{number}" for number in range(300))
    ]
    store.run(store.verbs.change_records(changes))
    ran = calls_of(private, lambda: store.run(store.verbs.fires(None, 10)))
    assert sum(ran.values()) < 30


# -- who hears of it -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("tone", Tone)
async def test_who_waits_hears_of_a_change(
    backend: RedisBackend, redis_url: str, server: redis.Redis, tone: Tone
) -> None:
    """A job of a change wakes who waits for work; one that it cancels, who waits for results."""
    store = Harness(backend, FakeClock())
    waiting = store.enqueue(delay=_in(60))
    rings = {"jobs": (store.new_job(),)} if tone is Tone.WORK else {"cancels": (waiting,)}

    listener = backend.bell.listen(tone)
    try:
        assert await listener.wait(LONG)  # the first wait always says to look
        waited = asyncio.ensure_future(listener.wait(LONG))
        await until_registered(redis_url, tone)
        await backend.arun(store.verbs.change_records([store.new_change("a", **rings)]))
        assert not server.exists(f"{{standfast}}:waiting:{tone.value}")  # who waited was called
        assert await waited
    finally:
        listener.close()


def test_a_store_with_a_schedule_is_a_store(redis_url: str, store: Harness) -> None:
    """Where nobody worked yet, but somebody has made a schedule, there is something to look at."""
    store.change("a")
    refuse_missing_keys(redis_url, None, CRASH_ONLY)


# -- at once -------------------------------------------------------------------------------------------------------


RACER = """
import sys
from datetime import datetime, timedelta, UTC
from random import Random
from uuid import uuid4
from standfast.model.job import NewJob
from standfast.model.records import Change, Decision, Fire, Kind
from standfast.stores.redis.store import RedisBackend

url, last = sys.argv[1], int(sys.argv[2])
store, chance, won = RedisBackend(url), Random(uuid4().int), 0
epoch = datetime(2030, 1, 1, tzinfo=UTC)
while True:
    due = store.run(store.verbs.due_records(Kind.SCHEDULE, timedelta(days=36500), 100)).records
    if not due:
        break
    changes = []
    for record in chance.sample(due, chance.randint(1, len(due))):
        planned, job = epoch + timedelta(minutes=record.version), NewJob(str(uuid4()), "t", b"")
        fire = Fire(record.name, planned, Decision.FIRED, job_id=job.id)
        due_at = None if record.version + 1 >= last else planned
        place = (Kind.SCHEDULE, record.name, record.version)
        changes.append(Change(*place, str(uuid4()), job.id.encode(), due_at, (fire,), (job,)))
    made = store.run(store.verbs.change_records(changes))
    assert store.run(store.verbs.change_records(changes[:1])) in {(made[0],), (False,)}
    won += sum(made)
print(won)
store.close()
"""


def test_many_processes_change_the_same_records(redis_url: str, open_store: Open) -> None:
    """Each version of each record is made by one of them, with one job and one fire, and nobody gets an error."""
    backend = open_store(redis_url)
    store, last = Harness(backend, FakeClock()), 60
    names = [f"record-{number}" for number in range(5)]
    now = store.clock.now()
    store.run(store.verbs.change_records([store.new_change(name, due_at=now) for name in names]))
    racers = [
        subprocess.Popen(
            [sys.executable, "-c", RACER, redis_url, str(last)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(6)
    ]
    told = [racer.communicate(timeout=CRASH_ONLY) for racer in racers]
    assert [error for _, error in told] == [""] * 6
    made = 5 * (last - 1)
    assert sum(int(won) for won, _ in told) == made
    records = store.run(store.verbs.records(Kind.SCHEDULE))
    assert [record.version for record in records] == [last] * 5
    fires = store.run(store.verbs.fires(None, 10_000))
    assert Counter(fire.schedule for fire in fires) == dict.fromkeys(names, last - 1)
    jobs = {claim.job_id for claim in store.claim(store.register(), 10_000)}
    assert jobs == {fire.job_id for fire in fires}
    assert len(jobs) == made
    latest = {fire.schedule: fire.job_id for fire in reversed(fires)}
    assert {record.name: record.body.decode() for record in records} == latest
