"""The scripts of this store, each with the parts in front of it that it uses.

A file in `lua/` may have a line `-- uses: …`: the parts that it builds upon, which may build upon others. A file
that another one uses is a part, any other is a script. One part is not a file: the table of moves, which is written
from `core.states`, so that there is one such table.

The server makes every function of a part anew at each call, which may take longer than the script's own work. So a
script may say `-- seldom: part (name, …)` instead: the part, with those that it uses, becomes the inside of a
function of the part's name, which returns these names in a table. And a script may say `-- first: part`: that, with
those that it uses, comes before all other parts, and may end the call before any of them is made.
"""

import re
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.resources import files
from types import MappingProxyType

from standfast.model.job import HISTORY_BATCH, HISTORY_FIRST, HISTORY_LAST
from standfast.model.states import ENDINGS, FINAL, MOVES, STARTED_ITS_LAST, Move, settle

_FOLDER = files(__package__) / "lua"
_USES = re.compile(r"^-- uses: (.+)$", re.MULTILINE)
_FIRST = re.compile(r"^-- first: (\w+)$", re.MULTILINE)
_SELDOM = re.compile(r"^-- seldom: (\w+) \((.+)\)$", re.MULTILINE)
_SUFFIX = ".lua"
_TABLE_OF_MOVES = "moves"


@cache
def load_scripts() -> Mapping[str, str]:
    """Return every script by name, complete."""
    texts = {
        file.name.removesuffix(_SUFFIX): file.read_text("utf-8")
        for file in _FOLDER.iterdir()
        if file.name.endswith(_SUFFIX)
    }
    texts[_TABLE_OF_MOVES] = _table_of_moves()
    parts = {
        part
        for text in texts.values()
        for part in [*_used(text), *_FIRST.findall(text), *(name for name, _ in _SELDOM.findall(text))]
    }
    return MappingProxyType({name: _complete(name, texts) for name in sorted(texts.keys() - parts)})


def _complete(name: str, texts: Mapping[str, str]) -> str:
    """Return a script with all that it uses in front of it."""
    first = [part for early in _FIRST.findall(texts[name]) for part in _in_order(early, texts)]
    *always, script = dict.fromkeys([*first, *_in_order(name, texts)])
    front = [texts[part] for part in always]
    for part, names in _SELDOM.findall(texts[script]):
        wrapped = [texts[used] for used in _in_order(part, texts) if used not in always]
        table = ", ".join(f"{name} = {name}" for name in names.split(", "))
        front.append("\n".join([f"local function {part}()", *wrapped, f"return {{ {table} }}", "end"]))
    return "\n".join([*front, texts[script]])


def _used(text: str) -> list[str]:
    found = _USES.search(text)
    return [] if found is None else found[1].split(", ")


def _in_order(name: str, texts: Mapping[str, str]) -> Iterator[str]:
    """Yield a name after all those that it uses, none twice."""
    yield from dict.fromkeys([*(part for used in _used(texts[name]) for part in _in_order(used, texts)), name])


def _table_of_moves() -> str:
    rules = (
        f"    {move.value} = {{ target = '{rule.target}', charges = {_lua(rule.charges)},"
        f" is_final = {_lua(rule.target in FINAL)} }},"
        for move, rule in MOVES.items()
    )
    settled = (f"    {move.value} = {_settled(move)}," for move in sorted(ENDINGS))
    return "\n".join(
        [
            "-- Part: the table of moves; and what is recorded for an ending: of a job that is wanted, and of one",
            "-- that is not, each with chances left and without. And how long a history is (core.job).",
            "local MOVES = {",
            *rules,
            "}",
            "local SETTLED = {",
            *settled,
            "}",
            f"local STARTED_ITS_LAST = '{STARTED_ITS_LAST}'",
            f"local FIRST, LAST, BATCH = {HISTORY_FIRST}, {HISTORY_LAST}, {HISTORY_BATCH}",
        ]
    )


def _settled(move: Move) -> str:
    cases = (
        "{ "
        + ", ".join(f"'{settle(move, cancel_requested=unwanted, last_chance=last)}'" for last in (False, True))
        + " }"
        for unwanted in (False, True)
    )
    return f"{{ {', '.join(cases)} }}"


def _lua(value: bool) -> str:
    return "true" if value else "false"
