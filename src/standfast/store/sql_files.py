"""SQL lives in files; this turns them into statements by name.

A query file is a row of blocks that begin with `-- name: …`. Such a block says in `-- takes: …` which parameters
the caller gives, in that order. The SQL says `:name` for each of them, which here becomes its number, with its type
where one is said. Other comments are for readers.

The states are put in while loading, as literals and not as parameters, because a planner uses a partial index only
where it can read in the query's own text that the index applies. What several statements share stands at the
beginning of their file, or for all files in `parts.sql`, in blocks that begin with `-- part: …`; they say a part's
name in braces, as they do with a state's.

A part that is said to be there `where tasks are closed` is empty otherwise. Statements that use such a part are
there twice, the second time with `_of_open_tasks` after their names: to look at the task of each job costs a claim
more than to look into an index, and most claims need not.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib.resources.abc import Traversable
from typing import NamedTuple

from standfast.core.states import CLAIMED, WAITING, Reason, State

_SHARED = "parts.sql"
_NAME = re.compile(r"^-- name: (\w+)$", re.MULTILINE)
_PART = re.compile(r"^-- part(, where tasks are closed)?: (\w+)$", re.MULTILINE)
_TAKES = re.compile(r"^-- takes: (.+)$", re.MULTILINE)
_USED = re.compile(r"(?<![:\w]):(\w+)")


def _literal(word: str) -> str:
    return f"'{word}'"


def _literals(words: Iterable[str]) -> str:
    return f"({', '.join(_literal(word) for word in sorted(words))})"


WORDS: Mapping[str, str] = {
    **{state.value: _literal(state) for state in State},
    **{reason.value: _literal(reason) for reason in Reason},
    "claimed": _literals(CLAIMED),
    "waiting": _literals(WAITING),
}
"""What stands in braces in every file: states and reasons, and lists of them."""


OF_OPEN_TASKS = "_of_open_tasks"
"""What the names of statements end with that pass over the jobs of closed tasks."""


class _Block(NamedTuple):
    name: str
    takes: str
    text: str


def read_statements(folder: Traversable) -> dict[str, str]:
    """Return every named statement in the files of a folder."""
    usual = _statements(folder, narrow=False)
    narrow = _statements(folder, narrow=True)
    return usual | {f"{name}{OF_OPEN_TASKS}": text for name, text in narrow.items() if text != usual[name]}


def _statements(folder: Traversable, *, narrow: bool) -> dict[str, str]:
    files = {file.name: file.read_text("utf-8") for file in sql_files(folder)}
    shared = _with_parts(WORDS, files.pop(_SHARED, ""), narrow=narrow)
    statements: dict[str, str] = {}
    for content in files.values():
        head, *rest = _NAME.split(content)
        words = _with_parts(shared, head, narrow=narrow)
        for name, takes, text in _blocks(rest):
            if name in statements:
                raise ValueError(f"two statements are named {name}")
            statements[name] = _numbered(name, text.format_map(words), takes.format_map(words))
    return statements


def sql_files(folder: Traversable) -> list[Traversable]:
    """Return the SQL files in a folder by name, which for migrations is their order."""
    return sorted((file for file in folder.iterdir() if file.name.endswith(".sql")), key=lambda file: file.name)


def _with_parts(words: Mapping[str, str], content: str, *, narrow: bool) -> dict[str, str]:
    """Return the words, and with them the parts that the beginning of a file has."""
    known = dict(words)
    _, *rest = _PART.split(content)
    only_if_narrow = rest[::3]
    for only, (name, _, text) in zip(
        only_if_narrow, _blocks([each for place, each in enumerate(rest) if place % 3]), strict=True
    ):
        known[name] = "" if only and not narrow else text.format_map(known)
    return known


def _blocks(names_and_bodies: Sequence[str]) -> Iterator[_Block]:
    for name, body in zip(names_and_bodies[::2], names_and_bodies[1::2], strict=True):
        lines = (line for line in body.splitlines() if not line.startswith("--"))
        yield _Block(name, ", ".join(_TAKES.findall(body)), "\n".join(lines).strip())


def _numbered(statement: str, sql: str, takes: str) -> str:
    """Return the SQL as drivers take it: `?1`, or `$1::type` where the type is said."""
    places: dict[str, str] = {}
    for number, taken in enumerate(takes.split(",") if takes else (), 1):
        name, _, type_ = taken.strip().partition(" ")
        places[name] = f"${number}::{type_}" if type_ else f"?{number}"
    used = set(_USED.findall(sql))
    if used != places.keys():
        raise ValueError(f"{statement} takes {sorted(places)} and uses {sorted(used)}")
    return _USED.sub(lambda use: places[use[1]], sql)
