"""The pages about the architecture: what they name is there, and the picture of rooms is what the code may import."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from test_layers import ALLOWED, ROOT

PAGE = (Path(__file__).parents[2] / "docs/explanation/architecture.md").read_text()
READMES = sorted(ROOT.rglob("README.md"))
STORES = ("sqlite", "postgres", "redis")
"""What `…` in a path stands for."""

MOST_WORDS = 3_500


def _places(text: str) -> Iterator[tuple[str, str]]:
    for path, name in re.findall(r"`([\w…/]+\.py)`(?: `([\w.]+)`)?", text):
        for store in STORES if "…" in path else ("",):
            yield path.replace("…", store), name


@pytest.mark.parametrize(("path", "name"), sorted(set(_places(PAGE))))
def test_the_page_leads_where_it_says(path: str, name: str) -> None:
    """The file exists, and has the function or class that is named beside it."""
    file = ROOT / path if (ROOT / path).exists() else ROOT.parents[1] / path
    assert name in {"", *_defined(ast.parse(file.read_text()))}


@pytest.mark.parametrize("readme", READMES, ids=lambda readme: str(readme.relative_to(ROOT).parent))
def test_a_readme_names_files_that_exist(readme: Path) -> None:
    folders = (readme.parent, ROOT, ROOT.parents[1])
    named = {path for path, _ in _places(readme.read_text())}
    assert [path for path in sorted(named) if not any((folder / path).exists() for folder in folders)] == []


def _defined(node: ast.AST, prefix: str = "") -> Iterator[str]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield prefix + child.name
            yield from _defined(child, f"{prefix}{child.name}.")


def test_the_picture_shows_imports_that_are_allowed() -> None:
    picture = PAGE.partition("flowchart TD")[2].partition("```")[0]
    arrows = [
        (room.strip(), other.strip())
        for line in picture.splitlines()
        if "-->" in line
        for room in line.partition("-->")[0].split("&")
        for other in line.partition("-->")[2].split("&")
    ]
    assert [(room, other) for room, other in arrows if other not in ALLOWED[room]] == []


def test_the_page_names_each_room_and_is_one_page() -> None:
    table = PAGE.partition("| room |")[2].partition("\n\n")[0]
    assert {room for room in ALLOWED if f"`{room}`" in table or f"`{room}/`" in table} == ALLOWED.keys()
    assert len(PAGE.split()) <= MOST_WORDS
