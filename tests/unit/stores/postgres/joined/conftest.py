"""An app whose database holds a table of the user's own, and connections to that database."""

import pytest
from pg_joining import make_app, sql

from connections import SOME, open_own
from empty_stores import with_query


@pytest.fixture
def schema(emptied_schema):
    """Give the name of the store's schema, empty."""
    emptied_schema.empty()
    return emptied_schema.name


@pytest.fixture
def table(postgres_schema):
    """Give the name of a table of the user's own, in a schema of the user's own."""
    return f'"{postgres_schema}".orders'


@pytest.fixture
def shop(shared_postgres, schema, postgres_schema, table):
    """Give an app whose database holds a table of the user's own."""
    sql(shared_postgres, f'CREATE SCHEMA "{postgres_schema}" CREATE TABLE {table} (id serial PRIMARY KEY)')
    with make_app(with_query(shared_postgres, schema=schema)) as app:
        yield app


@pytest.fixture
def counts(shop, shared_postgres, schema, table):  # noqa: ARG001 - the tables are the shop's
    """Give a function that counts the user's rows, the jobs, and what of them waits to be claimed."""

    def count():
        tables = {"orders": table, "jobs": f'"{schema}".job', "fresh": f'"{schema}".fresh'}
        return {name: sql(shared_postgres, f"SELECT count(*) FROM {table}")[0][0] for name, table in tables.items()}

    count.table = table
    return count


@pytest.fixture
def orders(postgres_url, table):
    """Give a function that counts the user's rows."""
    return lambda: sql(postgres_url, f"SELECT count(*) FROM {table}")[0][0]


@pytest.fixture(params=SOME)
def own(request, postgres_url):
    """Give a connection of the user's own, of some kinds in turn; a test whose promise hangs on it names all."""
    with open_own(request.param, postgres_url) as own:
        yield own


@pytest.fixture
def plain(postgres_url):
    """Give a plain connection of psycopg."""
    with open_own("psycopg", postgres_url) as own:
        yield own
