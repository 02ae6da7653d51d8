"""Connections of psycopg2: by themselves, below SQLAlchemy, whose default they are, and below an older Django.

What holds for every kind of connection is tested for this one too, by the `own` of the tests beside this one.
"""

import subprocess
import sys
from contextlib import closing, suppress
from decimal import Decimal
from pathlib import Path

import psycopg2
import pytest
from pg_joining import jobs, pack, sql
from psycopg2 import extensions, extras
from sqlalchemy import create_engine, text
from sqlalchemy.orm import Session

from connections import for_libpq, open_own
from standfast import ConfigurationError, StoreUnavailableError

TESTS = Path(__file__).resolve().parents[4]


@pytest.fixture
def own(postgres_url):
    with open_own("psycopg2", postgres_url) as own:
        yield own


def test_the_driver_that_sqlalchemy_takes_by_default(shop, postgres_url):
    """postgresql:// without the name of a driver, in a block of the engine and in a session."""
    engine = create_engine("postgresql://", connect_args=for_libpq(postgres_url))
    if engine.driver != "psycopg2":  # a newer SQLAlchemy has another one
        engine = create_engine("postgresql+psycopg2://", connect_args=for_libpq(postgres_url))
    with engine.begin() as tx:
        shop.tasks["pack"].options(tx=tx, key="order-1").enqueue(order=1)
    with Session(engine) as session, session.begin():
        session.execute(text("SELECT 1"))
        shop.tasks["pack"].options(tx=session).enqueue(order=1)
    with suppress(ZeroDivisionError), engine.begin() as tx:
        shop.tasks["pack"].options(tx=tx).enqueue(order=1)
        raise ZeroDivisionError
    engine.dispose()
    assert jobs(shop) == 2


def test_what_the_user_makes_of_rows_does_not_matter(shop, postgres_url):
    """Other cursors, other types, another encoding."""
    with closing(psycopg2.connect(**for_libpq(postgres_url), cursor_factory=extras.RealDictCursor)) as own:
        extras.register_uuid(conn_or_curs=own)
        extras.register_default_jsonb(own, loads=lambda _: None)
        numbers = extensions.new_type((20, 23), "NUMBERS", lambda value, _: value and Decimal(value) / 2)
        names = extensions.new_type((19, 25), "NAMES", lambda value, _: value and value.upper())
        for odd in (numbers, names):
            extensions.register_type(odd, own)
        own.set_client_encoding("LATIN1")
        bound = shop.tasks["pack"].options(tx=own, key="order-ü", tags=["ü"])
        first, again = bound.enqueue(order=1), bound.enqueue(order=1)
        own.commit()
    assert (again.id, again.created) == (first.id, False)
    assert (first.job().key, first.job().tags) == ("order-ü", ("ü",))
    assert jobs(shop) == 1


def test_settings_of_the_user_s_session_do_not_matter(shop, own):
    for setting in ("standard_conforming_strings = off", "bytea_output = 'escape'", "search_path = ''"):
        own.do(f"SET SESSION {setting}")
    own.commit()
    odd = "it's \\ 100 % $1 %(1)s"
    handle = pack(shop, own, key=odd, metadata={"x": odd})
    assert not pack(shop, own, key=odd).created
    own.commit()
    assert (handle.job().key, handle.job().metadata) == (odd, {"x": odd})


def test_a_pooler_may_stand_before_it(shop, pgbouncer_url):
    with open_own("psycopg2", pgbouncer_url) as own:
        for order in range(20):
            pack(shop, own, key=f"order-{order % 10}")
            own.commit()
    assert jobs(shop) == 10


def test_a_connection_that_the_server_has_ended(shop, own, postgres_url):
    pack(shop, own)
    others = "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE state LIKE 'idle in transaction%'"
    assert sql(postgres_url, f"{others} AND query ~ 'standfast_verb'") == [(True,)]
    with pytest.raises((StoreUnavailableError, ConfigurationError), match=r"lost|cannot be used now|closed"):
        pack(shop, own)
    assert jobs(shop) == 0


def test_what_cannot_be_joined_is_refused_in_one_line(shop, postgres_url, own):
    """One that is closed, in autocommit mode without a transaction, of the async kind, or no connection at all."""
    said = for_libpq(postgres_url)
    shut, alone = psycopg2.connect(**said), psycopg2.connect(**said)
    shut.close()
    alone.autocommit = True
    waits = psycopg2.connect(**said, async_=True)
    extras.wait_select(waits)
    for given, words in (
        (shut, "this connection is closed or lost: give one that is open"),
        (alone, "autocommit mode and no transaction is open.*begin one, as in"),
        (waits, "opened with async_ knows no transactions: open one without"),
        (own.tx.cursor(), r"joined through a connection of psycopg, psycopg2 or asyncpg.*not through psycopg2"),
    ):
        with pytest.raises(ConfigurationError, match=words) as raised:
            shop.tasks["pack"].options(tx=given).enqueue(order=1)
        assert "\n" not in str(raised.value)
    alone.close()
    waits.close()
    assert jobs(shop) == 0


OLDER_DJANGO = """
import builtins, sys
from connections.django import set_up_django
from pg_joining import jobs, make_app

url, real = sys.argv[1], builtins.__import__

def without_psycopg(name, *rest, **more):
    if name.partition(".")[0] == "psycopg":
        raise ImportError(name)
    return real(name, *rest, **more)

builtins.__import__ = without_psycopg
set_up_django(url)
from django.db import connection, transaction
connection.ensure_connection()
builtins.__import__ = real
assert type(connection.connection).__module__.startswith("psycopg2"), type(connection.connection)

with make_app(url) as app:
    pack = app.tasks["pack"]
    with transaction.atomic():
        pack.options(tx=connection, key="order-1").enqueue(order=1)
        try:
            with transaction.atomic():
                pack.options(tx=connection).enqueue(order=2)
                raise ZeroDivisionError
        except ZeroDivisionError:
            pass
        assert jobs(app) == 0
    assert jobs(app) == 1
    try:
        pack.options(tx=connection).enqueue(order=3)
    except Exception as error:
        assert "autocommit mode" in str(error), error
    else:
        raise AssertionError("joined without a transaction")
connection.close()
"""


def test_a_django_that_works_through_psycopg2(postgres_url):
    """As those before 4.2 do; since then Django takes psycopg where it finds it, so it must not find it here."""
    done = subprocess.run(
        [sys.executable, "-c", OLDER_DJANGO, postgres_url],
        env={"PYTHONPATH": f"{TESTS}:{Path(__file__).parent}", "PATH": ""},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
