"""Names: each file of the tests has one of its own, so that all can be run in one process; and that of the project."""

import subprocess
from collections import Counter
from pathlib import Path

TESTS = Path(__file__).parents[1]


def test_no_two_files_have_the_same_name() -> None:
    """A test finds its helpers by their bare names, and pytest refuses two tests of one name."""
    shared = {"conftest.py", "__init__.py", "sitecustomize.py"}
    names = Counter(path.name for path in TESTS.rglob("*.py") if path.name not in shared and not is_packaged(path))
    assert [name for name, times in names.items() if times > 1] == []


def is_packaged(path: Path) -> bool:
    """Whether it is found by the name of its package, and no test by itself."""
    return (path.parent / "__init__.py").exists() and not path.name.startswith("test_")


def test_the_first_name_of_the_project_is_in_the_changelog_alone() -> None:
    """It belongs to somebody else on the index of packages."""
    first = "hold" + "fast"
    assert [line.partition(":")[0] for line in git("grep", "-Iin", first)] == ["CHANGELOG.md"]
    assert [name for name in git("ls-files") if first in name] == []


def git(*words: str) -> list[str]:
    return subprocess.run(
        ["git", *words], cwd=TESTS.parent, capture_output=True, text=True, check=True
    ).stdout.splitlines()
