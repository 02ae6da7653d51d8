"""The files that SQL lives in: every block says what it does, and every statement names what it takes."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import holdfast.store
from holdfast.store.sql_files import read_statements

FOLDERS = sorted(Path(holdfast.store.__file__).parent.glob("*/sql"))
FILES = [file for folder in FOLDERS for file in sorted(folder.glob("*.sql"))]
BLOCK = re.compile(r"^-- (?:name|part): (\w+)\n((?:-- takes: .+\n)*)(.*)$", re.MULTILINE)


def name(path: Path) -> str:
    return f"{path.parent.parent.name}/{path.name}" if path.suffix else path.parent.name


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    return tmp_path


@pytest.mark.parametrize("file", FILES, ids=name)
def test_every_block_is_described(file: Path) -> None:
    """The line after a name, and after what is taken, is a comment that says what this is for."""
    blocks = BLOCK.findall(file.read_text())
    assert blocks
    assert [name for name, _, line in blocks if not re.match(r"-- [A-Z`].*\w", line)] == []


@pytest.mark.parametrize("file", FILES, ids=name)
def test_no_parameter_is_numbered_by_hand(file: Path) -> None:
    """Numbers are given while loading: a reader sees names."""
    assert re.findall(r"[?$]\d+", file.read_text()) == []


@pytest.mark.parametrize("folder", FOLDERS, ids=name)
def test_every_statement_uses_all_that_it_takes(folder: Path) -> None:
    """PostgreSQL refuses a parameter of which the statement says nothing, and in SQLite it would be a mistake too."""
    for statement in read_statements(folder).values():
        numbers = {int(number) for number in re.findall(r"[?$](\d+)", statement)}
        assert numbers == set(range(1, len(numbers) + 1)), statement
