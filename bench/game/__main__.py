"""`make game`, or `python -m game`: play the scheduling game, and tell what came of it."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import click
import msgspec
from rich.text import Text

from game.playing import Game, Moment
from game.reference.strategies import find_strategy
from game.report import prepare_board, prepare_report, write_board, write_report
from game.report.words import NOT_COMPARABLE, machine_words, standing_words, title
from game.result import Figures, Report
from game.timetable import Mode, leaving
from game.tournament import ALL, run_tournament
from standfast.cli.connection import check_given_url, debug_option, examples
from standfast.cli.exit_codes import DEBUG, ExitCode, report_failures
from standfast.cli.output import Column, number, say, say_heading, say_json, say_table, span_progress
from standfast.hosts.loader import load_module

BOUND_MISSED = 4
"""The exit code where all rules were kept, and a bound on a score was not."""

_ROUNDS: dict[str, tuple[str, ...]] = {
    **{mode: (mode,) for mode in ("workers", "hatest", "kill", "reliability")},
    "both": ("reliability", "workers"),
}
"""What is played, one after the other, by the word for --mode."""

_STRATEGIES = ("ours", "naive", "lookahead", "separate", "all")
_PUBLISHED_INSTANCES = 5

_EPILOG = (
    examples(
        "make game",
        'make game ARGS="--strategy all --report report"',
        'make game ARGS="--mode both --strategy mine:Mine --board runs"',
        'make game ARGS="--mode kill --duration 60"',
        'make game ARGS="--instances 2 --url postgresql://localhost/test --json"',
    )
    + """

\b
Exit codes:
  0    all rules were kept, and our scores are within their bounds
  1    a rule was broken: a job not completed, doubled, early or more than 30 s late
  4    all rules were kept, but a score of ours is beyond its bound
"""
)


def check_strategies(_ctx: click.Context, _parameter: click.Parameter, names: tuple[str, ...]) -> tuple[str, ...]:
    """Refuse what cannot play, before the game; a contestant's module is imported for it."""
    for name in names:
        if ":" in name:
            load_module(name, "", "run from the folder that holds it")
            find_strategy(name)
        elif name not in _STRATEGIES:
            known = ", ".join(f"'{each}'" for each in _STRATEGIES)
            raise click.BadParameter(f"'{name}' is not one of {known}, and not MODULE:CLASS")
    return names


class _InOneLine(click.Command):
    """A command that says in one line what went wrong."""

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        """Read the options."""
        with report_failures({DEBUG: "--debug" in args}):
            return super().make_context(info_name, args, parent, **extra)

    def invoke(self, ctx: click.Context) -> Any:
        """Play."""
        with report_failures(ctx.meta):
            return super().invoke(ctx)


_SETTINGS = {"help_option_names": ["-h", "--help"], "show_default": True}


@click.command(cls=_InOneLine, epilog=_EPILOG, context_settings=_SETTINGS)
@click.option(
    "--mode",
    type=click.Choice(tuple(_ROUNDS)),
    default="workers",
    help="Instances stay; come and go, stopped gracefully, or killed; three of five are stopped or killed for good;"
    " or that, and then a round in which they stay.",
)
@click.option(
    "--instances",
    type=click.IntRange(1, 99),
    default=_PUBLISHED_INSTANCES,
    metavar="N",
    help="How many, each a real process.",
)
@click.option(
    "--duration",
    type=click.FloatRange(min=10, max=86_400),
    default=600.0,
    metavar="SECONDS",
    help="How long jobs are due. Only 600 compares with what was published.",
)
@click.option("--seed", type=int, default=1, help="Decides what is random.")
@click.option(
    "--strategy",
    "strategies",
    multiple=True,
    default=("ours",),
    metavar=f"[{'|'.join(_STRATEGIES)}|MODULE:CLASS]",
    callback=check_strategies,
    help="Who plays: Standfast, another strategy, one of your own, or all. May be given several times.",
)
@click.option(
    "--period",
    type=click.FloatRange(min=0.1, max=60),
    default=10.0,
    metavar="SECONDS",
    help="How often strategies other than ours look for jobs.",
)
@click.option(
    "--url",
    metavar="URL",
    callback=check_given_url,
    help="The store of our jobs, in a namespace of their own that stays.  [default: a temporary SQLite file]",
)
@click.option("--json", "as_json", is_flag=True, help="Answer in JSON.")
@click.option(
    "--report",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="FOLDER",
    help="Write a page, pictures and a workbook there.",
)
@click.option(
    "--board",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="FOLDER",
    help="Add the scores to the board of your own runs there.",
)
@debug_option
@click.pass_context
def game(
    ctx: click.Context,
    *,
    mode: str,
    instances: int,
    duration: float,
    seed: int,
    strategies: tuple[str, ...],
    period: float,
    url: str | None,
    as_json: bool,
    report: Path | None,
    board: Path | None,
) -> None:
    """Play the scheduling game, and compare the scores.

    Jobs are to start at their second, cheaply, from a database that tells nobody anything and counts what it is
    asked: some 1,750 over ten minutes, alone, in bursts and at random. COST is 100 for each list of jobs, EFFICIENT
    the mean plus the deviation of the delay in milliseconds. The runs published in 2019 are there to compare.
    """
    if report is not None:
        prepare_report(report)
    if board is not None:
        prepare_board(board)
    rounds = _ROUNDS[mode]
    if Mode.RELIABILITY in rounds and not leaving(instances):
        raise click.UsageError(f"--mode {mode} takes two instances or more: one has to take over")
    players = tuple(dict.fromkeys(each for name in strategies for each in (ALL if name == "all" else (name,))))
    with span_progress() as show:

        def tell(mode: Mode, who: str, moment: Moment) -> None:
            show(f"{mode} {who}", f"{moment.run:,}/{moment.jobs:,} jobs", moment.elapsed, moment.seconds)

        games = [Game(Mode(each), instances, duration, seed, period) for each in rounds]
        tournaments = [run_tournament(game, players, url, partial(tell, game.mode)) for game in games]
    reports = [tournament.report for tournament in tournaments]
    _tell_all(reports, as_json=as_json)
    written = {"report": (report, write_report), "board": (board, write_board)}
    for name, (
        folder,
        write,
    ) in written.items():  # last: what was played for so long is told, whatever becomes of it
        if folder is not None:
            write(tournaments, folder)
            if not as_json:
                say(f"\nThe {name} is in {folder}.")
    ctx.exit(exit_code(*reports))


def _tell_all(reports: Sequence[Report], *, as_json: bool) -> None:
    if as_json:
        told = [msgspec.structs.asdict(report) for report in reports]
        say_json({"ok": exit_code(*reports) == 0, **(told[0] if len(told) == 1 else {"rounds": told})})
        return
    for report in reports:
        tell_report(report)


def exit_code(*reports: Report) -> int:
    """Return what the exit code says of our strategy; others have nothing to prove."""
    missed = [verdict for report in reports for verdict in report.verdicts if not verdict.holds]
    if any(verdict.rule for verdict in missed):
        return ExitCode.FAILED
    return BOUND_MISSED if missed else ExitCode.OK


def tell_report(report: Report) -> None:
    """Print scores, where they stand, and verdicts."""
    say(f"The scheduling game: {title(report)}, {report.seconds:,.0f} s from start to end, seed {report.seed}.")
    say(Text(f"Ours: {', '.join(f'{name} {value:g}' for name, value in report.settings.items())}.", style="dim"))
    say(Text(f"{machine_words(report.machine)}.", style="dim"))
    if not report.comparable:
        say(Text(NOT_COMPARABLE, style="yellow"))
    say("")
    say_table(report.strategies, _columns())
    for figures in report.strategies:
        if figures.standing is not None:
            say_heading(f"{figures.strategy} on the published board")
            for line in standing_words(figures.standing):
                say(f"  {line}")
    if report.verdicts:
        say_heading("Verdicts on ours")
        for verdict in report.verdicts:
            mark = Text("  ✓ ", style="green") if verdict.holds else Text("  ✗ ", style="bold red")
            say(mark.append(verdict.says, style="none" if verdict.holds else "bold red"))


def _columns() -> list[Column[Figures]]:
    return [
        Column("STRATEGY", lambda figures: Text(figures.strategy, style="bold")),
        Column("COST", lambda figures: number(figures.cost), justify="right", vital=3),
        Column("+BEATS", lambda figures: number(figures.cost_with_membership), justify="right"),
        Column("EFFICIENT", lambda figures: _delay(figures.efficient), justify="right", vital=3),
        Column("MEAN", lambda figures: _delay(figures.mean), justify="right", vital=1),
        Column("STDEV", lambda figures: _delay(figures.stdev), justify="right", vital=1),
        Column("P99", lambda figures: _delay(figures.p99), justify="right"),
        Column("EARLY", lambda figures: number(figures.early, "bold red"), justify="right", vital=2),
        Column("LATE", lambda figures: number(figures.late, "bold red"), justify="right", vital=2),
        Column("TWICE", lambda figures: number(figures.doubled, "bold red"), justify="right", vital=2),
        Column("COMPLETED", _completed, justify="right", vital=2),
    ]


def _delay(milliseconds: float | None) -> str:
    return "–" if milliseconds is None else f"{milliseconds:,.2f}"


def _completed(figures: Figures) -> Text:
    style = "" if figures.completed == figures.jobs else "bold red"
    return Text(f"{figures.completed:,}/{figures.jobs:,}", style=style)


if __name__ == "__main__":
    game.main(prog_name="game")
