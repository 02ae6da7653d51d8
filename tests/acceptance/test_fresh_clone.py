"""A fresh clone works: `make run` and `make test`, each first and alone.

The short form checks that a clone has every file and that the targets are wired to make their own environment. With
STANDFAST_PROVE=1 (`make prove NAME=fresh_clone`) both targets are run for real, each in a clone of its own.
"""

import os
import shutil
import subprocess
import tomllib
from contextlib import suppress
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
MAKE = shutil.which("make") or "make"
PROVE = os.environ.get("STANDFAST_PROVE") == "1"
TARGETS = {
    "run": "python examples/demo.py",
    "test": "python tests/parts.py",
    "lint": "ruff check",
    "prove": "STANDFAST_PROVE=1",
    "simulate": "-m simulator",
    "bench": "python bench",
    "game": "python -m game",
}


@pytest.fixture
def clone(tmp_path):
    """Give a clone of this repository, with what is not committed yet laid over it; ignored files are not in it."""
    place = tmp_path / "clone"
    subprocess.run(["git", "clone", "--quiet", "--no-hardlinks", str(ROOT), str(place)], check=True)
    for name in git("ls-files", "-z", "--deleted"):
        (place / name).unlink(missing_ok=True)
    for name in git("ls-files", "-z", "--modified", "--others", "--exclude-standard"):
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        with suppress(FileNotFoundError):
            shutil.copy2(ROOT / name, place / name)
    return place


def test_a_clone_has_the_whole_package_and_what_the_targets_call(clone):
    """No file that the package, the demo or the build needs is ignored by git."""
    package = Path("src", "standfast")
    needed = [path for path in (ROOT / package).rglob("*") if path.is_file() and "__pycache__" not in path.parts]
    project = tomllib.loads((clone / "pyproject.toml").read_text())["project"]
    others = [
        "Makefile",
        ".ci/run",
        "examples/demo.py",
        "examples/shop.py",
        project["readme"],
        *project["license-files"],
    ]

    missing = [path for path in (str(path.relative_to(ROOT)) for path in needed) if not (clone / path).exists()]

    assert missing + [path for path in others if not (clone / path).exists()] == []
    assert not (clone / ".venv").exists()


@pytest.mark.parametrize("target", TARGETS)
def test_each_target_would_make_its_own_environment_first(clone, target):
    """Wiring only, nothing is run: before anything else a target makes .venv and installs into it."""
    planned = make(clone, "-n", target, "NAME=x").stdout

    steps = ["-m venv", "--editable . --group dev", "touch .venv/.installed", TARGETS[target]]
    places = [planned.find(step) for step in steps]
    assert -1 not in places, planned
    assert places == sorted(places), planned


def test_help_is_the_default_and_names_every_target(clone):
    """`make` alone changes nothing and says what there is."""
    told = make(clone).stdout

    assert [target for target in TARGETS if f"make {target} " not in told] == []
    assert not (clone / ".venv").exists()


def test_without_a_new_enough_python_it_says_so(clone, tmp_path):
    """Where only old Pythons are on the path, one line names what is needed and nothing is left behind."""
    old = tmp_path / "bin"
    old.mkdir()
    (old / "python3").write_text("#!/bin/sh\nexit 1\n")
    (old / "python3").chmod(0o755)

    ended = make(clone, "run", check=False, PATH=str(old))

    assert ended.returncode != 0
    assert "Standfast needs Python 3.11 or newer" in ended.stderr
    assert not (clone / ".venv").exists()


@pytest.mark.full_size
@pytest.mark.timeout(1800)
@pytest.mark.parametrize(("target", "expected"), [("run", "Bring the dead one back"), ("test", " passed")])
def test_proof_a_target_works_first_and_alone(clone, target, expected):
    """At full size: in a clone without an environment, with -j as well, the target does all that it needs."""
    ended = make(clone, "-j4", target, check=False)

    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert expected in ended.stdout


def make(place, *arguments, check=True, **environment):
    """Run make as a newcomer would: without our variables, our environment, or a terminal."""
    ours = ("STANDFAST_", "MAKE", "MFLAGS", "VIRTUAL_ENV", "PYTEST_", "COV_")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    return subprocess.run(
        [MAKE, "--no-print-directory", *arguments],
        cwd=place,
        env={**kept, **environment},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=check,
    )


def git(*arguments):
    """Return the names that git lists."""
    listed = subprocess.run(["git", *arguments], cwd=ROOT, check=True, capture_output=True, text=True)
    return [name for name in listed.stdout.split("\0") if name]
