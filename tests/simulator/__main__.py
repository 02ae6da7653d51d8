"""`python -m simulator`: many seeds, then every mutant; or one seed, told in full."""

import logging
import os
import sys
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from typing import TypeVar

import click
import msgspec
from rich.console import Console
from rich.progress import track
from rich.table import Table

from simulator.mutants import MUTANTS
from simulator.run import Report, run_seed

T = TypeVar("T")

MUTANT_SEEDS = 300
"""A mutant that lives through so many seeds has got away."""


class Finding(msgspec.Struct, frozen=True):
    """What one seed showed, small enough to travel between processes."""

    seed: int
    violations: tuple[str, ...]
    virtual_seconds: float
    jobs: int


class Catch(msgspec.Struct, frozen=True):
    """Which seed caught a mutant, and by which broken promise; None if it got away."""

    mutant: str
    seed: int | None
    violation: str | None


@contextmanager
def _in_silence() -> Iterator[None]:
    """Let nothing be logged: these worlds are full of outages, each worth a warning elsewhere."""
    logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        logging.disable(logging.NOTSET)


def examine(seed: int) -> Finding:
    """Play one seed."""
    with _in_silence():
        report = run_seed(seed)
    return Finding(seed, report.violations, report.virtual_seconds, report.jobs)


LIKELY = {
    "unfenced-finish": 19,
    "lost-claim-reply": 6,
    "mass-burial": 1,
    "start-after-lost-lease": 2,
    "beat-during-burial": 49,
    "resurrection": 3,
    "deaf-to-burial": 2,
    "counted-on": 8,
    "unmoved-alarm": 25,
    "start-of-a-paused-job": 9,
    "hosts-together": 32,
    "lost-after-burial": 22,
    "stale-save": 2,
    "unnumbered-save": 34,
    "unrung-signal": 1,
}
"""Seeds that have caught mutants which the first one does not: they are played first, whatever has become of their
worlds."""


def hunt(name: str) -> Catch:
    """Play seeds with a mutant until one catches it."""
    with _in_silence(), MUTANTS[name]():
        for seed in (LIKELY.get(name, 0), *range(MUTANT_SEEDS)):
            violations = run_seed(seed).violations
            if violations:
                return Catch(name, seed, violations[0])
    return Catch(name, None, None)


@click.command(epilog="Examples: --seeds 2000 | --seed 17 (told in full) | --mutant mass-burial --seed 1")
@click.option("--seeds", default=200, show_default=True, help="How many seeds to play, from 0 on.")
@click.option("--seed", type=int, help="Play this one seed and tell what happened.")
@click.option("--mutant", type=click.Choice(list(MUTANTS)), help="With --seed: break the code in this way first.")
@click.option(
    "--hunt",
    "hunted",
    multiple=True,
    type=click.Choice(list(MUTANTS)),
    metavar="MUTANT",
    help="Hunt this one alone; may be repeated.",
)
@click.option("--json", "as_json", is_flag=True, help="Print findings as JSON.")
def main(seeds: int, seed: int | None, mutant: str | None, hunted: tuple[str, ...], as_json: bool) -> None:
    """Look for broken promises in simulated worlds. Exit code 1 if one is found or a mutant got away."""
    if seed is not None:
        tell(play(seed, mutant))
        return
    console = Console(stderr=True)
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        findings = list(_shown(pool.map(examine, range(seeds), chunksize=8), seeds, "worlds", console))
        mutants = hunted or tuple(MUTANTS)
        catches = list(_shown(pool.map(hunt, mutants), len(mutants), "mutants", console))
    broken = [finding for finding in findings if finding.violations]
    escaped = [catch for catch in catches if catch.seed is None]
    if as_json:
        click.echo(msgspec.json.encode({"seeds": seeds, "broken": broken, "mutants": catches}))
    else:
        summarise(findings, broken, catches)
    sys.exit(bool(broken or escaped))


def play(seed: int, mutant: str | None) -> Report:
    """Play one seed, with the code as it is or broken on purpose."""
    if mutant is None:
        return run_seed(seed)
    with MUTANTS[mutant]():
        return run_seed(seed)


def tell(report: Report) -> None:
    """Print what happened in a world."""
    click.echo("\n".join(report.trace))
    click.echo(f"seed {report.seed}: {len(report.violations)} violations, digest {report.digest[:16]}")
    sys.exit(bool(report.violations))


def summarise(findings: list[Finding], broken: list[Finding], catches: list[Catch]) -> None:
    """Print the findings for people."""
    hours = sum(finding.virtual_seconds for finding in findings) / 3600
    jobs = sum(finding.jobs for finding in findings)
    click.echo(f"{len(findings)} worlds, {jobs} jobs, {hours:.0f} hours of virtual time: {len(broken)} broken")
    for finding in broken:
        click.echo(f"  seed {finding.seed}: {finding.violations[0]}")
    table = Table("mutant", "caught by seed", "broken promise", box=None, title_justify="left")
    for catch in catches:
        table.add_row(catch.mutant, "GOT AWAY" if catch.seed is None else str(catch.seed), catch.violation or "")
    Console().print(table)


def _shown(items: Iterable[T], total: int, what: str, console: Console) -> Iterator[T]:
    return iter(track(items, what, total, console=console, disable=not console.is_terminal))


if __name__ == "__main__":
    main()
