"""SQL lives in files; this turns them into statements by name, once per namespace.

A query file is a row of blocks that begin with `-- name: …`. Two things are put in while loading: the table prefix
of the namespace, and the states, as literals and not as parameters, because SQLite uses a partial index only where
it can read in the query's own text that the index applies.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from sqlite3 import complete_statement
from types import MappingProxyType

from holdfast.core.states import CLAIMED, WAITING, Reason, State

_FOLDER = files(__package__)
_NAME = re.compile(r"^-- name: (\w+)$", re.MULTILINE)
_PREFIX = re.compile(r"\bholdfast_")


def _literal(word: str) -> str:
    return f"'{word}'"


def _literals(words: Iterable[str]) -> str:
    return f"({', '.join(_literal(word) for word in sorted(words))})"


_WORDS = {
    **{state.value: _literal(state) for state in State},
    **{reason.value: _literal(reason) for reason in Reason},
    "claimed": _literals(CLAIMED),
    "waiting": _literals(WAITING),
}


@cache
def load_statements(namespace: str | None) -> Mapping[str, str]:
    """Return every named statement, for the tables of a namespace."""
    statements: dict[str, str] = {}
    for file in _sql_files(_FOLDER / "sql"):
        for name, text in _blocks(file.read_text("utf-8")):
            if name in statements:
                raise ValueError(f"two statements are named {name}")
            statements[name] = _prefixed(text.format_map(_WORDS), namespace)
    return MappingProxyType(statements)


@cache
def load_migrations(kind: str, namespace: str | None) -> tuple[tuple[str, ...], ...]:
    """Return the migrations of a kind of file (jobs, beats) in order, each as its single statements."""
    scripts = (file.read_text("utf-8") for file in _sql_files(_FOLDER / "migrations" / kind))
    return tuple(tuple(_split(_prefixed(script, namespace))) for script in scripts)


def _sql_files(folder: Traversable) -> list[Traversable]:
    return sorted((file for file in folder.iterdir() if file.name.endswith(".sql")), key=lambda file: file.name)


def _blocks(text: str) -> Iterator[tuple[str, str]]:
    _, *parts = _NAME.split(text)
    for name, body in zip(parts[::2], parts[1::2], strict=True):
        lines = (line for line in body.splitlines() if not line.startswith("--"))
        yield name, "\n".join(lines).strip()


def _prefixed(text: str, namespace: str | None) -> str:
    return text if namespace is None else _PREFIX.sub(f"holdfast_{namespace}_", text)


def _split(script: str) -> Iterator[str]:
    statement = ""
    for line in script.splitlines(keepends=True):
        if line.startswith("--") or not (statement or line.strip()):
            continue
        statement += line
        if complete_statement(statement):
            yield statement.strip()
            statement = ""
