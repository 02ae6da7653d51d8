"""Which room may import which: the table of the house."""

import ast
from collections.abc import Iterator
from pathlib import Path

import standfast

ROOT = Path(standfast.__file__).parent

BASE = {"errors", "model", "settings", "events"}
JOBS = BASE | {"stores", "schedules", "durable"}
TASKS = JOBS | {"context", "handle", "task"}

ALLOWED = {
    "errors": set(),
    "model": {"errors"},
    "settings": {"errors", "model"},
    "events": {"errors", "model"},
    "stores": {"errors", "model"},
    "schedules": {"errors", "model", "stores"},
    "durable": {"errors", "model", "settings", "stores"},
    "context": {"errors", "model", "durable"},
    "handle": {"errors", "model", "stores", "durable"},
    "task": TASKS,
    "observe": JOBS,
    "worker": TASKS | {"observe"},
    "supervisor": JOBS | {"observe", "worker"},
    "app": TASKS | {"observe", "hosts", "admin"},
    "admin": TASKS | {"observe", "supervisor", "app"},
    "dashboard": JOBS | {"handle", "observe", "supervisor", "admin"},
    "hosts": TASKS | {"observe", "worker", "supervisor", "app", "admin", "dashboard", "cli"},
    "cli": TASKS | {"observe", "worker", "supervisor", "app", "admin", "dashboard", "hosts"},
    "testing": TASKS | {"observe", "worker", "supervisor", "app", "hosts"},
}
"""What a room, or a file at the top, may import besides itself. `app` imports background work alone from
`hosts`, and what `app.admin` is from `admin`;
Django wants its command, which is the command line, in `hosts`."""


def test_rooms_import_what_the_table_allows() -> None:
    wrong = [
        f"{file.relative_to(ROOT)} imports {other}"
        for file in sorted(ROOT.rglob("*.py"))
        for other in sorted(imported(file) - {room_of(file)})
        if room_of(file) != "__init__" and other not in ALLOWED[room_of(file)]
    ]
    assert wrong == []


def test_the_table_has_each_room_and_no_other() -> None:
    assert {room_of(file) for file in ROOT.rglob("*.py")} - {"__init__"} == ALLOWED.keys()


def test_what_goes_up_goes_from_one_place_only() -> None:
    assert {name[:2] for name in map(parts, imported_modules(ROOT / "app.py")) if name[0] == "hosts"} == {
        ("hosts", "background")
    }
    assert {name[:2] for name in map(parts, imported_modules(ROOT / "app.py")) if name[0] == "admin"} == {
        ("admin", "registry")
    }
    up = {str(file.relative_to(ROOT)) for file in (ROOT / "hosts").rglob("*.py") if "cli" in imported(file)}
    assert up == {"hosts/django/management/commands/standfast.py"}


def parts(name: str) -> tuple[str, ...]:
    return tuple(name.split("."))


def room_of(file: Path) -> str:
    """Return the room, or the file at the top, that a file is in."""
    return file.relative_to(ROOT).parts[0].removesuffix(".py")


def imported(file: Path) -> set[str]:
    """Return the rooms, and files at the top, that a file imports from."""
    return {target.split(".")[0] for target in imported_modules(file)}


def imported_modules(file: Path) -> Iterator[str]:
    """Yield what a file imports of ours, wherever in it."""
    for node in ast.walk(ast.parse(file.read_text())):
        names = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
        names += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        for name in names:
            if name == "standfast" and isinstance(node, ast.ImportFrom):
                yield from (alias.name for alias in node.names)
            elif name.startswith("standfast."):
                yield name.removeprefix("standfast.")
