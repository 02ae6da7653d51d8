"""The direction of imports: a file may use what is below it, never what is above."""

import ast
from collections.abc import Iterator
from pathlib import Path

import standfast

ROOT = Path(standfast.__file__).parent

LAYERS = [
    {
        "attendant",
        "awaiting",
        "core",
        "errors",
        "exchange",
        "clock",
        "ids",
        "lastthreads",
        "latch",
        "opening",
        "patience",
        "phrases",
        "spelling",
        "wakeup",
        "weburl",
        "words",
    },
    {"settings", "events", "codec", "context", "durable", "hooks", "life", "policy", "tracing"},
    {"store"},
    {"signals", "waiter", "handle", "locks", "task", "schedule", "gates", "figures"},
    {"alerts", "objectives"},
    {"decorator", "governed", "reach", "watched"},
    {"logs", "metrics", "worker", "watch"},
    {"health", "incidents"},
    {"views"},
    {"background", "supervisor"},
    {"app"},
    {"catalogue", "dashboard"},
    {"report"},
    {"child", "cli"},
    {"host"},
    {"testing"},
]
RANK = {part: rank for rank, layer in enumerate(LAYERS) for part in layer}


def test_imports_go_down_only() -> None:
    """core ← store ← task ← worker ← supervisor ← app ← child, cli: no file imports from above itself."""
    upward = [
        f"{file.relative_to(ROOT)} imports {imported}"
        for file in ROOT.rglob("*.py")
        for imported in imported_parts(file)
        if part_of(file) in RANK and RANK[imported] > RANK[part_of(file)]
    ]
    assert upward == []


def test_every_part_has_its_layer() -> None:
    """A new package or module must be given a place in the order."""
    parts = {part_of(file) for file in ROOT.rglob("*.py")} - {"__init__"}
    assert parts == RANK.keys()


def part_of(file: Path) -> str:
    """Return the package, or module, right below the root in which a file is."""
    return file.relative_to(ROOT).parts[0].removesuffix(".py")


def imported_parts(file: Path) -> Iterator[str]:
    """Yield the parts that a file imports from."""
    for node in ast.walk(ast.parse(file.read_text())):
        names = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
        names += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        for name in names:
            _, _, rest = name.partition("standfast.")
            if name.startswith("standfast."):
                yield rest.split(".")[0]
