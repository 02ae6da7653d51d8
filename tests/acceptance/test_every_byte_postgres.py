"""Harm at every message of a talk with PostgreSQL: what is told as done is stored, and no answer is another's.

`make prove NAME=every_byte` tries every verb, place and manner; here some of them are chosen by a seed.
"""

import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from itertools import count, product
from random import Random

import pytest
from every_byte import AMPLE, MANNERS, EveryByte, Manner
from fleet import PROVE
from verb_scenes import Stage

from fault_proxy import Fault, Harm, Proxy, Way, end_in_postgres
from servers import PgBouncer, PostgresServer
from standfast.errors import StoreError
from standfast.model.ids import new_job_id
from standfast.stores.contract import count_states
from standfast.stores.postgres.store import PostgresBackend
from standfast.stores.values import ClaimRequest, WorkerBeat

HARMED = "harmed"
"""By which name the server knows the connections that go through the proxy."""

SOME = 60
BROKEN, SILENT = (Harm.CUT, Harm.SPLIT, Harm.ACT), (Harm.LATE, Harm.HOLE)

REFUSING = """
    CREATE TABLE "{schema}".refusal (state text);
    CREATE FUNCTION "{schema}".refuse() RETURNS trigger LANGUAGE plpgsql AS $$
    DECLARE told text;
    BEGIN
        SELECT state INTO told FROM "{schema}".refusal;
        IF told IS NOT NULL AND current_setting('application_name') = '{harmed}' THEN
            RAISE EXCEPTION 'refused at the commit' USING ERRCODE = told;
        END IF;
        RETURN NULL;
    END $$;
"""
TRIGGER = """
    CREATE CONSTRAINT TRIGGER refuse AFTER INSERT OR UPDATE OR DELETE ON "{schema}"."{table}"
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION "{schema}".refuse()
"""


class World:
    """A server of the test's own, PgBouncer before it or not, and a proxy before that."""

    def __init__(self, server, pooler, proxy):
        self.schema = "pooled" if pooler else "direct"
        query = {"schema": self.schema, "sslmode": "disable", "gssencmode": "disable"}
        self.server, self.own = server, server.connect()
        self.stage = Stage(PostgresBackend(server.url(**query)))
        self.stage.own.run(count_states(self.stage.own.verbs))
        front = pooler or server
        url = front.url(**query, application_name=HARMED, **({"pooler": "transaction"} if pooler else {}))
        self._url = url.replace(f":{front.port}/", ":{port}/")
        self.front, self.proxy = front, proxy
        self.trials = EveryByte(self.stage, proxy, self.open)

    def close(self):
        self.stage.own.backend.close()
        self.own.close()

    def open(self, timeout, proxy=None):
        return PostgresBackend(self._url.format(port=(proxy or self.proxy).port), timeout=timeout)

    def end_backends(self):
        """End what serves the connections that are harmed, and wait until it is gone."""
        with self.server.connect() as own:
            own.execute(
                "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE application_name = %s",
                (HARMED,),
            )

    def released(self, beat):
        """Give back the claims that a worker does not name."""
        return self.stage.own.run(self.stage.own.verbs.reconcile(beat))

    def can_refuse(self):
        """Let commits be refused from now on, when it is asked for."""
        tables = self.own.execute(
            "SELECT tablename FROM pg_tables WHERE schemaname = %s AND tablename <> 'schema_version'",
            (self.schema,),
        ).fetchall()
        self.own.execute(REFUSING.format(schema=self.schema, harmed=HARMED))
        for (table,) in tables:
            self.own.execute(TRIGGER.format(schema=self.schema, table=table))

    def refuse(self, state):
        self.own.execute(f'DELETE FROM "{self.schema}".refusal')
        if state:
            self.own.execute(f'INSERT INTO "{self.schema}".refusal VALUES (%s)', (state,))


@pytest.fixture(scope="module")
def server():
    with PostgresServer(fsync="off", synchronous_commit="off") as server:
        yield server


@pytest.fixture(scope="module", params=["direct", "pooled"])
def world(request, server):
    with ExitStack() as running:
        pooler = None if request.param == "direct" else running.enter_context(PgBouncer(server.url()))
        proxy = running.enter_context(Proxy(("127.0.0.1", (pooler or server).port), end_in_postgres))
        yield running.enter_context(closing(World(server, pooler, proxy)))


def chosen(world, harms):
    """Yield verbs, manners and faults, chosen by a seed: at full size all verbs, in all manners, at most places."""
    random = Random(24)
    silent = Harm.HOLE in harms
    cases = list(product(world.stage.names, MANNERS))
    for name, manner in cases if PROVE else random.sample(cases, 4 if silent else 14):
        places = list(world.trials.places(name, manner))
        faults = [Fault(harm, *place, world.end_backends) for place in places for harm in harms]
        most = (8 if silent else 120 if manner.is_warm else 60) if PROVE else 2 if silent else 8
        for fault in random.sample(faults, min(most, len(faults))):
            yield name, manner, fault


@pytest.mark.parametrize("harms", [BROKEN, SILENT], ids=["broken", "silent"])
def test_every_byte(world, harms, measured):
    """What is told as done is there, whatever happens to any message; the next calls work."""
    world.trials.runs.clear()
    for name, manner, fault in chosen(world, harms):
        world.trials.try_fault(name, manner, fault)
    assert world.trials.runs.total() > world.trials.runs["none"], "no harm was done"
    measured(dict(world.trials.runs))


def test_a_backend_that_ends_before_its_commit(world, measured):
    """Between the last statement and the commit: each verb, on a connection that was used before."""
    world.trials.runs.clear()
    for name in world.stage.names:
        manner = Manner(is_async=False, is_warm=True)
        *_, sync, _ = (place for place in world.trials.places(name, manner) if place[0] is Way.REQUEST)
        world.trials.try_fault(name, manner, Fault(Harm.ACT, *sync, world.end_backends))
    measured(dict(world.trials.runs))


def test_a_commit_that_is_refused(world, measured):
    """By a constraint or a conflict: an error, nothing stored, and the next call works at the first try."""
    world.can_refuse()
    names = [name for name in world.stage.names if world.stage.set(name).is_done is not None]
    tried = 0
    try:
        for name, is_async, state in product(names, (False, True), ("40001", "23514")):
            if not PROVE and (is_async, state) != ((False, "40001"), (True, "23514"))[tried % 2]:
                continue
            tried += 1
            manner = Manner(is_async, is_warm=True)
            with world.trials._calling(manner, AMPLE) as caller:
                scene = world.stage.set(name)
                world.refuse(state)
                with pytest.raises(StoreError) as told:
                    caller.call(scene, AMPLE)
                world.refuse(None)
                assert "not known" not in str(told.value)
                assert not scene.is_done(), f"{name}: {told.value}"
                after = world.stage.set("get")
                assert after.is_right(caller.call(after, AMPLE))
                assert scene.is_right(caller.call(scene, AMPLE)), name
                assert scene.is_done(), name
    finally:
        world.refuse(None)
    measured({"refused": tried})


def test_no_fence_is_told_to_two(world, measured):
    """Two workers claim while backends are ended in their commits: what is told of a claim is so, and once."""
    jobs, faults, wrong = 30, Counter(), []
    told = {}
    queue = f"claims-{world.schema}"
    stage = world.stage.own
    for _ in range(jobs):
        stage.enqueue(id=new_job_id(), queue=queue)
    until = time.monotonic() + 120 if PROVE else None

    def work(number):
        random, worker, kept = Random(number), stage.register(lease=1e6), set()
        with Proxy(("127.0.0.1", world.front.port), end_in_postgres) as proxy:
            backend = world.open(AMPLE, proxy)
            calls = count(1)
            while (time.monotonic() < until) if until else (faults[number] < 40):
                call = next(calls)
                proxy.arm(Fault(Harm.ACT, Way.REQUEST, random.randrange(6), 0.0, world.end_backends))
                faults[number] += 1
                try:
                    answer = backend.run(backend.verbs.claim(ClaimRequest(worker, call, 3, queues=(queue,))))
                except StoreError:
                    pass
                else:
                    for claim in answer.jobs:
                        if told.setdefault(claim.ref, worker) != worker:
                            wrong.append(claim.ref)
                        kept.add(claim.ref)
                proxy.arm(None)
                # As a worker and its supervisor do: what it does not name, or gives back, others may have.
                held = frozenset(random.sample(sorted(kept), len(kept) // 2))
                world.released(WorkerBeat(worker, call, held))
                kept &= held
            backend.close()

    with ThreadPoolExecutor(2) as threads:
        list(threads.map(work, range(2)))
    assert wrong == []
    for ref, worker in told.items():
        assert {each.fence: each.worker for each in stage.history(ref.job_id)}[ref.fence] == worker
    assert told
    measured({"claims told": len(told), "faults": sum(faults.values())})


@pytest.mark.parametrize("world", ["direct"], indirect=True)
def test_session_locks_are_not_told_where_there_are_none(world, measured):
    """A lock of the server's own, whose backend is ended while it is taken: told as taken only if it is."""
    random, taken, tries = Random(3), 0, 2000 if PROVE else 40
    backend = world.open(AMPLE)
    for number in range(tries):
        name = f"lock-{number % 5}"
        line = backend.session_line(name)
        message = random.randrange(24)
        world.proxy.arm(Fault(Harm.ACT, Way.REQUEST, message, 0.0, world.end_backends))
        try:
            is_ours = line.take(1.0)
        except StoreError:
            is_ours = False
        world.proxy.arm(None)
        holders = world.stage.own.backend.session_holders([name])
        if is_ours:
            taken += 1
            assert name in world.stage.own.run(holders), f"try {number}, message {message}"
        line.leave()
        world.proxy.cut_all()  # a goodbye that comes late would count as a message of the next try
    backend.close()
    assert 0 < taken < tries
    measured({"tries": tries, "taken": taken})
