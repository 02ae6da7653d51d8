"""The pictures of a report."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.collections import PathCollection
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from game.board import OwnRun, Published, published
from game.evidence import Evidence
from game.report.style import BAD, FAINT, INK, PUBLISHED, QUIET, colour_of
from game.report.words import jobs_words, strategy_words, title
from game.result import Figures, Report, delays_of
from game.rules import BEST_EFFICIENT, BEST_PERIOD, LIST_PRICE
from game.timetable import Mode
from game.tournament import Tournament
from standfast.model.display import counted

MARKERS = {"ours": "*", "lookahead": "D", "naive": "s", "separate": "P"}
CONTESTANT = "o"
SIZES = {"ours": 420, "separate": 160}
SIZE = 90
OFFSETS = {"ours": (0, 12), "separate": (14, 1)}
"""Where the words stand: these two are near each other."""

LEAST_LOST = 0.1
"""Milliseconds: less than this beyond the work is drawn as this much."""

BINS_PER_DECADE = 16
_DOTS = 110
_PAPER = {"facecolor": "white", "edgecolor": "none", "pad": 1.5}
"""What is behind words, so that no line of the grid goes through them."""

_NOTED = {
    ("julian-chu", "WORKERS01"): ("lowest COST", (0.0, -8.0)),
    ("andrew0928", "WORKERS01"): ("best with 1 instance", (9.0, 0.0)),
    ("andrew0928", "WORKERS02"): ("best on both", (0.0, -8.0)),
    ("andrew0928", "WORKERS09"): ("best EFFICIENT", (16.0, -1.0)),
}
"""Published runs worth a word, with what is said of them and where it stands."""


def draw_delays(tournament: Tournament, path: Path) -> None:
    """Draw how much later than the work itself takes jobs had run: one row for each strategy, the best on top."""
    played = sorted(tournament.report.strategies, key=_how_good)
    lost = {figures.strategy: _lost(tournament.evidence[figures.strategy]) for figures in played}
    bins = _logarithmic(LEAST_LOST, 1.6 * max((max(each) for each in lost.values() if each), default=1.0))
    figure = Figure(figsize=(9, 1.5 + 1.5 * len(played)), dpi=_DOTS)
    rows: list[Axes] = list(figure.subplots(len(played), 1, sharex=True, squeeze=False)[:, 0])
    for axes, figures in zip(rows, played, strict=True):
        _draw_row(axes, lost[figures.strategy], bins, figures)
    last = rows[-1]
    last.set_xscale("log")
    last.set_xlim(bins[0], bins[-1])
    last.xaxis.set_major_formatter(FuncFormatter(_span))
    last.tick_params(axis="x", length=4, colors=QUIET)
    last.set_xlabel("lost beyond the 83 ms of work, counted from the time at which a job is due", color=QUIET)
    _name(figure, "How late are jobs?", _played(tournament.report))
    figure.savefig(path)


def _how_good(figures: Figures) -> tuple[bool, float]:
    """Return what strategies are sorted by: who loses no job goes first."""
    return figures.completed < figures.jobs, math.inf if figures.efficient is None else figures.efficient


def _lost(evidence: Evidence) -> list[float]:
    return [max(delay - BEST_EFFICIENT, LEAST_LOST) for delay in delays_of(evidence).values()]


def _draw_row(axes: Axes, lost: Sequence[float], bins: Sequence[float], figures: Figures) -> None:
    """Draw one strategy's jobs by how late they were, and say above who it is."""
    colour = colour_of(figures.strategy)
    axes.hist(lost, bins=bins, color=colour)
    axes.set_ylim(bottom=0)
    axes.set_yticks([])
    _tidy(axes, "bottom")
    axes.tick_params(axis="x", which="both", length=0)
    said = "" if figures.efficient is None else f"EFFICIENT {figures.efficient:,.1f} ms · "
    above: dict[str, Any] = {"transform": axes.transAxes, "y": 1.04, "va": "bottom"}
    axes.text(x=0.0, s=strategy_words(figures.strategy), color=colour, weight="bold", **above)
    axes.text(
        x=1.0,
        s=f"{said}{jobs_words(figures)}",
        color=INK if figures.completed == figures.jobs else BAD,
        ha="right",
        **above,
    )


def draw_scores(report: Report, path: Path) -> None:
    """Draw cost against efficiency; beside the real game the published runs."""
    figure, axes, board = _scores_paper(comparable=report.comparable)
    for figures in report.strategies:
        _draw_strategy(axes, figures)
    _draw_floors(axes, report.seconds if report.mode is Mode.WORKERS else None)
    _name(figure, "What does it cost to be on time?", _played(report), board)
    figure.savefig(path)


def draw_runs(runs: Sequence[OwnRun], path: Path) -> None:
    """Draw the runs of a board of one's own: those that compare with the published ones, or else all."""
    comparable = any(run.comparable for run in runs)
    shown = [run for run in runs if run.cost and run.efficient and run.comparable >= comparable]
    figure, axes, board = _scores_paper(comparable=comparable)
    for strategy in dict.fromkeys(run.strategy for run in shown):
        points = [(run.cost, run.efficient or 0.0) for run in shown if run.strategy == strategy]
        _draw_points(axes, strategy, points).set_label(strategy_words(strategy))
    _draw_floors(axes, None)
    if shown:
        axes.legend(frameon=False, labelcolor=INK)
    _name(figure, "Your runs", counted(len(shown), "run"), board)
    figure.savefig(path)


def _scores_paper(*, comparable: bool) -> tuple[Figure, Axes, str]:
    """Return a figure with its axes, on which the published runs are if they compare, and what to say of them."""
    figure = Figure(figsize=(9, 6.4), dpi=_DOTS)
    axes = figure.subplots()
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.margins(x=0.12, y=0.1)
    if comparable:
        _draw_board(axes, [run for run in published() if run.keeps_the_rules])
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
        axis.set_minor_formatter(NullFormatter())
    axes.tick_params(which="both", colors=FAINT, labelcolor=QUIET)
    _tidy(axes, "left", "bottom")
    axes.set_xlabel("COST: what the database was asked (less is better)", color=QUIET)
    axes.set_ylabel("EFFICIENT: mean + deviation of the delay, ms (less is better)", color=QUIET)
    board = "grey: the published runs that kept the rules" if comparable else "no published run compares"
    return figure, axes, board


def _draw_board(axes: Axes, board: Sequence[Published]) -> None:
    costs, efficients = [run.cost for run in board], [run.efficient for run in board]
    axes.scatter(costs, efficients, s=36, color=PUBLISHED, alpha=0.55, linewidths=0, zorder=2)
    for run in board:
        if (run.runner, run.mode) in _NOTED:
            said, offset = _NOTED[run.runner, run.mode]
            _label(axes, (run.cost, run.efficient), said, offset, color=QUIET, fontsize=8.5)


def _draw_strategy(axes: Axes, figures: Figures) -> None:
    if figures.efficient is None or not figures.cost:
        return
    name, point = figures.strategy, (figures.cost, figures.efficient)
    _draw_points(axes, name, [point])
    said = f"{strategy_words(name)}\n{figures.cost:,} / {figures.efficient:,.1f} ms"
    if figures.completed < figures.jobs:
        said += f"\n{jobs_words(figures)}"
    _label(
        axes, point, said, OFFSETS.get(name, (0, 9)), color=colour_of(name), weight="bold", fontsize=9.5, zorder=5
    )


def _draw_points(axes: Axes, name: str, points: Sequence[tuple[float, float]]) -> PathCollection:
    return axes.scatter(
        [cost for cost, _ in points],
        [efficient for _, efficient in points],
        s=SIZES.get(name, SIZE),
        marker=MARKERS.get(name, CONTESTANT),
        color=colour_of(name),
        edgecolors="white",
        linewidths=1.2,
        zorder=4,
    )


def _draw_floors(axes: Axes, seconds: float | None) -> None:
    """Draw the best that is possible: for the delay always, for the cost of one game where instances stay."""
    low, high = axes.get_ylim()
    axes.set_ylim(min(low, 0.66 * BEST_EFFICIENT), high)
    line: dict[str, Any] = {"color": QUIET, "linewidth": 1, "linestyle": (0, (4, 4)), "zorder": 1}
    text: dict[str, Any] = {"color": QUIET, "fontsize": 8.5, "va": "top", "bbox": _PAPER}
    axes.axhline(BEST_EFFICIENT, **line)
    axes.text(
        0.99,
        0.96 * BEST_EFFICIENT,
        "the work itself: 83 ms",
        transform=axes.get_yaxis_transform(),
        ha="right",
        **text,
    )
    if seconds is not None:
        least = LIST_PRICE * math.ceil(seconds / BEST_PERIOD)
        axes.axvline(least, **line)
        said = f"fewest lists with none late: {least:,}"
        axes.text(1.03 * least, 0.99, said, transform=axes.get_xaxis_transform(), ha="left", **text)


def _label(axes: Axes, point: tuple[float, float], said: str, offset: tuple[float, float], **style: Any) -> None:
    """Write beside a point: to the side that the offset points to, or centred above or below it."""
    across, up = offset
    axes.annotate(
        said,
        point,
        xytext=offset,
        textcoords="offset points",
        ha="left" if across > 0 else "right" if across < 0 else "center",
        va="bottom" if up > 1 else "top" if up < -1 else "center",
        bbox={**_PAPER, "alpha": 0.6},
        **style,
    )


def _tidy(axes: Axes, *kept: str) -> None:
    """Leave of the frame what is needed, and a grid behind all else."""
    for side, spine in axes.spines.items():
        spine.set_visible(side in kept)
        spine.set_color(FAINT)
    axes.grid(axis="x" if kept == ("bottom",) else "both", color=FAINT, linewidth=0.8)
    axes.set_axisbelow(True)


def _played(report: Report) -> str:
    return f"{title(report)} · {report.played_at:%d %B %Y}"


def _name(figure: Figure, question: str, *more: str) -> None:
    """Write the title, what was played and what else is to say, and make room for it."""
    told = " · ".join(more)
    height = figure.get_figheight()
    figure.text(0.02, 1 - 0.16 / height, question, color=INK, weight="bold", fontsize=14, va="top")
    figure.text(0.02, 1 - 0.48 / height, told, color=QUIET, va="top")
    figure.tight_layout(rect=(0, 0, 1, 1 - 0.75 / height))


def _logarithmic(least: float, most: float) -> list[float]:
    first = math.log10(least)
    count = math.ceil((math.log10(most) - first) * BINS_PER_DECADE)
    return [10 ** (first + number / BINS_PER_DECADE) for number in range(count + 1)]


def _span(value: float, _: Any) -> str:
    return f"{value / 1000:g} s" if value >= 1000 else f"{value:g} ms"  # noqa: PLR2004 - a thousand
