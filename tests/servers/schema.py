"""A PostgreSQL schema that many tests use one after the other."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from typing import Any

import psycopg
from psycopg import sql

_EMPTY = "SELECT NOT EXISTS (SELECT FROM {})"
_TABLES = (
    "SELECT relname FROM pg_class WHERE relnamespace = %s::regnamespace AND relkind IN ('r', 'p')"
    " AND NOT relispartition"
)

TRIES = 5

_numbers = count(1)


def drop_schema(own: psycopg.Connection[Any], name: str) -> None:
    """Remove a schema with all that is in it, if it is there.

    The server may still be busy with the last words of a process that was killed: who then waits for each other in
    a circle is told so, and what stood in the way is over by the next try.
    """
    for tried in range(1, TRIES + 1):
        try:
            own.execute(sql.SQL("DROP SCHEMA IF EXISTS {} CASCADE").format(sql.Identifier(name)))
        except psycopg.errors.DeadlockDetected:
            if tried == TRIES:
                raise
        else:
            return


@contextmanager
def fresh_schema(url: str) -> Iterator[str]:
    """Give the name of a schema that does not exist yet and is dropped afterwards, with those of its namespaces."""
    name = f"test_{os.getpid()}_{next(_numbers)}"
    yield name
    with psycopg.connect(url, autocommit=True) as own:
        made = own.execute(
            "SELECT nspname FROM pg_namespace WHERE nspname = %s OR starts_with(nspname, %s)", (name, f"{name}_")
        ).fetchall()
        for (schema,) in made:
            drop_schema(own, schema)


class Schema:
    """A store's tables, made once and emptied for each test: making them anew takes a hundred times as long."""

    def __init__(self, url: str, name: str, make: Callable[[], None]) -> None:
        self.name = name
        self._own = psycopg.connect(url, autocommit=True)
        self._emptying: sql.Composed | None = None
        self._make = make

    def empty(self) -> None:
        """Delete whatever the last test has left. What the making itself wrote stays."""
        if self._emptying is None:
            self._make()
            emptied = [table for table in self._tables() if self._answer(sql.SQL(_EMPTY).format(table))]
            self._emptying = sql.SQL(";").join(sql.SQL("DELETE FROM {}").format(table) for table in emptied)
        self._own.execute(self._emptying)

    def drop(self) -> None:
        """Remove it."""
        with self._own:
            drop_schema(self._own, self.name)

    def _tables(self) -> list[sql.Identifier]:
        found = self._own.execute(_TABLES, (self.name,)).fetchall()
        return [sql.Identifier(self.name, table) for (table,) in found]

    def _answer(self, query: sql.Composed) -> Any:
        row = self._own.execute(query).fetchone()
        assert row is not None
        return row[0]
