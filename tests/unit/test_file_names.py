"""The files of the tests have names of their own: all of them can be run in one process."""

from collections import Counter
from pathlib import Path

TESTS = Path(__file__).parents[1]


def test_no_two_files_have_the_same_name() -> None:
    """A test finds its helpers by their bare names, and pytest refuses two tests of one name."""
    shared = {"conftest.py", "__init__.py", "sitecustomize.py"}
    names = Counter(path.name for path in TESTS.rglob("*.py") if path.name not in shared)
    assert [name for name, times in names.items() if times > 1] == []
