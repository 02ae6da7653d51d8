"""What doctor is told about a PostgreSQL store: each weakness with its remedy. Looking changes nothing."""

from contextlib import closing, contextmanager
from dataclasses import replace
from datetime import timedelta
from urllib.parse import urlsplit

import psycopg
import pytest
from psycopg import sql

from empty_stores import with_query
from standfast.model.ids import new_job_id
from standfast.model.job import NewJob
from standfast.settings import Settings
from standfast.stores.doctor import Severity
from standfast.stores.postgres import doctor
from standfast.stores.postgres.doctor import OldTransaction, Server, examine_postgres, judge_schema, judge_server
from standfast.stores.postgres.migrate import Schema
from standfast.stores.postgres.store import PostgresBackend
from standfast.stores.url import examine_store
from standfast.stores.values import WorkerInfo
from standfast.testing import FakeClock

WORKER = WorkerInfo("w", "s", "h", 1, timedelta(seconds=15))
SOUND = Server(
    settings={
        "autovacuum": "on",
        "default_transaction_isolation": "read committed",
        "default_transaction_read_only": "off",
        "fsync": "on",
        "full_page_writes": "on",
        "max_connections": "100",
        "server_encoding": "UTF8",
        "server_version": "16.3 (Debian 16.3-1)",
        "server_version_num": "160003",
        "superuser_reserved_connections": "3",
        "synchronous_commit": "on",
        "synchronous_standby_names": "",
        "track_counts": "on",
        "wal_writer_delay": "200",
    },
    is_replica=False,
    connections=7,
)


def examined(url, namespace=None, *, deep=False):
    """Return a look at the store, and its findings by check: the level and all that is said."""
    examination = examine_postgres(url, namespace, None, deep=deep)
    found = {each.check: (each.severity, f"{each.says} → {each.remedy}") for each in examination.findings}
    return examination, found


def judged(server, check):
    (finding,) = (each for each in judge_server(server) if each.check == check)
    return finding


def fill(url, namespace=None):
    """Make the tables, with one worker and one due job."""
    with closing(PostgresBackend(url, namespace=namespace)) as backend:
        backend.run(backend.verbs.register(WORKER))
        backend.run(backend.verbs.enqueue([NewJob(new_job_id(), "task", b"{}", queue="mail")]))


@pytest.fixture
def own(shared_postgres):
    with psycopg.connect(shared_postgres, autocommit=True) as connection:
        yield connection


class TestServers:
    def test_a_sound_server(self):
        assert {each.severity for each in judge_server(SOUND)} == {Severity.OK}

    @pytest.mark.parametrize(
        ("setting", "value", "check", "level", "words"),
        [
            ("server_version_num", "130009", "postgresql", Severity.PROBLEM, ["too old", "14"]),
            ("default_transaction_read_only", "on", "writes", Severity.PROBLEM, ["no transaction may write"]),
            ("fsync", "off", "durability", Severity.PROBLEM, ["crash of the machine", "fsync = on"]),
            ("full_page_writes", "off", "durability", Severity.PROBLEM, ["half-written", "full_page_writes = on"]),
            (
                "synchronous_commit",
                "off",
                "durability",
                Severity.WARNING,
                ["loses the jobs accepted in the last 0.6 s"],
            ),
            ("server_encoding", "SQL_ASCII", "encoding", Severity.WARNING, ["SQL_ASCII", "UTF8"]),
            (
                "default_transaction_isolation",
                "serializable",
                "isolation",
                Severity.WARNING,
                ["serializable", "key"],
            ),
            ("max_connections", "11", "connections", Severity.WARNING, ["7 of 8", "max_connections"]),
            ("autovacuum", "off", "autovacuum", Severity.WARNING, ["autovacuum is off", "autovacuum = on"]),
            ("track_counts", "off", "autovacuum", Severity.WARNING, ["track_counts"]),
        ],
    )
    def test_a_weak_setting(self, setting, value, check, level, words):
        """Each weak setting is told with the promise that it breaks and the remedy; all else stays well."""
        server = replace(SOUND, settings={**SOUND.settings, setting: value})
        finding = judged(server, check)
        assert finding.severity is level
        for word in words:
            assert word in f"{finding.says} → {finding.remedy}"
        assert [each.check for each in judge_server(server) if each.severity is not Severity.OK] == [check]

    @pytest.mark.parametrize(
        ("commit", "level", "words"),
        [
            ("local", Severity.WARNING, "failover"),
            ("remote_write", Severity.WARNING, "loses power"),
            ("on", Severity.OK, "loss of this machine"),
            ("remote_apply", Severity.OK, "loss of this machine"),
        ],
    )
    def test_synchronous_standbys(self, commit, level, words):
        """With synchronous standbys, what waits for none of them is weaker than it looks; without, it is not."""
        settings = {**SOUND.settings, "synchronous_commit": commit}
        assert judged(replace(SOUND, settings=settings), "durability").severity is Severity.OK
        settings["synchronous_standby_names"] = "one"
        finding = judged(replace(SOUND, settings=settings), "durability")
        assert (finding.severity, words in finding.says) == (level, True)

    def test_a_replica(self):
        finding = judged(replace(SOUND, is_replica=True), "writes")
        assert finding.severity is Severity.PROBLEM
        assert "target_session_attrs=read-write" in finding.remedy

    def test_a_transaction_left_open(self):
        writing = OldTransaction(42, "psql", doctor.LONG_WRITE + 1)
        finding = judged(replace(SOUND, writing=writing), "transactions")
        assert finding.severity is Severity.WARNING
        assert "process 42 ('psql')" in finding.says
        assert "pg_terminate_backend(42)" in finding.remedy

    def test_a_prepared_transaction_left_open(self):
        writing = OldTransaction(None, "gid", doctor.LONG_WRITE + 1)
        finding = judged(replace(SOUND, writing=writing), "transactions")
        assert "ROLLBACK PREPARED 'gid'" in finding.remedy

    def test_a_long_look(self):
        looking = OldTransaction(42, "", doctor.LONG_SNAPSHOT + 1)
        finding = judged(replace(SOUND, looking=looking), "transactions")
        assert (finding.severity, "process 42 has looked" in finding.says) == (Severity.WARNING, True)
        brief = OldTransaction(42, "", doctor.LONG_SNAPSHOT - 1)
        assert judged(replace(SOUND, looking=brief), "transactions").severity is Severity.OK


class TestStores:
    def test_a_store_in_order(self, postgres_server):
        """All is well, the census tells who is there and what waits, and nothing is written by looking."""
        server = postgres_server(autovacuum_naptime="1h")
        url = server.url(schema="jobs")
        fill(url)
        with server.connect() as connection:
            before = connection.execute("SELECT pg_snapshot_xmax(pg_current_snapshot())").fetchone()
            examination, _ = examined(url, deep=True)
            assert connection.execute("SELECT pg_snapshot_xmax(pg_current_snapshot())").fetchone() == before
        assert [each for each in examination.findings if each.severity is not Severity.OK] == []
        census = examination.census
        assert examination.usable
        assert [worker.info for worker in census.workers] == [WORKER]
        assert [(queue.name, queue.paused_at, queue.due) for queue in census.due] == [("mail", None, 1)]
        assert census.due[0].oldest_due_at <= census.latest_at <= census.now

    def test_a_store_that_is_not_there_is_not_made(self, postgres_url, postgres_schema, own):
        examination, found = examined(postgres_url)
        assert (examination.usable, examination.census) == (False, None)
        assert found["schema"][0] is Severity.PROBLEM
        assert "standfast migrate" in found["schema"][1]
        assert own.execute("SELECT FROM pg_namespace WHERE nspname = %s", (postgres_schema,)).fetchall() == []

    def test_namespaces_are_told_and_apart(self, postgres_url):
        fill(postgres_url, "green")
        examination, found = examined(postgres_url, "green")
        assert "namespaces there: green" in found["store"][1]
        assert len(examination.census.due) == 1
        assert examined(postgres_url, "blue")[1]["schema"][0] is Severity.PROBLEM

    def test_time_is_the_given_one(self, postgres_url):
        """Where a clock is given, the look goes by it: due is what is due then."""
        clock = FakeClock()
        job = NewJob(new_job_id(), "task", b"{}", run_at=clock.now() + timedelta(seconds=5))
        with closing(PostgresBackend(postgres_url, clock=clock)) as backend:
            backend.run(backend.verbs.enqueue([job]))
            backend.run(backend.verbs.pause("default"))
        assert examine_store(Settings(url=postgres_url), clock).census.due == ()
        clock.advance(5)
        census = examine_store(Settings(url=postgres_url), clock).census
        (queue,) = census.due
        assert (census.now, queue.oldest_due_at) == (clock.now(), job.run_at)
        assert queue.paused_at == census.latest_at == clock.now() - timedelta(seconds=5)

    @pytest.mark.parametrize(
        ("version", "oldest", "known", "level", "words"),
        [
            (0, 0, 2, Severity.PROBLEM, "holds no jobs"),
            (1, 1, 2, Severity.WARNING, "standfast migrate"),
            (2, 1, 2, Severity.OK, "as this release has it"),
            (3, 2, 2, Severity.WARNING, "when you can"),
            (4, 3, 2, Severity.PROBLEM, "upgrade standfast"),
        ],
    )
    def test_schemas_of_all_times(self, version, oldest, known, level, words):
        finding = judge_schema(Schema("jobs", True, version, oldest, known))
        assert (finding.severity, words in f"{finding.says} → {finding.remedy}") == (level, True)

    def test_a_schema_of_the_future_is_not_counted(self, postgres_url, postgres_schema, own):
        fill(postgres_url)
        own.execute(
            sql.SQL("UPDATE {}.schema_version SET version = 99, oldest = 99").format(
                sql.Identifier(postgres_schema)
            )
        )
        examination, found = examined(postgres_url)
        assert (examination.usable, examination.census) == (False, None)
        assert "version 99 of a newer Standfast" in found["schema"][1]

    def test_many_levels_are_told_of(self, postgres_url, postgres_schema, own):
        """Each claim looks at all of them."""
        fill(postgres_url)
        assert examined(postgres_url)[1]["levels"][0] is Severity.OK
        more = "INSERT INTO {}.level (queue, priority) SELECT 'queue', generate_series(1, 1000)"
        own.execute(sql.SQL(more).format(sql.Identifier(postgres_schema)))
        level, says = examined(postgres_url)[1]["levels"]
        assert level is Severity.WARNING
        assert "1001 pairs of queue and priority" in says
        assert "use fewer queues" in says

    def test_a_deep_look_finds_what_was_changed_by_hand(self, postgres_url, postgres_schema, own):
        fill(postgres_url)
        assert "integrity" not in examined(postgres_url)[1]
        assert examined(postgres_url, deep=True)[1]["integrity"][0] is Severity.OK
        own.execute(sql.SQL("DELETE FROM {}.fresh").format(sql.Identifier(postgres_schema)))
        level, told = examined(postgres_url, deep=True)[1]["integrity"]
        assert (level, "1 jobs are in no state" in told) == (Severity.PROBLEM, True)


@contextmanager
def role(own, name):
    own.execute(sql.SQL("CREATE ROLE {} LOGIN PASSWORD 'secret-word'").format(sql.Identifier(name)))
    try:
        yield name
    finally:
        own.execute(sql.SQL("DROP OWNED BY {0}; DROP ROLE {0}").format(sql.Identifier(name)))


def as_user(url, name):
    parts = urlsplit(url)
    return parts._replace(netloc=f"{name}:secret-word@{parts.netloc.rpartition('@')[2]}").geturl()


class TestRights:
    @pytest.fixture
    def guest(self, own, postgres_schema):
        with role(own, f"{postgres_schema}_guest") as name:
            yield name

    def test_no_right_to_make_a_schema(self, postgres_url, guest):
        examination, found = examined(as_user(postgres_url, guest))
        assert not examination.usable
        assert found["permissions"][0] is Severity.PROBLEM
        assert "run `standfast migrate`" in found["permissions"][1]
        assert "GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES" in found["permissions"][1]

    def test_no_right_to_use_the_schema(self, postgres_url, postgres_schema, guest, own):
        fill(postgres_url)
        url = as_user(postgres_url, guest)
        examination, found = examined(url)
        assert (examination.usable, examination.census) == (False, None)
        assert f'GRANT USAGE ON SCHEMA "{postgres_schema}"' in found["permissions"][1]
        own.execute(
            sql.SQL("GRANT USAGE ON SCHEMA {} TO {}").format(*map(sql.Identifier, (postgres_schema, guest)))
        )
        level, told = examined(url)[1]["permissions"]
        assert (level, "of it arrival, attempt, buried" in told) == (Severity.PROBLEM, True)

    def test_the_rights_that_are_told_are_enough(self, postgres_url, guest, own):
        fill(postgres_url)
        _, found = examined(as_user(postgres_url, guest))
        remedy = found["permissions"][1].partition("let its owner run ")[2]
        for grant in remedy.split("; "):
            own.execute(grant.replace("…", f'"{guest}"'))
        examination, found = examined(as_user(postgres_url, guest))
        assert found["permissions"][0] is Severity.OK
        assert examination.usable
        fill(as_user(postgres_url, guest))


class TestUnreachable:
    @pytest.mark.parametrize(
        ("place", "words"), [("127.0.0.1:1", "no server listens there"), ("nobody.invalid", "no host of that name")]
    )
    def test_nobody_there(self, place, words):
        """One finding says what is wrong and what to do, and never the password."""
        examination, found = examined(f"postgresql://me:secret-word@{place}/db")
        assert (examination.usable, list(found)) == (False, ["store"])
        assert words in found["store"][1]
        assert examination.findings[0].remedy
        assert "secret-word" not in str(examination)

    def test_a_stranger(self, postgres_server):
        server = postgres_server()
        examination, found = examined(server.url().replace(server.password, "secret-word"))
        assert "the password is wrong" in found["store"][1]
        assert "secret-word" not in str(examination)


class TestOthers:
    def test_open_transactions_are_seen(self, postgres_url, shared_postgres, monkeypatch):
        """Who has written and not committed is named; so is who only looks, if nobody writes."""
        monkeypatch.setattr(doctor, "LONG_WRITE", -1)
        monkeypatch.setattr(doctor, "LONG_SNAPSHOT", -1)
        with psycopg.connect(with_query(shared_postgres, application_name="a-forgotten-one")) as other:
            other.execute("SELECT pg_current_xact_id()")
            level, told = examined(postgres_url)[1]["transactions"]
        assert level is Severity.WARNING
        assert "has written and is open" in told

    def test_a_pooler_without_a_word_in_the_url(self, shared_pgbouncer, postgres_schema):
        examination, found = examined(shared_pgbouncer.url(schema=postgres_schema))
        assert not examination.usable
        assert "add ?pooler=transaction to the URL" in found["store"][1]

    def test_a_pooler_as_the_url_says(self, pgbouncer_url, postgres_url):
        fill(pgbouncer_url)
        examination, found = examined(pgbouncer_url)
        assert examination.usable
        assert found["pooler"] == (Severity.OK, "used by the transaction, as the URL says → ")
        assert "none is seen" in examined(with_query(postgres_url, pooler="transaction"))[1]["pooler"][1]
