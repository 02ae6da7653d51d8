"""`holdfast stats`: the whole store at a glance."""

import click
from rich.text import Text

from holdfast.cli.connection import Wanted, about_a_store
from holdfast.cli.options import examples
from holdfast.cli.output import Column, coloured, number, say, say_heading, say_json, say_table
from holdfast.cli.queueview import queue_columns, queue_fields
from holdfast.cli.windows import find_windows
from holdfast.cli.workerview import worker_columns, worker_fields
from holdfast.clock import SystemClock
from holdfast.core.states import State
from holdfast.watch.obstacle import START_A_WORKER

_BAR_LENGTH = 40


@click.command(epilog=examples("holdfast stats", "holdfast stats --json | jq .states.dead"))
@about_a_store
def stats(wanted: Wanted) -> None:
    """Count the jobs in each state; show queues and workers."""
    with wanted.store() as backend:
        counts = backend.run(backend.verbs.count())
        queues = backend.run(backend.verbs.queues())
        workers = backend.run(backend.verbs.workers())
        windows = find_windows(backend)
    states, now = {state: counts.get(state, 0) for state in State}, SystemClock().now()
    if wanted.as_json:
        say_json(
            {
                "states": {state.value: count for state, count in states.items()},
                "queues": queue_fields(queues, windows, now),
                "workers": worker_fields(workers),
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
