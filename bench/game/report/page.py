"""The page of a report, in Markdown. Pure."""

from collections.abc import Iterator, Sequence

from game.board import OwnRun
from game.report.words import NOT_COMPARABLE, machine_words, milliseconds, standing_words, strategy_words, title
from game.result import OURS, Figures, Report

_HEADER = (
    "strategy | COST | with membership | lists | lost | reads | EFFICIENT (ms) | mean | stdev | p99 | longest"
    " | early | late | completed | started again | doubled"
)

_BOARD_HEADER = (
    "played, UTC | strategy | mode | jobs over, s | seed | period, s | COST | EFFICIENT (ms) | mean | stdev | lists"
    " | lost | reads | early | late | doubled | completed | rank of COST | rank of EFFICIENT"
)

_SCORES = """\
COST is 100 for each list, 10 for each lock or completion lost to another, 1 for each look at a job; with
membership, beats and the like are in it at 1 each. EFFICIENT is the mean plus the standard deviation of the time
from when a job is due to when its work of 83 ms is done."""


def make_page(report: Report, *, delays: str, scores: str, workbook: str) -> str:
    """Return the page; the others are the names of the files beside it."""
    return "\n".join(_lines(report, delays, scores, workbook)) + "\n"


def make_board_page(runs: Sequence[OwnRun], *, scores: str, workbook: str) -> str:
    """Return the page of a board of one's own."""
    lines = [
        "# The scheduling game: a board of your own runs",
        "",
        *_table(_BOARD_HEADER, [_board_row(run) for run in runs]),
        "",
        "A rank is the place among the published runs that kept the rules. A run without one was not the game as",
        "published, or broke a rule itself.",
        "",
        f"![Cost against efficiency of your runs and the published ones]({scores})",
        "",
        f"[The workbook]({workbook}) has your runs and the published ones.",
    ]
    return "\n".join(lines) + "\n"


def _board_row(run: OwnRun) -> str:
    standing = run.standing
    places = (standing.cost, standing.efficient) if standing is not None else (None, None)
    cells = (
        f"{run.played_at:%Y-%m-%d %H:%M}",
        strategy_words(run.strategy),
        run.mode,
        *(f"{number:g}" for number in (run.duration, run.seed, run.period)),
        f"{run.cost:,}",
        *map(milliseconds, (run.efficient, run.mean, run.stdev)),
        *(f"{number:,}" for number in (run.lists, run.lost, run.reads, run.early, run.late, run.doubled)),
        f"{run.completed:,} of {run.jobs:,}",
        *("–" if place is None else f"{place.rank} of {place.of}" for place in places),
    )
    return " | ".join(cells)


def _lines(report: Report, delays: str, scores: str, workbook: str) -> Iterator[str]:
    yield f"# The scheduling game: {title(report)}"
    yield ""
    yield f"Played on {report.played_at:%d %B %Y, %H:%M} UTC, {report.seconds:,.0f} s from start to end, with"
    yield f"`{_command(report)}`."
    if not report.comparable:
        yield f"**{NOT_COMPARABLE}**"
    yield ""
    yield from _table(_HEADER, [_row(figures) for figures in report.strategies])
    yield ""
    yield _SCORES
    yield ""
    yield from _verdicts(report)
    yield "## How late"
    yield ""
    yield f"![How long after their time jobs had run, beyond the work itself, by strategy]({delays})"
    yield ""
    yield "## What it costs to be on time"
    yield ""
    yield f"![Cost against efficiency of each strategy]({scores})"
    yield ""
    yield f"[The workbook]({workbook}) has every job and every call."
    yield ""
    yield "## Where"
    yield ""
    yield from _table("what | is", list(_surroundings(report)))


def _command(report: Report) -> str:
    words = f"python -m game --mode {report.mode} --instances {report.instances} --duration {report.duration:g}"
    strategies = "".join(f" --strategy {figures.strategy}" for figures in report.strategies)
    return f"{words} --seed {report.seed} --period {report.period:g}{strategies}"


def _verdicts(report: Report) -> Iterator[str]:
    ours = next((figures for figures in report.strategies if figures.strategy == OURS), None)
    if ours is None:
        return
    yield f"## {strategy_words(OURS)}"
    yield ""
    for verdict in ours.verdicts:
        yield f"- {'✓' if verdict.holds else '✗'} {verdict.says}"
    if ours.standing is not None:
        yield ""
        for line in standing_words(ours.standing):
            yield f"- {line}"
    yield ""


def _row(figures: Figures) -> str:
    return " | ".join(
        [
            strategy_words(figures.strategy),
            *(f"{number:,}" for number in (figures.cost, figures.cost_with_membership, figures.lists)),
            *(f"{number:,}" for number in (figures.lost, figures.reads)),
            *map(milliseconds, (figures.efficient, figures.mean, figures.stdev, figures.p99, figures.longest)),
            *(f"{number:,}" for number in (figures.early, figures.late)),
            f"{figures.completed:,} of {figures.jobs:,}",
            *(f"{number:,}" for number in (figures.restarted, figures.doubled)),
        ]
    )


def _surroundings(report: Report) -> Iterator[str]:
    yield f"machine | {machine_words(report.machine)}"
    yield f"store of Standfast | {report.store}, passive: it tells nobody anything, and counts what it is asked"
    yield f"settings of Standfast | {', '.join(f'{name} {value:g}' for name, value in report.settings.items())}"
    started = [f"{strategy_words(one.strategy)} {one.instances:,}" for one in report.strategies]
    killed = [f"{strategy_words(one.strategy)} {one.killed:,}" for one in report.strategies]
    yield f"instances started | {', '.join(started)}"
    if report.mode.kills:
        yield f"of these killed | {', '.join(killed)}"


def _table(header: str, rows: list[str]) -> Iterator[str]:
    yield f"| {header} |"
    yield f"|{'---|' * len(header.split(' | '))}"
    for row in rows:
        yield f"| {row} |"
