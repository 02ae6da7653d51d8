"""A shop whose rows and jobs are in PostgreSQL: orders_postgres_app.py, its workers and its customers."""

import json
from pathlib import Path

import psycopg
from shopfloor import Shop

from connections import for_libpq

TESTS = Path(__file__).resolve().parent.parent


class PostgresOrders(Shop):
    """As `Shop`, in a schema of a server."""

    def __init__(self, folder, url, schema, kinds):
        folder.mkdir(exist_ok=True)
        (folder / "said.json").write_text(json.dumps({"url": url, "schema": schema, "kinds": kinds}))
        self._url = url
        self._schema = schema
        super().__init__(folder, "orders_postgres_app.py")

    @property
    def url(self):
        return self._url

    def sql(self, statement, *parameters):
        """Look at the shop's own tables, or change them."""
        with psycopg.connect(**for_libpq(self._url), autocommit=True) as own:
            own.execute(f"SET search_path = {self._schema}")
            cursor = own.execute(statement, parameters)
            return cursor.fetchall() if cursor.description else []
