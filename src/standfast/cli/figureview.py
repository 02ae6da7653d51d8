"""Figures of a span of time, as `standfast stats --since` shows them."""

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

import click

from standfast.cli.output import Column, cut, number
from standfast.figures.reading import read_figures
from standfast.figures.series import Figures, Series
from standfast.store.backend import Backend
from standfast.store.errand import run_errand
from standfast.store.protocol import ask_time
from standfast.watch.spans import read_span
from standfast.words import span

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
    return run_errand(backend.run, read_figures(backend.verbs, now - back))


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
