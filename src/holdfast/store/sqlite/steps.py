"""Runs the statements of a verb on a connection. Who calls owns the transaction."""

import sqlite3
from typing import Any, TypeVar

from holdfast.errors import StoreError
from holdfast.store.verb import Bulk, Query, Statement, Steps

T = TypeVar("T")


def run_steps(connection: sqlite3.Connection, steps: Steps[T]) -> T:
    """Feed a verb the answers to its statements until it returns."""
    try:
        statement = next(steps)
        while True:
            statement = steps.send(_answer(connection, statement))
    except StopIteration as stop:
        answer: T = stop.value
        return answer
    finally:
        steps.close()


def _answer(connection: sqlite3.Connection, statement: Statement) -> Any:
    try:
        if isinstance(statement, Query):
            return connection.execute(statement.sql, statement.params).fetchall()
        if isinstance(statement, Bulk):
            return connection.executemany(statement.sql, statement.rows).rowcount
        return connection.execute(statement.sql, statement.params).rowcount
    except (OverflowError, UnicodeEncodeError) as error:
        # Values that Python can hold and SQLite cannot: integers over 64 bits, lone surrogates.
        raise StoreError(f"SQLite cannot store a value of this call ({error})") from error
