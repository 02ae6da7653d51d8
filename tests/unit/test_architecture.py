"""The page about the architecture: what it names is there, and the picture of imports is what the code imports."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from test_layers import LAYERS, ROOT, imported_parts, part_of

PAGE = (Path(__file__).parents[2] / "docs/explanation/architecture.md").read_text()
WALK = PAGE.partition("## The walk of a job")[2].partition("\n## ")[0]
STORES = ("sqlite", "postgres", "redis")
"""What `…` in a path stands for."""

FOR_ALL = LAYERS[0] - {"core"}
"""What everybody may use, and nobody needs to see in a picture."""


def _places() -> Iterator[tuple[str, str]]:
    for path, name in re.findall(r"`([\w…/]+\.py)`(?: `([\w.]+)`)?", WALK):
        for store in STORES if "…" in path else ("",):
            yield path.replace("…", store), name


@pytest.mark.parametrize(("path", "name"), sorted(set(_places())))
def test_the_walk_leads_where_it_says(path: str, name: str) -> None:
    """The file exists, and has the function or class that is named beside it."""
    assert name in {"", *_defined(ast.parse((ROOT / path).read_text()))}


def _defined(node: ast.AST, prefix: str = "") -> Iterator[str]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield prefix + child.name
            yield from _defined(child, f"{prefix}{child.name}.")


def test_the_picture_of_imports_is_true() -> None:
    """It shows each import between parts, but for those that follow from others, and for what everybody may use."""
    drawn = set(re.findall(r"^    (\w+) --> (\w+)$", PAGE, re.MULTILINE))
    assert drawn == set(_without_shortcuts(_imports()))


def _imports() -> dict[str, set[str]]:
    graph: dict[str, set[str]] = {}
    for file in ROOT.rglob("*.py"):
        graph.setdefault(part_of(file), set()).update(set(imported_parts(file)) - FOR_ALL - {part_of(file)})
    return {part: below for part, below in graph.items() if part not in FOR_ALL | {"__init__"}}


def _without_shortcuts(graph: dict[str, set[str]]) -> Iterator[tuple[str, str]]:
    for part, below in graph.items():
        for each in below:
            if not any(each in _reached(graph, other) for other in below - {each}):
                yield part, each


def _reached(graph: dict[str, set[str]], part: str) -> set[str]:
    return {part} | {far for each in graph[part] for far in _reached(graph, each)}
