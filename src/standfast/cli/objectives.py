"""`standfast objectives`: what is promised of tasks and queues, how it stands, and what is left of the budgets."""

from typing import Any

import click
import msgspec
from rich.text import Text

from standfast.catalogue.book import read_catalogue
from standfast.catalogue.entry import CatalogueView
from standfast.cli.connection import Wanted, about_a_store
from standfast.cli.options import examples
from standfast.cli.output import Column, cut, number, say, say_json, say_table
from standfast.objectives.standing import Standing, read_standings
from standfast.objectives.words import budget, burn, promise, share
from standfast.store.errand import run_errand

_BAR_LENGTH = 10
_LITTLE = 0.25
"""From here on down a budget is nearly spent."""

_NONE = (
    "No worker has published an objective; declare one with app.objective, or in [objectives] of standfast.toml."
)


@click.command(epilog=examples("standfast objectives", "standfast objectives --json"))
@about_a_store
def objectives(wanted: Wanted) -> None:
    """Show how objectives stand, and what is left of their budgets.

    A budget is how much may go wrong in the days of an objective. BURN is how many times too fast that happens:
    in the last hour, and still in the last 5 minutes (FAST); in the last 6 hours, and still in the last 30 minutes
    (SLOW).
    """
    with wanted.store() as backend:
        view: CatalogueView = run_errand(backend.run, read_catalogue(backend.verbs))
        standings = run_errand(backend.run, read_standings(backend.verbs, view.objectives))
    if wanted.as_json:
        say_json([standing_fields(each) for each in standings])
    elif not standings:
        say(_NONE)
    else:
        say_table(standings, _COLUMNS)


def standing_fields(standing: Standing) -> dict[str, Any]:
    """Return what JSON has of an objective."""
    return {
        **msgspec.structs.asdict(standing.objective),
        "good": standing.good,
        "bad": standing.bad,
        "share": standing.share,
        "budget_left": standing.budget_left,
        "kept": standing.is_kept,
        "burn": standing.burns,
        "burn_fast": standing.fast,
        "burn_slow": standing.slow,
    }


def _style(standing: Standing) -> str:
    if not standing.is_kept:
        return "bold red"
    return "yellow" if standing.budget_left <= _LITTLE else "green"


def _bar(standing: Standing) -> Text:
    """Return a bar of what is left; what is left at all shows."""
    left = min(max(standing.budget_left, 0.0), 1.0)
    filled = max(1, round(_BAR_LENGTH * left)) if left else 0
    return Text("█" * filled, _style(standing)).append("░" * (_BAR_LENGTH - filled), "dim")


_COLUMNS: list[Column[Standing]] = [
    Column("OBJECTIVE", lambda each: cut(each.objective.name), shrinks=True),
    Column("PROMISE", lambda each: cut(promise(each.objective)), shrinks=True, vital=4),
    Column("GOOD", lambda each: number(each.good), justify="right", vital=2),
    Column("BAD", lambda each: number(each.bad, _style(each)), justify="right", vital=3),
    Column("SHARE", share, justify="right", vital=7),
    Column("BUDGET LEFT", lambda each: Text(budget(each), _style(each)), justify="right", vital=9),
    Column("", _bar, vital=1),
    Column("BURN FAST", lambda each: burn(each.fast), justify="right", vital=6),
    Column("SLOW", lambda each: burn(each.slow), justify="right", vital=5),
]
