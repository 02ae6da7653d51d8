"""Each test has its own store, directory and environment."""

import pytest
from cli_world import World
from click.testing import CliRunner

from standfast.cli.main import cli


@pytest.fixture
def tmp_path(quick_path):
    """Give a folder in memory: one command at a time uses what is there."""
    return quick_path


@pytest.fixture(autouse=True)
def no_surroundings(monkeypatch, tmp_path):
    """Neither the caller's environment nor a database in the directory plays a part."""
    for name in ("STANDFAST_URL", "COLUMNS", "FORCE_COLOR", "NO_COLOR", "TTY_COMPATIBLE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def world(tmp_path):
    made = World(tmp_path / "jobs.db")
    yield made
    made.close()


@pytest.fixture
def standfast(world):
    """Run a command on the world's store."""

    def run(*args, **how):
        return CliRunner().invoke(cli, [*args, "--url", world.url], prog_name="standfast", **how)

    return run
