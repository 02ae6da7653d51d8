"""What can be wrong with a server or a URL is said in one line, with the remedy and without the password."""

import re
import traceback
from contextlib import contextmanager

import psycopg
import pytest
from pg_world import LONG, of_steps

from standfast.errors import (
    ConfigurationError,
    SchemaError,
    StoreError,
    StoreFullError,
    StoreUnavailableError,
    ValueNotStoredError,
)
from standfast.stores.postgres.connect import libpq_parameters
from standfast.stores.postgres.statements import load_migrations
from standfast.stores.postgres.translate import translate
from standfast.stores.postgres.url import parse_address
from standfast.stores.verb import Command, Last

SECRET = "s3cr3t-of-nobody"


def fails(world, kind, says):
    """Let a first call fail, and judge how it is told."""
    with pytest.raises(kind, match=says) as told:
        world.ask("SELECT 1")
    judge(told.value, kind)


def judge(error, kind):
    assert type(error) is kind, repr(error)
    text = str(error)
    assert "\n" not in text
    assert SECRET not in "".join(traceback.format_exception(error))


@contextmanager
def role(url, *rights):
    """Make a role, and take it away again with what it was given."""
    name = f"limited_{abs(hash(url)) % 10**8}"
    with psycopg.connect(parse_address(url).conninfo, autocommit=True) as own:
        own.execute(f"CREATE ROLE {name} LOGIN PASSWORD '{SECRET}'")
        try:
            for right in rights:
                own.execute(right.format(name=name))
            yield as_user(url, name)
        finally:
            own.execute(f"DROP OWNED BY {name} CASCADE")
            own.execute(f"DROP ROLE {name}")


def as_user(url, user):
    scheme, _, rest = url.partition("://")
    return f"{scheme}://{user}:{SECRET}@{rest.partition('@')[2]}"


def test_a_wrong_password(make_world, postgres_url):
    """It is not a matter of trying again."""
    user = re.match(r"\w+://(\w+)", postgres_url)[1]
    fails(make_world(as_user(postgres_url, user)), StoreError, "password.*wrong: correct it in the URL")


def test_an_unknown_user(make_world, postgres_url):
    """The server does not say which of the two is wrong."""
    says = "not known there, or the password is wrong: correct it in the URL"
    fails(make_world(as_user(postgres_url, "nobody_here")), StoreError, says)


def test_no_password_for_a_server_that_wants_one(make_world, postgres_server):
    """It is said that it asks, and where to write one."""
    server = postgres_server()
    url = server.url().replace(f":{server.password}@", "@")
    fails(make_world(url), StoreError, "asks for a password, and none is given: write it in the URL,.*pgpass")


def test_an_unknown_database(make_world, postgres_url):
    """Its remedy is to make it."""
    url = postgres_url.replace("/postgres?", "/nowhere?")
    fails(make_world(url), StoreError, "/nowhere refuses: there is no such database: create it with `createdb`")


def test_an_unknown_host(make_world):
    """The name is looked up in vain."""
    world = make_world(f"postgresql://u:{SECRET}@nowhere.invalid/db", timeout=LONG)
    fails(world, StoreUnavailableError, "nowhere.invalid/db: no host of that name is known: correct it")


def test_nobody_listens(make_world):
    """The port is closed."""
    world = make_world(f"postgresql://u:{SECRET}@127.0.0.1:1/db")
    fails(world, StoreUnavailableError, "127.0.0.1:1/db: no server listens there: start it")


def test_no_socket(make_world, tmp_path):
    """The folder of the unix socket holds none."""
    world = make_world(f"postgresql://u:{SECRET}@/db?host={tmp_path}")
    fails(world, StoreUnavailableError, "no server listens there")


def test_no_right_to_make_the_schema(make_world, postgres_url):
    """One who may has to make it, and to share it."""
    with role(postgres_url) as url:
        fails(make_world(url), SchemaError, r"run `standfast migrate`.*--plan.*then GRANT USAGE ON SCHEMA \"test_")


def test_no_right_to_migrate_an_older_schema(make_world, postgres_url, world, monkeypatch):
    """Its owner has to."""
    world.ask("SELECT 1")
    monkeypatch.setattr(
        "standfast.stores.postgres.migrate.load_migrations",
        lambda name: (*load_migrations(name), f'CREATE TABLE "{name}".y ();'),
    )
    schema = world.address.schema
    with role(postgres_url, f'GRANT USAGE ON SCHEMA "{schema}" TO {{name}}', granted(schema, "SELECT")) as url:
        fails(
            make_world(url), SchemaError, "lacks 1 of this release's migrations.*standfast migrate.* as the owner"
        )


def granted(schema, rights):
    return f'GRANT {rights} ON ALL TABLES IN SCHEMA "{schema}" TO {{name}}'


def test_no_right_to_the_schema(make_world, postgres_url, world):
    """The tables are there, and the grants are named that are missing."""
    world.ask("SELECT 1")
    with role(postgres_url) as url:
        fails(make_world(url), StoreError, f'GRANT USAGE ON SCHEMA "{world.address.schema}" TO')


def test_no_right_to_a_table(make_world, postgres_url, world):
    """The same, where only some are missing."""
    world.ask("SELECT 1")
    schema = world.address.schema
    with role(postgres_url, f'GRANT USAGE ON SCHEMA "{schema}" TO {{name}}', granted(schema, "SELECT")) as url:
        limited = make_world(url)
        with pytest.raises(StoreError, match="GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES") as told:
            limited.ask(f'DELETE FROM "{schema}".worker')
        judge(told.value, StoreError)


def test_rights_as_named_are_enough(make_world, postgres_url, world):
    """Whoever follows the remedy gets in."""
    world.ask("SELECT 1")
    schema = world.address.schema
    rights = [f'GRANT USAGE ON SCHEMA "{schema}" TO {{name}}', granted(schema, "SELECT, INSERT, UPDATE, DELETE")]
    with role(postgres_url, *rights) as url:
        assert make_world(url).ask(f'SELECT count(*) FROM "{schema}".worker') == [(0,)]


def test_a_replica_takes_no_writes(make_world, postgres_url, world):
    """After a failover the old primary may come back as a replica: the remedy is to name every host."""
    with world.table() as table:
        rights = [f'GRANT USAGE ON SCHEMA "{world.address.schema}" TO {{name}}']
        rights += [granted(world.address.schema, "ALL"), "ALTER ROLE {name} SET default_transaction_read_only = on"]
        with role(postgres_url, *rights) as url:
            reader = make_world(url)
            with pytest.raises(StoreUnavailableError, match="target_session_attrs=read-write") as told:
                reader.ask(f"INSERT INTO {table} VALUES (1)")
            judge(told.value, StoreUnavailableError)
            fails(make_world(f"{url}&target_session_attrs=read-write"), StoreUnavailableError, "takes no writes")


def test_tables_that_vanish_are_not_made_anew(world):
    """An empty schema would hide that all jobs are gone."""
    world.ask("SELECT 1")
    schema = world.address.schema
    with world.user_connection as own:
        own.execute(f'DROP SCHEMA "{schema}" CASCADE')
    with pytest.raises(SchemaError, match="standfast migrate") as told:
        world.ask(f'SELECT * FROM "{schema}".job')
    judge(told.value, SchemaError)


def test_too_many_connections(make_world, postgres_server):
    """The remedy is on the server, in the number of processes, or a pooler."""
    server = postgres_server(max_connections=5, superuser_reserved_connections=0)
    taken = [server.connect() for _ in range(5)]
    try:
        fails(make_world(server.url()), StoreUnavailableError, "no connection to spare.*max_connections.*PgBouncer")
    finally:
        for connection in taken:
            connection.close()


@pytest.mark.parametrize(
    ("code", "kind", "says"),
    [
        ("53100", StoreFullError, "disk"),
        ("53200", StoreFullError, "memory"),
        ("40P01", StoreUnavailableError, "waited for each other"),
        ("40001", StoreUnavailableError, "try again"),
        ("55P03", StoreUnavailableError, "holds a lock"),
        ("57014", StoreUnavailableError, "took too long"),
        ("22021", ValueNotStoredError, "cannot store a value"),
        ("42883", SchemaError, "standfast migrate"),
        ("08006", StoreUnavailableError, "try again"),
        ("57P04", StoreUnavailableError, "try again"),
        ("XX000", StoreError, "refused a statement"),
    ],
)
def test_what_a_server_may_say(world, code, kind, says):
    """Each state that a statement can end in has its error."""

    def steps():
        yield Last(Command(f"DO $$ BEGIN RAISE EXCEPTION 'the reason' USING ERRCODE = '{code}'; END $$"))

    with pytest.raises(kind, match=says) as told:
        world.engine.run(of_steps(steps()))
    judge(told.value, kind)


@pytest.mark.parametrize(
    ("words", "kind", "says"),
    [
        (
            "FATAL:  the database system is starting up",
            StoreUnavailableError,
            "starting up or shutting down; wait, then try again",
        ),
        (
            "FATAL:  sorry, too many clients already",
            StoreUnavailableError,
            "no connection to spare: raise .*; then try again",
        ),
        ("FATAL:  unsupported startup parameter: options", ConfigurationError, r"add \?pooler=transaction"),
        ("server does not support SSL, but SSL was required", StoreError, "sslmode"),
        ("FATAL:  no pg_hba.conf entry for host", StoreError, "pg_hba.conf does not let this user in"),
        ('FATAL:  role "me" does not exist', StoreError, "no such user: create it with `createuser`"),
        ('FATAL:  role "me" is not permitted to log in', StoreError, "ALTER ROLE … LOGIN"),
        ('FATAL:  Peer authentication failed for user "me"', StoreError, "system's user of the same name"),
        ("FATAL:  GSSAPI authentication failed", StoreError, "does not let this user in"),
        ('root certificate file "/ca.pem" does not exist', StoreError, "paths in sslrootcert, sslcert"),
        ('could not read certificate file "/c": No such file or directory', StoreError, "paths in sslrootcert"),
        ('private key file "/key" has group or world access', StoreError, "nobody else may read the key"),
        ("server closed the connection unexpectedly", StoreUnavailableError, "is lost"),
    ],
)
def test_what_a_line_may_say(words, kind, says):
    """While connecting there are words only, which are never repeated."""
    address = parse_address(f"postgresql://u:{SECRET}@h/db")
    error = translate(psycopg.OperationalError(f"connection failed: {words}"), address)
    assert type(error) is kind
    assert re.search(says, str(error))
    assert words not in str(error)


@pytest.mark.parametrize(
    ("option", "named", "hint"),
    [
        ("sslmode=s3cr3t-of-nobody", "sslmode", "it can be disable,.*verify-full"),
        ("target_session_attrs=read-writee", "target_session_attrs", "it can be any, read-write"),
        ("connect_timeout=soon", "connect_timeout", ""),
        ("keepalives_idle=1.5", "keepalives_idle", ""),
        ("port=s3cr3t-of-nobody", "port", ""),
        ("host=a,b&port=1,2,3", "port", ""),
        ("hostaddr=here", "hostaddr", ""),
        ("channel_binding=x", "channel_binding", ""),
        ("ssl_min_protocol_version=x", "ssl_min_protocol_version", ""),
        ("ssl_min_protocol_version=TLSv1.3&ssl_max_protocol_version=TLSv1.2", "ssl_min_protocol_version", ""),
        ("service=nowhere", "service", ""),
    ],
)
def test_a_value_that_libpq_refuses_is_no_outage(make_world, option, named, hint):
    """No server was asked: trying again would go on for ever. The option is named, and its value not repeated."""
    world = make_world(f"postgresql://127.0.0.1/db?{option}")
    with pytest.raises(ConfigurationError, match=f"the option {named} has a value.*{hint}.*correct it in") as told:
        world.ask("SELECT 1")
    assert option.partition("=")[2] not in str(told.value)
    assert "\n" not in str(told.value)


def test_a_setting_that_the_server_refuses_is_no_outage(make_world, postgres_url):
    """It came with the options in the URL."""
    url = f"{postgres_url}&options=-c%20no_such_thing%3D1"
    fails(make_world(url), ConfigurationError, "the option no_such_thing has a value")


def test_an_equals_sign_in_a_value_is_to_be_encoded():
    """As it is in the options for a session, where many forget it."""
    with pytest.raises(ConfigurationError, match='"options" stands a =, which is written as %3D'):
        libpq_parameters(parse_address(f"postgresql://u:{SECRET}@h/db?options=-c%20jit=off"))


def test_an_unknown_option_is_named():
    """It may be misspelt."""
    with pytest.raises(ConfigurationError, match='"shcema"'):
        libpq_parameters(parse_address(f"postgresql://u:{SECRET}@h/db?shcema=jobs"))
