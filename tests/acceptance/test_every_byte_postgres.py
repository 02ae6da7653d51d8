"""Harm at every message of a talk with PostgreSQL: what is told as done is stored, and no answer is another's.

`make prove NAME=every_byte` tries every verb, place and manner; here some of them are chosen by a seed.
"""

from itertools import product
from random import Random

import pytest
from every_byte import AMPLE, MANNERS, EveryByte, Manner
from fleet import PROVE
from verb_scenes import Stage

from fault_proxy import Fault, Harm, Proxy, Way, end_in_postgres
from holdfast.errors import StoreError
from holdfast.store.postgres.backend import PostgresBackend
from servers import PgBouncer, PostgresServer

HARMED = "harmed"
"""By which name the server knows the connections that go through the proxy."""

SOME = 60
VERBS_AT_COMMIT = None
VIEWS = {
    "get",
    "glance",
    "list_jobs",
    "history",
    "memos",
    "situation",
    "unsettled",
    "queues",
    "workers",
    "count",
    "records",
}

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
        self.own = server.connect()
        self.stage = Stage(PostgresBackend(server.url(**query)))
        self.stage.own.run(self.stage.own.verbs.count())
        front = pooler or server
        url = front.url(**query, application_name=HARMED, **({"pooler": "transaction"} if pooler else {}))
        self._url = url.replace(f":{front.port}/", f":{proxy.port}/")
        self.proxy = proxy
        self.trials = EveryByte(self.stage, proxy, self.open)

    def open(self, timeout):
        return PostgresBackend(self._url, timeout=timeout)

    def end_backends(self):
        """End what serves the connections that are harmed, and wait until it is gone."""
        self.own.execute(
            "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE application_name = %s", (HARMED,)
        )

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
    if request.param == "direct":
        with Proxy(("127.0.0.1", server.port), end_in_postgres) as proxy:
            yield World(server, None, proxy)
        return
    with PgBouncer(server.url()) as pooler, Proxy(("127.0.0.1", pooler.port), end_in_postgres) as proxy:
        yield World(server, pooler, proxy)


def chosen(world, harms):
    """Yield verbs, manners and faults: all of them, or some that a seed has chosen."""
    random = Random(24)
    cases = list(product(world.stage.names, MANNERS))
    for name, manner in cases if PROVE else random.sample(cases, 12):
        faults = [
            Fault(harm, *place, act=world.end_backends)
            for place in world.trials.places(name, manner)
            for harm in harms
        ]
        for fault in faults if PROVE else random.sample(faults, min(5, len(faults))):
            yield name, manner, fault


@pytest.mark.parametrize(
    "harms", [(Harm.CUT, Harm.SPLIT, Harm.ACT), (Harm.LATE, Harm.HOLE)], ids=["broken", "silent"]
)
def test_every_byte(world, harms, measured):
    """What is told as done is there, whatever happens to any message; the next calls work."""
    for name, manner, fault in chosen(world, harms):
        world.trials.try_fault(name, manner, fault)
    measured(dict(world.trials.runs))


def test_a_backend_that_ends_before_its_commit(world, measured):
    """Between the last statement and the commit: each verb, sync and async, on a connection that was used before."""
    manners = [Manner(is_async, is_warm=True) for is_async in (False, True)]
    for name, manner in product(world.stage.names, manners if PROVE else manners[:1]):
        requests = [
            place for place in world.trials.places(name, manner) if place[0] is Way.REQUEST and place[2] == 0.0
        ]
        for way, message, share in requests if PROVE else requests[-1:]:  # the last of them is the Sync
            fault = Fault(Harm.ACT, way, message, share, world.end_backends)
            world.trials.try_fault(name, manner, fault)
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
