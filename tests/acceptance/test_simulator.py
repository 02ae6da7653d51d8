"""The simulator: the shipped worker and supervisor in seeded worlds where things go wrong.

Short here; `make simulate SEEDS=2000` or `make prove NAME=simulator` at full size.
"""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from simulator.__main__ import MUTANT_SEEDS
from simulator.mutants import MUTANTS
from simulator.run import run_seed

PROVE = bool(os.environ.get("STANDFAST_PROVE"))
SEEDS = 2000 if PROVE else 4
NAMED = ("unfenced-finish", "unrung-bell", "unflushed-ending")
HUNTED = tuple(MUTANTS) if PROVE else tuple(sorted({*NAMED, *list(MUTANTS)[::3]}))

ENVIRONMENT = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])}

pytestmark = pytest.mark.timeout(3600 if PROVE else 400)


@pytest.fixture(scope="module")
def played() -> dict[str, Any]:
    """Give what the command reports, with its exit code."""
    command = [sys.executable, "-m", "simulator", "--seeds", str(SEEDS), "--json"]
    command += [word for mutant in HUNTED for word in ("--hunt", mutant)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=ENVIRONMENT)
    return {**msgspec.json.decode(done.stdout), "exit_code": done.returncode}


def test_simulated_worlds_keep_every_promise(played: dict[str, Any]) -> None:
    """No seeded world of kills, stalls, outages, lost replies and clock steps breaks a promise; mutants do."""
    assert played["broken"] == []
    assert {catch["mutant"] for catch in played["mutants"]} == set(HUNTED)
    assert all(catch["seed"] is not None for catch in played["mutants"])
    assert played["exit_code"] == 0


@pytest.mark.parametrize("name", NAMED)
def test_a_mutant_is_caught_by_the_seed_that_is_named(played: dict[str, Any], name: str) -> None:
    """What the command reports can be replayed: the same seed with the same mutant breaks the same promise."""
    [catch] = [catch for catch in played["mutants"] if catch["mutant"] == name]
    assert catch["seed"] < MUTANT_SEEDS
    with MUTANTS[name]():
        assert run_seed(catch["seed"]).violations[0] == catch["violation"]
    assert run_seed(catch["seed"]).violations == ()


def test_a_seed_replays_exactly_in_another_process() -> None:
    """The same seed gives the same world to the last line, whatever the process hashes strings to."""
    digests = {_digest_with(hash_seed) for hash_seed in ("1", "77")}
    assert digests == {run_seed(7).digest}


def _digest_with(hash_seed: str) -> str:
    code = "from simulator.run import run_seed; print(run_seed(7).digest)"
    environment = {**ENVIRONMENT, "PYTHONHASHSEED": hash_seed}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment)
    return done.stdout.strip()
