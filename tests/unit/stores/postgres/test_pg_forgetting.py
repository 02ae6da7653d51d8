"""Forgetting jobs while others act: nobody waits, nothing is forgotten by halves, and no walk is too long."""

import threading
from contextlib import closing, contextmanager
from datetime import timedelta

import psycopg
import pytest
from pg_underway import LONG, Crossing
from psycopg import sql

from conformance.harness import new_save
from standfast.errors import StandfastError
from standfast.model.job import Ending, JobAction, Progress
from standfast.model.states import Move, State
from standfast.stores.contract import change_job, count_states
from standfast.stores.postgres import supervise
from standfast.stores.postgres.statements import load_statements
from standfast.stores.postgres.store import PostgresStore
from standfast.stores.values import JobFilter
from standfast.stores.verb import Last, Verb

AGE = timedelta(hours=1)
HOUR = AGE.total_seconds()
GATE = 7_000_001
"""The number of a lock at which a statement waits that has seen what there is."""


@pytest.fixture(params=["postgres_url", "pgbouncer_url"])
def crossing(request):
    with closing(Crossing(request.getfixturevalue(request.param))) as crossing:
        yield crossing


@pytest.fixture
def alone(postgres_url):
    with closing(Crossing(postgres_url)) as crossing:
        yield crossing


def ended(crossing, how_many, move=Move.COMPLETE, **fields):
    """Bring so many new jobs to their end; return their ids in order."""
    worker = crossing.register()
    jobs = [crossing.new_job(**fields) for _ in range(how_many)]
    crossing.run(crossing.verbs.enqueue(jobs))
    refs = [claim.ref for claim in crossing.claim(worker, how_many)]
    crossing.run(crossing.verbs.save(worker, [new_save(ref, 1, {"cursor": b"1"}) for ref in refs]))
    crossing.run(crossing.verbs.progress(worker, [(ref, Progress(1, 2, "half of it")) for ref in refs]))
    crossing.run(crossing.verbs.finish(worker, [Ending(ref, move) for ref in refs]))
    return [job.id for job in jobs]


def fade(crossing):
    """Let a job be there that is old, with a result that is to be kept no longer."""
    worker = crossing.register()
    crossing.enqueue()
    crossing.finish(worker, crossing.claim_one(worker), Move.COMPLETE, result=b"1", keep_result=AGE)
    crossing.clock.advance(HOUR)


def another(crossing):
    """Return the verbs of another supervisor."""
    return PostgresStore(crossing.schema, crossing.clock)


def left(crossing):
    """Return the jobs that are there, by id; nothing else may be counted, or kept in any table."""
    ids = sorted(job.id for job in crossing.run(crossing.verbs.list_jobs(JobFilter(limit=1000))).jobs)
    assert sum(crossing.run(count_states(crossing.verbs)).values()) == len(ids)
    for table in ("outcome", "attempt", "tag", "fading", "memo", "note"):
        found = crossing.own.execute(crossing.named(f"SELECT id::text FROM {{}}.{table}")).fetchall()
        assert {id_ for (id_,) in found} <= set(ids), table
    return ids


def starts(crossing, times, limit=100):
    """Retire so many times; return from where on each call has looked."""
    seen = []

    def steps(verb):
        statement = next(verb.steps)
        assert isinstance(statement, Last)
        seen.append(statement.statement.params[2])
        answer = yield statement
        with pytest.raises(StopIteration) as stop:
            verb.steps.send(answer)
        return stop.value.value

    for _ in range(times):
        verb = crossing.verbs.forget_jobs(AGE, limit)
        crossing.run(Verb(verb.name, verb.access, steps(verb)))
    return seen


# -- others at the same time -------------------------------------------------------------------------------------


def test_two_at_once_take_different_jobs(crossing):
    """The second does not wait, and what both have forgotten is counted once."""
    ended(crossing, 3, tags=("red",))
    ended(crossing, 3, Move.CANCEL)
    crossing.clock.advance(HOUR)
    with crossing.underway(crossing.verbs.forget_jobs(AGE, 2)) as commit:
        assert crossing.run(another(crossing).forget_jobs(AGE, 100)) == 4
        assert commit() == 2
    assert left(crossing) == []


def test_many_at_once_forget_each_job_once(crossing):
    """Four supervisors who call as fast as they can have forgotten as many as there were, together."""
    ended(crossing, 200, tags=("red",))
    crossing.clock.advance(HOUR)
    forgotten = []

    def forget():
        verbs, idle = another(crossing), 0
        while idle < 20:
            number = crossing.later(verbs.forget_jobs(AGE, 7)).result(LONG)
            forgotten.append(number)
            idle = 0 if number else idle + 1

    threads = [threading.Thread(target=forget) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LONG)
    assert sum(forgotten) == 200
    assert left(crossing) == []


def test_a_sweep_under_way_keeps_its_jobs(crossing):
    """What it has locked is left alone, without waiting, and forgotten the next time."""
    fade(crossing)
    with crossing.underway(crossing.verbs.forget_results(10)) as commit:
        assert crossing.run(crossing.verbs.forget_jobs(AGE, 10)) == 0
        assert commit() == 1
    assert crossing.run(crossing.verbs.forget_jobs(AGE, 10)) == 1
    assert left(crossing) == []


def test_a_sweep_that_has_only_begun_is_not_waited_for(crossing):
    """It has what says until when a result is kept, and may wait for the job: no two wait for each other."""
    fade(crossing)
    with crossing.own.transaction():
        crossing.own.execute(crossing.named("DELETE FROM {}.fading"))
        assert crossing.run(crossing.verbs.forget_jobs(AGE, 10)) == 1
    assert left(crossing) == []


def test_a_sweep_does_not_wait_either(crossing):
    """A result that goes with its job is not swept a second time."""
    fade(crossing)
    with crossing.underway(crossing.verbs.forget_jobs(AGE, 10)) as commit:
        assert crossing.later(crossing.verbs.forget_results(10)).result(LONG) == 0
        assert commit() == 1
    assert left(crossing) == []


@contextmanager
def gate(crossing):
    """Let every statement that asks for the time wait for a lock; give what opens it."""
    waits = (
        "CREATE OR REPLACE FUNCTION {}.present(given bigint) RETURNS bigint LANGUAGE plpgsql VOLATILE AS"
        " $$ BEGIN PERFORM pg_advisory_xact_lock_shared({}); RETURN given; END $$"
    )
    crossing.own.execute(sql.SQL(waits).format(sql.Identifier(crossing.schema), sql.Literal(GATE)))
    crossing.own.execute("SELECT pg_advisory_lock(%s)", (GATE,))
    try:
        yield lambda: crossing.own.execute("SELECT pg_advisory_unlock(%s)", (GATE,))
    finally:
        crossing.own.execute("SELECT pg_advisory_unlock_all()")


def test_what_a_sweep_wrote_since_is_forgotten_as_a_whole(alone):
    """A row that was changed after the look is found in its new form, and goes with all that belongs to it."""
    [job_id] = ended(alone, 1, tags=("red",))
    alone.clock.advance(HOUR)
    with gate(alone) as open_gate:
        forgetting = alone.later(alone.verbs.forget_jobs(AGE, 10))
        alone.wait_until_it_waits()
        alone.own.execute(alone.named("UPDATE {}.outcome SET result = NULL WHERE id = %s"), (job_id,))
        open_gate()
        assert forgetting.result(LONG) == 1
    assert left(alone) == []


def test_what_another_has_forgotten_since_is_counted_once(alone):
    """A row that is gone after the look is not forgotten again."""
    ended(alone, 1)
    alone.clock.advance(HOUR)
    with gate(alone) as open_gate:
        forgetting = [alone.later(another(alone).forget_jobs(AGE, 10)) for _ in range(2)]
        alone.wait_until_it_waits(2)
        open_gate()
        assert sorted(each.result(LONG) for each in forgetting) == [0, 1]
    assert left(alone) == []


@pytest.mark.parametrize("keep", [AGE, 1])
def test_a_dead_job_that_is_being_retried_is_not_forgotten(crossing, keep):
    """Whoever comes first has it, and the other finds nothing to do; forgetting does not wait."""
    retried, _, late = ended(crossing, 3, Move.DIE)
    crossing.clock.advance(HOUR - 1)
    kept = ended(crossing, 1, Move.DIE)
    crossing.clock.advance(1)
    with crossing.underway(change_job(crossing.verbs, JobAction.RETRY, retried)) as commit:
        assert crossing.run(crossing.verbs.forget_dead(keep, 2)) == 1
        commit()
    assert crossing.job(retried).state is State.READY
    with crossing.underway(crossing.verbs.forget_dead(keep, 10)) as commit:
        lost = crossing.later(change_job(crossing.verbs, JobAction.RETRY, late))
        crossing.wait_until_it_waits()
        assert commit() == 1
    with pytest.raises(StandfastError):
        lost.result(LONG)
    assert left(crossing) == [retried, *kept]


# -- keys and ids that come again --------------------------------------------------------------------------------


def test_a_key_that_is_being_taken_goes_to_who_takes_it(crossing):
    """The old job is forgotten without waiting; the key stays with the new one."""
    ended(crossing, 1, key="order-1")
    crossing.clock.advance(HOUR)
    new = crossing.new_job(key="order-1")
    with crossing.underway(crossing.verbs.enqueue([new])) as commit:
        assert crossing.run(crossing.verbs.forget_jobs(AGE, 10)) == 1
        assert commit() == {}
    assert left(crossing) == [new.id]
    assert crossing.taken_by(key="order-1") == new.id


def test_a_key_that_was_not_taken_after_all_is_free(crossing):
    """Who had it locked gave up, and the job that had it last is gone."""
    ended(crossing, 1, key="order-1")
    crossing.clock.advance(HOUR)
    with crossing.own.transaction(force_rollback=True):
        crossing.own.execute(crossing.named("SELECT FROM {}.key FOR UPDATE"))
        assert crossing.run(crossing.verbs.forget_jobs(AGE, 10)) == 1
    assert crossing.taken_by(key="order-1") is None
    assert len(left(crossing)) == 1


def test_a_key_that_is_being_forgotten_is_had_after_that(crossing):
    """Who wants it waits for the end of that, and has it."""
    ended(crossing, 1, key="order-1")
    crossing.clock.advance(HOUR)
    new = crossing.new_job(key="order-1")
    with crossing.underway(crossing.verbs.forget_jobs(AGE, 10)) as commit:
        enqueued = crossing.later(crossing.verbs.enqueue([new]))
        crossing.wait_until_it_waits()
        assert commit() == 1
    assert enqueued.result(LONG) == {}
    assert crossing.taken_by(key="order-1") == new.id


def test_an_id_that_comes_again_meanwhile_is_a_new_job(crossing):
    """A late copy of an enqueue waits, and is then accepted as any other: nothing of the old job clings to it."""
    job = crossing.new_job()
    crossing.run(crossing.verbs.enqueue([job]))
    worker = crossing.register()
    crossing.finish(worker, crossing.claim_one(worker), Move.COMPLETE)
    crossing.clock.advance(HOUR)
    with crossing.underway(crossing.verbs.forget_jobs(AGE, 10)) as commit:
        again = crossing.later(crossing.verbs.enqueue([job]))
        crossing.wait_until_it_waits()
        assert commit() == 1
    again.result(LONG)
    assert (crossing.job(job.id).state, crossing.history(job.id)) == (State.READY, ())


# -- the walk ------------------------------------------------------------------------------------------------------


def test_many_that_stay_do_not_keep_others_for_ever(alone, monkeypatch):
    """Each call looks at a stretch, and the next one goes on behind it."""
    monkeypatch.setattr(supervise, "STRETCH", 5)
    dead = ended(alone, 12, Move.DIE)
    ended(alone, 3)
    alone.clock.advance(HOUR)
    assert sum(alone.run(alone.verbs.forget_jobs(AGE, 10)) for _ in range(4)) == 3
    assert left(alone) == dead


def test_a_round_ends_where_all_are_young(alone, monkeypatch):
    """However many were finished lately, the oldest are looked at again the next time."""
    monkeypatch.setattr(supervise, "STRETCH", 5)
    [old] = ended(alone, 1, Move.DIE)
    alone.clock.advance(HOUR)
    young = ended(alone, 20)
    assert starts(alone, 3) == [supervise._BEGINNING, young[3], old]


def test_what_was_forgotten_is_not_walked_again(alone, monkeypatch):
    """A round begins where the last one has met the first outcome; one in so many at the very beginning."""
    monkeypatch.setattr(supervise, "WHOLE_ROUND_EVERY", 4)
    over = ended(alone, 3)
    alone.clock.advance(HOUR)
    [stays] = ended(alone, 1, Move.DIE)
    beginning = supervise._BEGINNING
    assert starts(alone, 6) == [beginning, over[0], stays, stays, beginning, stays]
    assert left(alone) == [stays]


def test_an_old_id_that_comes_late_is_forgotten_too(alone, monkeypatch):
    """It lies before where rounds begin, and is met by the one that begins at the very beginning."""
    monkeypatch.setattr(supervise, "WHOLE_ROUND_EVERY", 3)
    [stays] = ended(alone, 1, Move.DIE)
    starts(alone, 1)
    ended(alone, 1, id="01800000-0000-7000-8000-000000000001")
    alone.clock.advance(HOUR)
    assert [alone.run(alone.verbs.forget_jobs(AGE, 10)) for _ in range(3)] == [0, 0, 1]
    assert left(alone) == [stays]


def test_a_plan_of_a_quiet_hour_serves_when_there_is_much(alone):
    """Made for tables with nothing in them, it does not walk them again and again when they are full."""
    tables = ("outcome", "job", "attempt", "tag", "key", "fading", "memo", "note")
    for table in tables:
        alone.own.execute(alone.named(f"VACUUM (ANALYZE) {{}}.{table}"))
    alone.own.execute("SET plan_cache_mode = force_generic_plan")
    psycopg.RawCursor(alone.own).execute(f"PREPARE plan AS {load_statements(alone.schema)['forget_jobs']}")
    call = f"EXECUTE plan ({{}}, 0, '{supervise._BEGINNING}', {supervise.STRETCH}, 500)"
    alone.own.execute(call.format(0))
    for number in range(0, 5000, 1000):
        ended(alone, 1000, tags=("red", f"t{number}"), metadata={"note": "x" * 500})
    size = sum(_pages(alone, table) for table in tables)
    [[plan]] = alone.own.execute(f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {call.format(2**60)}").fetchall()
    assert alone.run(count_states(alone.verbs))[State.COMPLETED] == 4500
    read = plan[0]["Plan"]["Shared Hit Blocks"] + plan[0]["Plan"]["Shared Read Blocks"]
    assert read < 10 * 500 + 3 * size, f"{read} pages were read to forget 500 jobs, in tables of {size}"


def _pages(crossing, table):
    [(pages,)] = crossing.own.execute(
        crossing.named(f"SELECT pg_relation_size('{{}}.{table}') / 8192").as_string(crossing.own)
    ).fetchall()
    return pages
