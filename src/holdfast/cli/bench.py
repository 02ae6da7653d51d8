"""`holdfast bench game`: play the scheduling game, and tell what came of it."""

from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec
from rich.text import Text

from holdfast.cli.connection import check_given_url, debug_option
from holdfast.cli.failures import ExitCode
from holdfast.cli.options import examples
from holdfast.cli.output import Column, number, say, say_heading, say_json, say_table
from holdfast.cli.progress import span_progress

if TYPE_CHECKING:  # the other commands must not pay for what a game needs
    from holdfast.bench.game.result import Figures, Report

BOUND_MISSED = 4
"""The exit code where all rules were kept, and a bound on a score was not."""

_MODES = ("workers", "hatest", "kill")
_STRATEGIES = ("ours", "naive", "lookahead", "all")
_PUBLISHED_INSTANCES = 5

_GAME_EPILOG = (
    examples(
        "holdfast bench game",
        "holdfast bench game --strategy all --report report",
        "holdfast bench game --mode kill --duration 60",
        "holdfast bench game --instances 2 --url postgresql://localhost/test --json",
    )
    + """

\b
Exit codes:
  0    all rules were kept, and our scores are within their bounds
  1    a rule was broken: a job not completed, doubled, early or more than 30 s late
  4    all rules were kept, but a score of ours is beyond its bound
"""
)


@click.group(epilog=examples("holdfast bench game --instances 5", "holdfast bench game --duration 30 --json"))
def bench() -> None:
    """Measure Holdfast by a game with published scores."""


@bench.command(epilog=_GAME_EPILOG)
@click.option(
    "--mode",
    type=click.Choice(_MODES),
    default="workers",
    help="Instances stay; come and go, stopped gracefully; or come and go, killed.",
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
    type=click.Choice(_STRATEGIES),
    default="ours",
    help="Who plays: Holdfast, a reference strategy, or all, one after the other.",
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
@debug_option
@click.pass_context
def game(
    ctx: click.Context,
    *,
    mode: str,
    instances: int,
    duration: float,
    seed: int,
    strategy: str,
    url: str | None,
    as_json: bool,
    report: Path | None,
) -> None:
    """Play the scheduling game, and compare the scores.

    Jobs are to start at their second, cheaply, from a database that tells nobody anything and counts what it is
    asked: some 1,750 over ten minutes, alone, in bursts and at random. COST is 100 for each list of jobs, EFFICIENT
    the mean plus the deviation of the delay in milliseconds. The runs published in 2019 are there to compare.
    """
    # The other commands must not pay for importing all that a game needs.
    from holdfast.bench.game.playing import Game, Moment  # noqa: PLC0415
    from holdfast.bench.game.report import prepare_report, write_report  # noqa: PLC0415
    from holdfast.bench.game.timetable import Mode  # noqa: PLC0415
    from holdfast.bench.game.tournament import ALL, run_tournament  # noqa: PLC0415

    if report is not None:
        prepare_report(report)
    strategies = ALL if strategy == "all" else (strategy,)
    with span_progress() as show:

        def tell(who: str, moment: Moment) -> None:
            show(who, f"{moment.run:,}/{moment.jobs:,} jobs", moment.elapsed, moment.seconds)

        tournament = run_tournament(Game(Mode(mode), instances, duration, seed), strategies, url, tell)
    if as_json:
        verdicts = tournament.report.verdicts
        say_json({"ok": all(verdict.holds for verdict in verdicts), **msgspec.structs.asdict(tournament.report)})
    else:
        tell_report(tournament.report)
    if report is not None:  # last: what was played for so long is told, whatever becomes of it
        write_report(tournament, report)
        if not as_json:
            say(f"\nThe report is in {report}.")
    ctx.exit(exit_code(tournament.report))


def exit_code(report: "Report") -> int:
    """Return what the exit code says of our strategy; others have nothing to prove."""
    missed = [verdict for verdict in report.verdicts if not verdict.holds]
    if any(verdict.rule for verdict in missed):
        return ExitCode.FAILED
    return BOUND_MISSED if missed else ExitCode.OK


def tell_report(report: "Report") -> None:
    """Print scores, where they stand, and verdicts."""
    from holdfast.bench.game.report.words import NOT_COMPARABLE, machine_words, standing_words, title  # noqa: PLC0415

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


def _columns() -> "list[Column[Figures]]":
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


def _completed(figures: "Figures") -> Text:
    style = "" if figures.completed == figures.jobs else "bold red"
    return Text(f"{figures.completed:,}/{figures.jobs:,}", style=style)
