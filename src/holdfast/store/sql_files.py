"""SQL lives in files; this turns them into statements by name.

A query file is a row of blocks that begin with `-- name: …`. The states are put in while loading, as literals and
not as parameters, because a planner uses a partial index only where it can read in the query's own text that the
index applies. What statements of a file share stands at its beginning, in blocks that begin with `-- part: …`; they
say a part's name in braces, as they do with a state's.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib.resources.abc import Traversable

from holdfast.core.states import CLAIMED, WAITING, Reason, State

_NAME = re.compile(r"^-- name: (\w+)$", re.MULTILINE)
_PART = re.compile(r"^-- part: (\w+)$", re.MULTILINE)


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


def read_statements(folder: Traversable) -> dict[str, str]:
    """Return every named statement in the files of a folder."""
    statements: dict[str, str] = {}
    for file in sql_files(folder):
        parts, *rest = _NAME.split(file.read_text("utf-8"))
        words = dict(WORDS)
        for name, text in _blocks(_PART.split(parts)[1:]):
            words[name] = text.format_map(words)
        for name, text in _blocks(rest):
            if name in statements:
                raise ValueError(f"two statements are named {name}")
            statements[name] = text.format_map(words)
    return statements


def sql_files(folder: Traversable) -> list[Traversable]:
    """Return the SQL files in a folder by name, which for migrations is their order."""
    return sorted((file for file in folder.iterdir() if file.name.endswith(".sql")), key=lambda file: file.name)


def _blocks(names_and_bodies: Sequence[str]) -> Iterator[tuple[str, str]]:
    for name, body in zip(names_and_bodies[::2], names_and_bodies[1::2], strict=True):
        lines = (line for line in body.splitlines() if not line.startswith("--"))
        yield name, "\n".join(lines).strip()
