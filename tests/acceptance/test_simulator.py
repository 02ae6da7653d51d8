"""The simulator: the shipped worker and supervisor in seeded worlds where things go wrong.

Short here; `make simulate SEEDS=2000` or `make prove NAME=simulator` at full size.
"""

import os
import subprocess
import sys

import msgspec
import pytest

from holdfast.testing.simulator.__main__ import MUTANT_SEEDS, hunt
from holdfast.testing.simulator.mutants import MUTANTS
from holdfast.testing.simulator.run import run_seed

PROVE = bool(os.environ.get("HOLDFAST_PROVE"))
SEEDS = 2000 if PROVE else 12


@pytest.mark.timeout(3600 if PROVE else 400)
def test_simulated_worlds_keep_every_promise() -> None:
    """No seeded world of kills, stalls, outages, lost replies and clock steps breaks a promise; mutants do."""
    command = [sys.executable, "-m", "holdfast.testing.simulator", "--seeds", str(SEEDS), "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    report = msgspec.json.decode(done.stdout)
    assert report["broken"] == []
    assert {catch["mutant"] for catch in report["mutants"]} == set(MUTANTS)
    assert all(catch["seed"] is not None for catch in report["mutants"])
    assert done.returncode == 0


@pytest.mark.parametrize("name", ["unfenced-finish", "unrung-bell", "unflushed-ending"])
def test_a_mutant_is_caught_by_the_seed_that_is_named(name: str) -> None:
    """What the command reports can be replayed: the same seed with the same mutant breaks the same promise."""
    catch = hunt(name)
    assert catch.seed is not None
    assert catch.seed < MUTANT_SEEDS
    with MUTANTS[name]():
        assert run_seed(catch.seed).violations[0] == catch.violation
    assert run_seed(catch.seed).violations == ()


def test_a_seed_replays_exactly_in_another_process() -> None:
    """The same seed gives the same world to the last line, whatever the process hashes strings to."""
    digests = {_digest_with(hash_seed) for hash_seed in ("1", "2", "77")}
    assert digests == {run_seed(7).digest}


def _digest_with(hash_seed: str) -> str:
    code = "from holdfast.testing.simulator.run import run_seed; print(run_seed(7).digest)"
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment)
    return done.stdout.strip()
