"""The statements and migrations of this store, with the name of its schema put in.

In the files the schema is written `standfast.`; parameters have types, so that the server reads `$1::type`.
"""

import re
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from types import MappingProxyType

from standfast.store.sql_files import read_statements, sql_files

_FOLDER = files(__package__)
_SCHEMA = re.compile(r"\bstandfast\.")


@cache
def load_statements(schema: str) -> Mapping[str, str]:
    """Return every named statement, for the tables of a schema."""
    statements = read_statements(_FOLDER / "sql")
    return MappingProxyType({name: _placed(text, schema) for name, text in statements.items()})


@cache
def load_migrations(schema: str) -> tuple[str, ...]:
    """Return the migrations in order, each as one script."""
    return tuple(_placed(file.read_text("utf-8"), schema) for file in sql_files(_FOLDER / "migrations"))


def _placed(text: str, schema: str) -> str:
    return _SCHEMA.sub(f'"{schema}".', text)
