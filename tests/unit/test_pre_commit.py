"""The hooks before a commit are commands that exist, and the same checks as `make lint`."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
CONFIG = (ROOT / ".pre-commit-config.yaml").read_text()
ENTRIES = re.findall(r"^ +entry: (.+)$", CONFIG, re.MULTILINE)


def test_nothing_is_fetched_from_elsewhere():
    assert re.findall(r"- repo: (.+)", CONFIG) == ["local"]
    assert set(re.findall(r"language: (.+)", CONFIG)) == {"system"}


@pytest.mark.parametrize("entry", ENTRIES)
def test_each_entry_is_a_command_that_knows_its_options(entry):
    command, *options = entry.split()
    assert command.startswith(".venv/bin/")
    here = Path(sys.executable).with_name(Path(command).name)
    shown = subprocess.run(
        [here, *options, "--help"], capture_output=True, text=True, check=True, timeout=60
    ).stdout
    assert [option for option in options if option.startswith("--") and option not in shown] == []


def test_they_are_the_checks_of_make_lint():
    (recipe,) = re.findall(r"^lint:.*\n((?:\t.*\n)+)", (ROOT / "Makefile").read_text(), re.MULTILINE)
    ours = [line.strip().replace("$(BIN)", ".venv/bin").removesuffix(" .") for line in recipe.splitlines()]
    assert [entry.removesuffix(" --force-exclude") for entry in ENTRIES] == ours
