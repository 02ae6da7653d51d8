"""An app whose database holds a table of the user's own, and connections to that database."""

import pytest
from pg_joining import make_app, sql

from user_connections import KINDS, open_own


@pytest.fixture
def table(postgres_schema):
    """Give the name of a table of the user's own, in the schema that is dropped after the test."""
    return f'"{postgres_schema}".orders'


@pytest.fixture
def shop(postgres_url, table):
    """Give an app whose database holds a table of the user's own."""
    app = make_app(postgres_url)
    app.prepare()
    sql(postgres_url, f"CREATE TABLE {table} (id serial PRIMARY KEY)")
    with app:
        yield app


@pytest.fixture
def counts(shop, postgres_url, postgres_schema, table):  # noqa: ARG001 - the tables are the shop's
    """Give a function that counts the user's rows, the jobs, and what of them waits to be claimed."""

    def count():
        tables = {"orders": table, "jobs": f'"{postgres_schema}".job', "fresh": f'"{postgres_schema}".fresh'}
        return {name: sql(postgres_url, f"SELECT count(*) FROM {table}")[0][0] for name, table in tables.items()}

    count.table = table
    return count


@pytest.fixture
def orders(postgres_url, table):
    """Give a function that counts the user's rows."""
    return lambda: sql(postgres_url, f"SELECT count(*) FROM {table}")[0][0]


@pytest.fixture(params=KINDS)
def own(request, postgres_url):
    """Give a connection of the user's own, of each kind in turn."""
    with open_own(request.param, postgres_url) as own:
        yield own


@pytest.fixture
def plain(postgres_url):
    """Give a plain connection of psycopg."""
    with open_own("psycopg", postgres_url) as own:
        yield own
