"""The schema is brought to this release once, whole or not at all, and by whoever comes first."""

import logging
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import timedelta
from urllib.parse import urlsplit

import pytest
from test_pg_errors import role

from standfast.errors import SchemaError, StoreError
from standfast.model.job import NewJob
from standfast.model.records import Kind
from standfast.model.states import State
from standfast.stores.contract import count_states
from standfast.stores.postgres import migrate
from standfast.stores.postgres.migrate import PostgresMigrator
from standfast.stores.postgres.statements import load_migrations
from standfast.stores.postgres.store import PostgresBackend
from standfast.stores.values import ClaimRequest, Vitals, WorkerBeat, WorkerInfo

COLUMNS = """SELECT table_name, column_name, data_type, column_default, is_nullable FROM information_schema.columns
    WHERE table_schema = %s ORDER BY 1, 2"""
INDEXES = "SELECT indexdef FROM pg_indexes WHERE schemaname = %s ORDER BY 1"


@pytest.fixture
def migrator(postgres_url):
    return PostgresMigrator(postgres_url, None, 10.0)


@pytest.fixture
def own(world):
    with world.user_connection as connection:
        yield connection


def known(schema):
    return len(load_migrations(schema))


def test_the_first_call_makes_the_schema(world, own):
    """Nobody has to do anything before."""
    world.ask("SELECT 1")
    schema = world.address.schema
    assert own.execute(f'SELECT * FROM "{schema}".schema_version').fetchall() == [(known(schema), 1)]
    assert own.execute(f'SELECT count(*) FROM "{schema}".job').fetchone() == (0,)


def test_many_that_start_at_once_do_no_harm(make_world, postgres_url, world, own):
    """All find the schema ready, which was made once."""
    worlds = [make_world(postgres_url) for _ in range(8)]
    with ThreadPoolExecutor(8) as crowd:
        assert list(crowd.map(lambda each: each.ask("SELECT 1"), worlds)) == [[(1,)]] * 8
    schema = world.address.schema
    assert own.execute(f'SELECT * FROM "{schema}".schema_version').fetchall() == [(known(schema), 1)]


def test_the_plan_is_what_is_applied(migrator, world, own):
    """Run by hand it leaves the same tables and indexes; afterwards nothing is left to do."""
    schema = world.address.schema
    [before] = migrator.look()
    assert (before.version, before.missing) == (0, before.known)
    own.execute(before.sql)
    by_hand = [own.execute(sql, (schema,)).fetchall() for sql in (COLUMNS, INDEXES)]
    assert migrator.look()[0].sql == ""
    world.ask("SELECT 1")
    own.execute(f'DROP SCHEMA "{schema}" CASCADE')
    migrator.apply()
    assert [own.execute(sql, (schema,)).fetchall() for sql in (COLUMNS, INDEXES)] == by_hand
    assert migrator.look()[0].missing == 0


def test_looking_changes_nothing(migrator, world, own):
    """The status and the plan of a schema that is not there do not make it."""
    migrator.look()
    assert own.execute("SELECT 1 FROM pg_namespace WHERE nspname = %s", (world.address.schema,)).fetchone() is None


def test_a_schema_that_stands_empty_is_used(migrator, world, own):
    """A user without the right to make one may be given one."""
    own.execute(f'CREATE SCHEMA "{world.address.schema}"')
    assert "CREATE SCHEMA" not in migrator.look()[0].sql
    assert world.ask("SELECT 1") == [(1,)]


def with_another(monkeypatch, sql):
    """Let this release know one migration more."""
    monkeypatch.setattr(migrate, "load_migrations", lambda schema: (*load_migrations(schema), sql.format(schema)))


def test_an_older_schema_is_brought_to_this_release(make_world, postgres_url, world, own, monkeypatch):
    """The first call of a new release applies what is missing and nothing else."""
    schema = world.address.schema
    world.ask("SELECT 1")
    with_another(monkeypatch, 'CREATE TABLE "{0}".news ();')
    assert make_world(postgres_url).ask(f'SELECT count(*) FROM "{schema}".news') == [(0,)]
    assert own.execute(f'SELECT version FROM "{schema}".schema_version').fetchall() == [(known(schema) + 1,)]


def test_a_migration_that_fails_leaves_nothing(make_world, postgres_url, world, own, monkeypatch):
    """All of it or nothing; the release before goes on."""
    schema = world.address.schema
    world.ask("SELECT 1")
    with_another(monkeypatch, 'CREATE TABLE "{0}".news (); SELECT 1 / 0;')
    with pytest.raises(StoreError):
        make_world(postgres_url).ask("SELECT 1")
    assert own.execute("SELECT to_regclass(%s)", (f'"{schema}".news',)).fetchone() == (None,)
    assert own.execute(f'SELECT version FROM "{schema}".schema_version').fetchall() == [(known(schema),)]
    assert world.ask("SELECT 1") == [(1,)]


def as_before(monkeypatch, number):
    """Let this release know so many migrations only, as it was before."""
    monkeypatch.setattr(migrate, "load_migrations", lambda schema: load_migrations(schema)[:number])


def the_tables_of(own, schema, names):
    """Return the columns and indexes of tables."""
    columns = own.execute(COLUMNS, (schema,)).fetchall()
    indexes = own.execute(
        "SELECT tablename, indexdef FROM pg_indexes WHERE schemaname = %s ORDER BY 1, 2", (schema,)
    )
    return [[row for row in rows if row[0] in names] for rows in (columns, indexes.fetchall())]


FIRST_JOB = NewJob("01900000-0000-7000-8000-000000000001", "mail.send", b"{}")


def made_before(postgres_url, monkeypatch, number):
    """Let a release that knew so many migrations make a store and put the first job in it."""
    with monkeypatch.context() as then, closing(PostgresBackend(postgres_url)) as backend:
        as_before(then, number)
        backend.run(backend.verbs.enqueue([FIRST_JOB]))


class TestLaterMigrations:
    """Each one after the first brings tables that come beside those that are there, and changes none of them."""

    @pytest.fixture
    def schema(self, world):
        return world.address.schema

    @pytest.fixture(params=range(1, known("any")))
    def before(self, postgres_url, monkeypatch, request):
        """Let an earlier release make the store; give the number of migrations that it knew."""
        made_before(postgres_url, monkeypatch, request.param)
        return request.param

    def test_the_first_call_applies_them(self, before, schema, postgres_url, own):
        """What was there is there, and its tables are as they were."""
        assert own.execute(f'SELECT version, oldest FROM "{schema}".schema_version').fetchall() == [(before, 1)]
        names = {row[0] for row in own.execute(COLUMNS, (schema,))} - {"schema_version"}
        tables = the_tables_of(own, schema, names)
        with closing(PostgresBackend(postgres_url)) as backend:
            backend.run(backend.verbs.register(WorkerInfo("w", "s", "h", 1, timedelta(seconds=15))))
            assert backend.run(backend.verbs.beat([WorkerBeat("w")])).record_due_at is None
            [claim] = backend.run(backend.verbs.claim(ClaimRequest("w", 1, 9))).jobs
            assert claim.job_id == FIRST_JOB.id
            assert backend.run(backend.verbs.memos(FIRST_JOB.id)) == ()
            backend.run(backend.verbs.beat([WorkerBeat("w", vitals=Vitals(memory=1))]))
            assert [worker.vitals for worker in backend.run(backend.verbs.workers())] == [Vitals(memory=1)]
        assert own.execute(f'SELECT version, oldest FROM "{schema}".schema_version').fetchall() == [
            (known(schema), 1)
        ]
        assert the_tables_of(own, schema, names) == tables

    def test_the_release_before_goes_on_beside_them(self, before, postgres_url, monkeypatch, caplog):
        """It is told to upgrade some day, and works."""
        PostgresMigrator(postgres_url, None, 10.0).apply()
        as_before(monkeypatch, before)
        with caplog.at_level(logging.WARNING, "standfast"), closing(PostgresBackend(postgres_url)) as older:
            assert older.run(older.verbs.get(FIRST_JOB.id)) is not None
        assert "works with this one too: upgrade standfast when you can" in caplog.text

    @pytest.mark.usefixtures("before")
    @pytest.mark.parametrize("mode", ["ACCESS SHARE", "ROW EXCLUSIVE", "SHARE ROW EXCLUSIVE"])
    def test_they_wait_for_nobody(self, schema, postgres_url, own, mode):
        """A dump may go on for hours, or a user's transaction: nobody has to wait behind the migration."""
        names = own.execute("SELECT tablename FROM pg_tables WHERE schemaname = %s", (schema,)).fetchall()
        with own.transaction(), closing(PostgresBackend(postgres_url)) as backend:
            for (name,) in names:
                if name != "schema_version":
                    own.execute(f'LOCK TABLE "{schema}"."{name}" IN {mode} MODE')
            assert backend.run(backend.verbs.records(Kind.SCHEDULE)) == ()


def test_who_may_not_make_tables_is_told(postgres_url, world, own, monkeypatch):
    """The owner migrates, and then gives the rights to what is new: until each is done one hears of it."""
    schema = world.address.schema
    made_before(postgres_url, monkeypatch, 1)
    grants = [
        f'GRANT USAGE ON SCHEMA "{schema}" TO {{name}}',
        f'GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA "{schema}" TO {{name}}',
        f'GRANT USAGE ON ALL SEQUENCES IN SCHEMA "{schema}" TO {{name}}',
    ]
    with role(postgres_url, *grants) as url, closing(PostgresBackend(url)) as guest:
        with pytest.raises(
            SchemaError, match=rf"lacks {known(schema) - 1} of this release's migrations.*run `standfast"
        ):
            guest.run(guest.verbs.get(FIRST_JOB.id))
        PostgresMigrator(postgres_url, None, 10.0).apply()
        assert guest.run(count_states(guest.verbs))[State.READY] == 1
        with pytest.raises(StoreError, match=r"lacks rights.*GRANT SELECT, INSERT, UPDATE, DELETE ON ALL"):
            guest.run(guest.verbs.beat([]))
        for grant in grants:
            own.execute(grant.format(name=urlsplit(url).username))
        assert guest.run(guest.verbs.beat([])).record_due_at is None


def of_the_future(own, schema, version, oldest):
    own.execute(f'UPDATE "{schema}".schema_version SET version = {version}, oldest = {oldest}')


def test_a_newer_schema_that_admits_this_release_works_with_a_word(make_world, postgres_url, world, own, caplog):
    """A fleet is upgraded machine by machine: the old release goes on, and says so once."""
    world.ask("SELECT 1")
    of_the_future(own, world.address.schema, 99, known(world.address.schema))
    older = make_world(postgres_url)
    with caplog.at_level(logging.WARNING, "standfast"):
        assert older.ask("SELECT 1") == [(1,)]
        assert older.ask("SELECT 1") == [(1,)]
    [said] = caplog.messages
    assert "version 99" in said
    assert "upgrade standfast" in said


def test_a_newer_schema_that_does_not_is_refused(make_world, postgres_url, world, own, migrator):
    """One line with both versions and the remedy; a migration does not touch it."""
    world.ask("SELECT 1")
    of_the_future(own, world.address.schema, 99, 98)
    with pytest.raises(SchemaError, match=r"version 99.*knows 98; this one knows \d+\): upgrade standfast"):
        make_world(postgres_url).ask("SELECT 1")
    with pytest.raises(SchemaError, match="upgrade standfast"):
        migrator.apply()
    assert not migrator.look()[0].usable
    assert own.execute(f'SELECT version FROM "{world.address.schema}".schema_version').fetchall() == [(99,)]


def test_a_migration_waits_for_another(make_world, postgres_url, world, own):
    """Whoever comes second waits under the lock, then finds nothing to do."""
    schema = world.address.schema
    own.autocommit = False
    own.execute("SELECT pg_advisory_xact_lock(hashtextextended('standfast/' || %s, 0))", (schema,))
    with ThreadPoolExecutor(1) as other:
        second = other.submit(make_world(postgres_url).ask, "SELECT 1")
        waits = "%pg_advisory_xact_lock%"
        with world.user_connection as watcher:
            while not watcher.execute(
                "SELECT 1 FROM pg_stat_activity WHERE wait_event = 'advisory' AND query LIKE %s"
                " AND application_name = 'standfast'",
                (waits,),
            ).fetchone():
                assert not second.done()
        own.execute(
            PostgresMigrator(postgres_url, None, 10.0).look()[0].sql.partition("0));")[2].partition("COMMIT")[0]
        )
        own.commit()
        assert second.result(30) == [(1,)]


def test_namespaces_have_schemas_of_their_own(postgres_url, world, own):
    """One URL, many tenants."""
    PostgresMigrator(postgres_url, "shop", 10.0).apply()
    schema = f"{world.address.schema}_shop"
    assert own.execute(f'SELECT count(*) FROM "{schema}".job').fetchone() == (0,)
    assert PostgresMigrator(postgres_url, None, 10.0).look()[0].version == 0


def test_a_pooler_in_between_changes_nothing(pgbouncer_url):
    """Behind PgBouncer in transaction mode the schema is made as anywhere."""
    migrator = PostgresMigrator(pgbouncer_url, None, 10.0)
    migrator.apply()
    assert migrator.look()[0].missing == 0


def test_an_old_server_is_refused(world, monkeypatch):
    """What this release needs began with PostgreSQL 14."""
    monkeypatch.setattr("standfast.stores.postgres.engine.OLDEST_SERVER", 99)
    with pytest.raises(StoreError, match=r"is PostgreSQL \d+: use 99 or newer"):
        world.ask("SELECT 1")


def test_the_comments_of_the_plan_do_not_speak_of_a_name_that_was_put_in():
    """They are read before the name is put in, and after."""
    lines = [line for migration in load_migrations("of_a_test") for line in migration.splitlines()]
    assert not [line for line in lines if line.startswith("--") and "of_a_test" in line]


@pytest.mark.parametrize("encoding", ["LATIN1", "EUC_JP", "SQL_ASCII"])
def test_a_database_may_have_another_encoding(make_world, postgres_url, world, own, encoding):
    """All that is sent can be said in any: whoever puts in names that cannot is told so then."""
    database = f"{world.address.schema}_{encoding.lower()}"
    own.execute(f"CREATE DATABASE {database} ENCODING '{encoding}' LOCALE 'C' TEMPLATE template0")
    try:
        there = make_world(urlsplit(postgres_url)._replace(path=f"/{database}").geturl())
        assert there.ask("SHOW server_encoding") == [(encoding,)]
        there.engine.close()
    finally:
        own.execute(f"DROP DATABASE {database} WITH (FORCE)")
