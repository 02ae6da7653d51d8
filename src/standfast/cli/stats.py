"""`standfast stats`: the whole store at a glance."""

import click
from rich.text import Text

from standfast.cli.connection import Wanted, about_a_store
from standfast.cli.figureview import figure_columns, figure_fields, find_figures, read_since
from standfast.cli.options import examples
from standfast.cli.output import Column, coloured, number, say, say_heading, say_json, say_table
from standfast.cli.queueview import queue_columns, queue_fields
from standfast.cli.windows import find_windows
from standfast.cli.workerview import worker_columns, worker_fields
from standfast.clock import SystemClock
from standfast.core.states import State
from standfast.figures.series import Series
from standfast.watch.obstacle import START_A_WORKER
from standfast.words import dated

_BAR_LENGTH = 40


@click.command(
    epilog=examples("standfast stats", "standfast stats --json | jq .states.dead", "standfast stats --since 24h")
)
@click.option("--since", metavar="SPAN", help="What ended meanwhile, and how fast: 1h, 24h, 7d; 30d at most.")
@about_a_store
def stats(wanted: Wanted, /, *, since: str | None) -> None:
    """Count the jobs in each state; show queues and workers.

    With --since, also what the workers have done since then, task by task: how many jobs completed, failed and are
    tried again, died or were cancelled, how long they ran, and how long after their time they began (LAG).
    """
    back = None if since is None else read_since(since)
    with wanted.store() as backend:
        counts = backend.run(backend.verbs.count())
        queues = backend.run(backend.verbs.queues())
        workers = backend.run(backend.verbs.workers())
        windows = find_windows(backend)
        figures = None if back is None else find_figures(backend, back)
    states, now = {state: counts.get(state, 0) for state in State}, SystemClock().now()
    if wanted.as_json:
        say_json(
            {
                "states": {state.value: count for state, count in states.items()},
                "queues": queue_fields(queues, windows, now),
                "workers": worker_fields(workers),
                **({} if figures is None else {"figures": figure_fields(figures)}),
            }
        )
        return
    say_table(list(states.items()), _state_columns(max(states.values())))
    if queues:
        say_heading("Queues")
        say_table(queues, queue_columns(queues, windows, now))
    say_heading("Workers")
    if workers:
        say_table(workers, worker_columns(now))
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
