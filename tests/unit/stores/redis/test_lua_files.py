"""The files that scripts are put together from: each says what it uses, and each key is documented."""

import re
from importlib.resources import files

import pytest
import redis

from standfast.stores.redis.scripts import load_scripts

FILES = {
    file.name.removesuffix(".lua"): file.read_text("utf-8")
    for file in (files("standfast.stores.redis") / "lua").iterdir()
}
LUA = """
and break do else elseif end false for function if in local nil not or return then true while
ARGV KEYS cmsgpack ipairs math pairs pcall redis select string struct table tonumber type unpack
"""
MOVES = "local MOVES, SETTLED, STARTED_ITS_LAST, FIRST, LAST, BATCH"
"""What the one part declares that is not a file."""

NAMES = r"(\w+(?:, \w+)*)"
DECLARED = (rf"\blocal (?:function )?{NAMES}", rf"\bfor {NAMES}", rf"\bfunction ?\w*\({NAMES}", r"(\w+) = ")


def test_every_script_can_be_compiled(server: redis.Redis) -> None:
    """Each script stands by itself with its parts, and no part passes for a script."""
    scripts = load_scripts()
    for text in scripts.values():
        server.script_load(text)
    assert {"enqueue", "claim", "finish", "ring"} <= scripts.keys()
    assert not {"base", "bell", "ending", "moves", "short_claim"} & scripts.keys()


def test_a_part_is_there_once() -> None:
    """However many parts build upon another one, a script has it once."""
    for text in load_scripts().values():
        assert text.count("local prefix = ") == 1
        assert text.count("local FLAG_AT, ID_AT = ") <= 1


@pytest.mark.parametrize("name", sorted(FILES))
def test_every_name_comes_from_what_a_file_uses(name: str) -> None:
    """A file is understood by what it says it uses, and not by what happens to stand in front of it."""
    known = _found(NAMES, LUA) | set(_words("seldom", FILES[name]))
    for part in _parts_of(name):
        known |= _found(rf"^local (?:function )?{NAMES}", FILES.get(part, MOVES))
    for declared in DECLARED:
        known |= _found(declared, FILES[name])
    assert _found(r"(?<![.\w])([a-zA-Z_]\w*)", FILES[name]) <= known


def test_every_key_is_documented() -> None:
    """The heads of base.lua and bell.lua name each key that a script touches, once, and no other."""
    line = re.compile(r"^--   ([a-z]+)(?::<?[a-z].*?)? +(?:string|hash|list|set|zset) ", re.MULTILINE)
    documented = line.findall(FILES["base"] + FILES["bell"])
    used = re.findall(r"prefix \.\. '([a-z]+)", "".join(FILES.values()))
    assert sorted(documented) == sorted(set(used))


def _words(kind: str, text: str) -> list[str]:
    """Return the parts that a file names in its lines of this kind."""
    return [word for words in re.findall(rf"^-- {kind}: {NAMES}", text, re.MULTILINE) for word in words.split(", ")]


def _parts_of(name: str) -> set[str]:
    own = set(_words("uses", FILES.get(name, "")))
    return own.union(*map(_parts_of, own))


def _found(pattern: str, text: str) -> set[str]:
    """Return the names that a pattern finds in Lua, outside of comments and strings."""
    code = re.sub(r"--.*|'[^'\n]*'", "", text)
    return {name for names in re.findall(pattern, code, re.MULTILINE) for name in names.split(", ")}
