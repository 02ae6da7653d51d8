"""The folder of a report, and that of a board."""

import logging
from collections.abc import Sequence
from pathlib import Path

from game.board import append_runs, read_runs
from game.result import own_runs
from game.tournament import Tournament

PAGE = "README.md"
WORKBOOK = "game.xlsx"
DELAYS = "delays.png"
SCORES = "cost-efficiency.png"
RUNS = "runs.jsonl"
"""All runs of a board, a line each."""


def prepare_report(folder: Path) -> None:
    """Make the folder: before a game, not after it."""
    folder.mkdir(parents=True, exist_ok=True)


def prepare_board(folder: Path) -> None:
    """Make the folder, and raise an error unless its board can be read and written."""
    prepare_report(folder)
    read_runs(folder / RUNS)


def write_report(tournaments: Sequence[Tournament], folder: Path) -> None:
    """Write the report into a folder that is there; an earlier one is replaced. All rounds are on one page."""
    logging.getLogger("matplotlib.font_manager").setLevel(logging.ERROR)  # its first use on a machine is no warning
    # Whoever plays without a report need not wait for matplotlib to load.
    from game.report.page import make_page  # noqa: PLC0415
    from game.report.pictures import draw_delays, draw_scores  # noqa: PLC0415
    from game.report.workbook import write_workbook  # noqa: PLC0415

    pages = []
    for tournament in tournaments:
        prefix = f"{tournament.report.mode}-" if len(tournaments) > 1 else ""
        delays, scores, workbook = (f"{prefix}{name}" for name in (DELAYS, SCORES, WORKBOOK))
        draw_delays(tournament, folder / delays)
        draw_scores(tournament.report, folder / scores)
        write_workbook(tournament, folder / workbook)
        pages.append(make_page(tournament.report, delays=delays, scores=scores, workbook=workbook))
    (folder / PAGE).write_text("\n".join(pages))


def write_board(tournaments: Sequence[Tournament], folder: Path) -> None:
    """Add the runs to the board of a folder that is there, and write its page, picture and workbook again."""
    append_runs(folder / RUNS, (run for tournament in tournaments for run in own_runs(tournament.report)))
    logging.getLogger("matplotlib.font_manager").setLevel(logging.ERROR)
    from game.report.page import make_board_page  # noqa: PLC0415 - as for a report
    from game.report.pictures import draw_runs  # noqa: PLC0415
    from game.report.workbook import write_board_workbook  # noqa: PLC0415

    runs = read_runs(folder / RUNS)
    draw_runs(runs, folder / SCORES)
    write_board_workbook(runs, folder / WORKBOOK)
    (folder / PAGE).write_text(make_board_page(runs, scores=SCORES, workbook=WORKBOOK))
