"""The files that SQL lives in: every block says what it does, and every statement names what it takes."""

import re
from pathlib import Path

import pytest

import standfast.stores
from standfast.stores.statements import read_statements

FILES = sorted(Path(standfast.stores.__file__).parent.glob("*/sql/*.sql"))
BLOCK = re.compile(r"^-- (?:name|part): (\w+)\n(?:-- takes: .+\n)*(.*)$", re.MULTILINE)


def of_store(file: Path) -> str:
    return f"{file.parent.parent.name}/{file.name}"


@pytest.mark.parametrize("file", FILES, ids=of_store)
def test_every_block_is_described(file: Path) -> None:
    """After its name, and what it takes, comes a comment that says what it is for."""
    blocks = BLOCK.findall(file.read_text())
    assert blocks
    assert [name for name, line in blocks if not re.match(r"-- \S", line)] == []


@pytest.mark.parametrize("file", FILES, ids=of_store)
def test_no_parameter_is_numbered_by_hand(file: Path) -> None:
    """Numbers are given while loading: who reads sees names."""
    assert re.findall(r"[?$]\d+", file.read_text()) == []


def test_parameters_are_numbered_in_the_order_in_which_they_are_taken(tmp_path: Path) -> None:
    """Their types go along, parts may use them, and a use may add a cast of its own."""
    (tmp_path / "parts.sql").write_text("-- part: old\nage > :age\n")
    (tmp_path / "a.sql").write_text(
        "-- part: both\nname text, age integer\n"
        "-- name: typed\n-- takes: {both}\n-- takes: doc text\nSELECT :doc::jsonb, :name WHERE {old};\n"
        "-- name: untyped\n-- takes: name, age\nSELECT :age, ':', {ready} WHERE name = :name AND {old};\n"
    )
    assert read_statements(tmp_path) == {
        "typed": "SELECT $3::text::jsonb, $1::text WHERE age > $2::integer;",
        "untyped": "SELECT ?2, ':', 'ready' WHERE name = ?1 AND age > ?2;",
    }


@pytest.mark.parametrize("body", ["SELECT 1;", "SELECT :age, :size;"])
def test_what_is_taken_is_used_and_what_is_used_is_taken(tmp_path: Path, body: str) -> None:
    """A parameter too many or too few is found when the files are loaded."""
    (tmp_path / "a.sql").write_text(f"-- name: wrong\n-- takes: age\n{body}\n")
    with pytest.raises(ValueError, match="wrong takes"):
        read_statements(tmp_path)


def test_no_two_statements_have_one_name(tmp_path: Path) -> None:
    """Nor in two files."""
    for file in ("a.sql", "b.sql"):
        (tmp_path / file).write_text("-- name: twice\nSELECT 1;\n")
    with pytest.raises(ValueError, match="two statements are named twice"):
        read_statements(tmp_path)
