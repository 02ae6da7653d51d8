"""SQL lives in files; this turns them into statements by name, once per namespace.

A query file is a row of blocks that begin with `-- name: …`. Two things are put in while loading: the table prefix
of the namespace, and the states, as literals and not as parameters, because SQLite uses a partial index only where
it can read in the query's own text that the index applies. What statements of a file share stands at its
beginning, in blocks that begin with `-- part: …`; they say a part's name in braces, as they do with a state's.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from sqlite3 import complete_statement
from types import MappingProxyType

from holdfast.core.states import CLAIMED, WAITING, Reason, State

_FOLDER = files(__package__)
_NAME = re.compile(r"^-- name: (\w+)$", re.MULTILINE)
_PART = re.compile(r"^-- part: (\w+)$", re.MULTILINE)
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
        parts, *rest = _NAME.split(file.read_text("utf-8"))
        words = dict(_WORDS)
        for name, text in _blocks(_PART.split(parts)[1:]):
            words[name] = text.format_map(words)
        for name, text in _blocks(rest):
            if name in statements:
                raise ValueError(f"two statements are named {name}")
            statements[name] = _prefixed(text.format_map(words), namespace)
    return MappingProxyType(statements)


@cache
def load_migrations(kind: str, namespace: str | None) -> tuple[tuple[str, ...], ...]:
    """Return the migrations of a kind of file (jobs, beats) in order, each as its single statements."""
    scripts = (file.read_text("utf-8") for file in _sql_files(_FOLDER / "migrations" / kind))
    return tuple(tuple(_split(_prefixed(script, namespace))) for script in scripts)


def _sql_files(folder: Traversable) -> list[Traversable]:
    return sorted((file for file in folder.iterdir() if file.name.endswith(".sql")), key=lambda file: file.name)


def _blocks(names_and_bodies: Sequence[str]) -> Iterator[tuple[str, str]]:
    for name, body in zip(names_and_bodies[::2], names_and_bodies[1::2], strict=True):
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
