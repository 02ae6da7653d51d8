"""The statements and migrations of this store, with the table prefix of a namespace put in."""

import re
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.resources import files
from sqlite3 import complete_statement
from types import MappingProxyType

from standfast.store.sql_files import read_statements, sql_files

_FOLDER = files(__package__)
_PREFIX = re.compile(r"\bstandfast_")


@cache
def load_statements(namespace: str | None) -> Mapping[str, str]:
    """Return every named statement, for the tables of a namespace."""
    statements = read_statements(_FOLDER / "sql")
    return MappingProxyType({name: _prefixed(text, namespace) for name, text in statements.items()})


@cache
def load_migrations(kind: str, namespace: str | None) -> tuple[tuple[str, ...], ...]:
    """Return the migrations of a kind of file (jobs, beats) in order, each as its single statements."""
    scripts = (file.read_text("utf-8") for file in sql_files(_FOLDER / "migrations" / kind))
    return tuple(tuple(_split(_prefixed(script, namespace))) for script in scripts)


def _prefixed(text: str, namespace: str | None) -> str:
    return text if namespace is None else _PREFIX.sub(f"standfast_{namespace}_", text)


def _split(script: str) -> Iterator[str]:
    statement = ""
    for line in script.splitlines(keepends=True):
        if line.startswith("--") or not (statement or line.strip()):
            continue
        statement += line
        if complete_statement(statement):
            yield statement.strip()
            statement = ""
