"""`standfast stats` and `standfast objectives`.

Figures of a span of time, as `standfast stats --since` shows them.
"""

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

import click
from rich.text import Text

from standfast.admin.objectives import ObjectiveSeen, list_objectives
from standfast.admin.queues import list_queues
from standfast.admin.workers import list_workers
from standfast.cli.columns import queue_columns, worker_columns
from standfast.cli.connection import StoreOptions, examples, store_options
from standfast.cli.output import Column, coloured, cut, number, say, say_heading, say_json, say_list, say_table
from standfast.model.display import dated, span
from standfast.model.states import State
from standfast.model.validation import read_span
from standfast.observe.burn_rates import budget, burn, percent
from standfast.observe.figures.series import Figures, Series, read_figures
from standfast.observe.obstacles import START_A_WORKER
from standfast.stores.backend import Backend
from standfast.stores.contract import ask_time, count_states
from standfast.stores.verb import run_procedure

LONGEST = timedelta(days=30)
"""Figures are kept for so long."""


def read_since(text: str) -> timedelta:
    """Return how far back to look. Raises click.UsageError that says how to write it."""
    try:
        back = read_span(text)
    except ValueError as error:
        raise click.UsageError(f"--since: {error}") from None
    if not timedelta(minutes=1) <= back <= LONGEST:
        raise click.UsageError(f"--since: {text!r} is no span between a minute and 30d, for which figures are kept")
    return back


def find_figures(backend: Backend, back: timedelta) -> Series:
    """Read the figures from so long ago until now."""
    now = backend.run(ask_time(backend.verbs)).now
    return run_procedure(backend.run, read_figures(backend.verbs, now - back))


def figure_fields(series: Series) -> dict[str, Any]:
    """Return what JSON has of a series: spans in seconds."""
    return {
        "since": series.points[0].at,
        "until": series.now,
        "tasks": [_fields(row) for row in series.by_pair()],
        "total": _fields(series.total),
    }


def figure_columns() -> Sequence[Column[Figures]]:
    """Return the columns of figures."""
    return [
        Column("TASK", lambda row: cut(row.task or "(other)"), shrinks=True, vital=9),
        Column("QUEUE", lambda row: cut(row.queue), shrinks=True, vital=3),
        Column("COMPLETED", lambda row: number(row.completed), justify="right", vital=8),
        Column("FAILED", lambda row: number(row.failed, "yellow"), justify="right", vital=7),
        Column("DEAD", lambda row: number(row.dead, "bold red"), justify="right", vital=7),
        Column("CANCELLED", lambda row: number(row.cancelled), justify="right", vital=1),
        Column("RUN P50", _told(lambda row: row.run_percentile(0.5)), justify="right", vital=5),
        Column("P95", _told(lambda row: row.run_percentile(0.95)), justify="right", vital=6),
        Column("LAG P50", _told(lambda row: row.lag_percentile(0.5)), justify="right", vital=4),
        Column("P95", _told(lambda row: row.lag_percentile(0.95)), justify="right", vital=5),
    ]


def _told(read: Callable[[Figures], timedelta | None]) -> Callable[[Figures], str]:
    def tell(row: Figures) -> str:
        found = read(row)
        return "" if found is None else span(found)

    return tell


def _fields(row: Figures) -> dict[str, Any]:
    return {
        "queue": row.queue,
        "task": row.task,
        "completed": row.completed,
        "failed": row.failed,
        "dead": row.dead,
        "cancelled": row.cancelled,
        "given_back": row.given_back,
        "run_seconds": row.run_time.total_seconds(),
        "run": _percentiles(row.run_percentile),
        "lag": _percentiles(row.lag_percentile),
    }


def _percentiles(read: Callable[[float], timedelta | None]) -> dict[str, float | None]:
    found = {f"p{round(part * 100)}": read(part) for part in (0.5, 0.95, 0.99)}
    return {name: None if value is None else value.total_seconds() for name, value in found.items()}


# `standfast objectives`: what is promised of tasks and queues, how it stands, and what is left of the budgets.

_BUDGET_BAR_LENGTH = 10
_LITTLE = 0.25
"""From here on down a budget is nearly spent."""

_NO_OBJECTIVE = (
    "No worker has published an objective; declare one with app.objective, or in [objectives] of standfast.toml."
)


@click.command(epilog=examples("standfast objectives", "standfast objectives --json"))
@store_options
def objectives(wanted: StoreOptions) -> None:
    """Show how objectives stand, and what is left of their budgets.

    A budget is how much may go wrong in the days of an objective. BURN is how many times too fast that happens:
    in the last hour, and still in the last 5 minutes (FAST); in the last 6 hours, and still in the last 30 minutes
    (SLOW).
    """
    say_list(wanted, wanted.run(list_objectives).objectives, _OBJECTIVE_COLUMNS, _NO_OBJECTIVE)


def _budget_style(seen: ObjectiveSeen) -> str:
    if not seen.kept:
        return "bold red"
    return "yellow" if seen.budget_left <= _LITTLE else "green"


def _budget_bar(seen: ObjectiveSeen) -> Text:
    """Return a bar of what is left; what is left at all shows."""
    left = min(max(seen.budget_left, 0.0), 1.0)
    filled = max(1, round(_BUDGET_BAR_LENGTH * left)) if left else 0
    return Text("█" * filled, _budget_style(seen)).append("░" * (_BUDGET_BAR_LENGTH - filled), "dim")


_OBJECTIVE_COLUMNS: list[Column[ObjectiveSeen]] = [
    Column("OBJECTIVE", lambda each: cut(each.name), shrinks=True),
    Column("PROMISE", lambda each: cut(each.promise), shrinks=True, vital=4),
    Column("GOOD", lambda each: number(each.good), justify="right", vital=2),
    Column("BAD", lambda each: number(each.bad, _budget_style(each)), justify="right", vital=3),
    Column("SHARE", lambda each: "" if each.share is None else percent(each.share), justify="right", vital=7),
    Column(
        "BUDGET LEFT", lambda each: Text(budget(each.budget_left), _budget_style(each)), justify="right", vital=9
    ),
    Column("", _budget_bar, vital=1),
    Column("BURN FAST", lambda each: burn(each.burn_fast), justify="right", vital=6),
    Column("SLOW", lambda each: burn(each.burn_slow), justify="right", vital=5),
]


# `standfast stats`: the whole store at a glance.

_BAR_LENGTH = 40


@click.command(
    epilog=examples("standfast stats", "standfast stats --json | jq .states.dead", "standfast stats --since 24h")
)
@click.option("--since", metavar="SPAN", help="What ended meanwhile, and how fast: 1h, 24h, 7d; 30d at most.")
@store_options
def stats(wanted: StoreOptions, /, *, since: str | None) -> None:
    """Count the jobs in each state; show queues and workers.

    With --since, also what the workers have done since then, task by task: how many jobs completed, failed and are
    tried again, died or were cancelled, how long they ran, and how long after their time they began (LAG).
    """
    back = None if since is None else read_since(since)
    with wanted.admin() as admin:
        backend = admin.backend
        counts = backend.run(count_states(backend.verbs))
        queues = admin.run(list_queues).queues
        workers = admin.run(list_workers)
        figures = None if back is None else find_figures(backend, back)
    states = {state: counts.get(state, 0) for state in State}
    if wanted.as_json:
        say_json(
            {
                "states": {state.value: count for state, count in states.items()},
                "queues": queues,
                "workers": workers.workers,
                **({} if figures is None else {"figures": figure_fields(figures)}),
            }
        )
        return
    say_table(list(states.items()), _state_columns(max(states.values())))
    if queues:
        say_heading("Queues")
        say_table(queues, queue_columns(queues, workers.now))
    say_heading("Workers")
    if workers.workers:
        say_table(workers.workers, worker_columns(workers.now))
    else:
        say(f"None is registered; {START_A_WORKER}.")
    if figures is not None:
        _say_figures(figures)


def _say_figures(figures: Series) -> None:
    say_heading(f"Since {dated(figures.points[0].at, figures.now)}")
    rows = figures.by_pair()
    if rows:
        say_table(rows, figure_columns())
    else:
        say("Nothing has ended.")


def _state_columns(most: int) -> list[Column[tuple[State, int]]]:
    return [
        Column("STATE", lambda row: coloured(row[0])),
        Column("JOBS", lambda row: number(row[1]), justify="right"),
        Column("", lambda row: _bar(row[0], row[1], most)),
    ]


def _bar(state: State, count: int, most: int) -> Text:
    """Return a bar in proportion to the largest count; whatever is there at all shows."""
    bar = coloured(state)
    bar.plain = "█" * max(1, round(_BAR_LENGTH * count / most)) if count else ""
    return bar
