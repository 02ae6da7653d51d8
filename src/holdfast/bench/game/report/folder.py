"""The folder of a report."""

import logging
from importlib.util import find_spec
from pathlib import Path

from holdfast.bench.game.tournament import Tournament
from holdfast.errors import ConfigurationError

PAGE = "README.md"
WORKBOOK = "game.xlsx"
DELAYS = "delays.png"
SCORES = "cost-efficiency.png"

_TOOLS = ("xlsxwriter", "matplotlib")


def prepare_report(folder: Path) -> None:
    """Make the folder, and raise an error unless a report can be written: before a game, not after it."""
    missing = [tool for tool in _TOOLS if find_spec(tool) is None]
    if missing:
        raise ConfigurationError(
            f"--report needs {' and '.join(missing)}, not installed here: run pip install 'holdfast[bench]'"
        )
    folder.mkdir(parents=True, exist_ok=True)


def write_report(tournament: Tournament, folder: Path) -> None:
    """Write the report into a folder that is there; an earlier one is replaced."""
    logging.getLogger("matplotlib.font_manager").setLevel(logging.ERROR)  # its first use on a machine is no warning
    # Whoever plays without a report need not have them, nor wait for them to load.
    from holdfast.bench.game.report.page import make_page  # noqa: PLC0415
    from holdfast.bench.game.report.pictures import draw_delays, draw_scores  # noqa: PLC0415
    from holdfast.bench.game.report.workbook import write_workbook  # noqa: PLC0415

    draw_delays(tournament, folder / DELAYS)
    draw_scores(tournament.report, folder / SCORES)
    write_workbook(tournament, folder / WORKBOOK)
    (folder / PAGE).write_text(make_page(tournament.report, delays=DELAYS, scores=SCORES, workbook=WORKBOOK))
