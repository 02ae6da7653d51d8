"""The workbook of a report: a summary, charts, every job, every call, every instance, and the published board."""

from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec
import xlsxwriter
from xlsxwriter.workbook import Workbook
from xlsxwriter.worksheet import Worksheet

from game.board import OwnRun, Published, published
from game.report.charts import Charts
from game.report.rows import CALLS, INSTANCES, JOBS, Row, call_rows, instance_rows, job_rows
from game.report.style import BAD, GOOD
from game.report.words import NOT_COMPARABLE, machine_words, standing_words, strategy_words, title
from game.result import Figures, Report
from game.tournament import Tournament

_FIGURES = {
    "cost": "COST",
    "cost_with_membership": "COST with membership",
    "lists": "lists",
    "lost": "lost to others",
    "reads": "looks at a job",
    "membership": "beats and the like",
    "efficient": "EFFICIENT, ms",
    "mean": "mean delay, ms",
    "stdev": "standard deviation, ms",
    "median": "median, ms",
    "p99": "99 of 100 within, ms",
    "longest": "longest, ms",
    "efficient_stored": "EFFICIENT until stored, ms",
    "jobs": "jobs",
    "completed": "completed",
    "early": "started early",
    "late": "more than 30 s late",
    "restarted": "caught by a kill and started again",
    "doubled": "doubled",
    "instances": "instances started",
    "killed": "instances killed",
}
"""The figures of the summary, with their names for people."""


def write_workbook(tournament: Tournament, path: Path) -> None:
    """Write it."""
    report = tournament.report
    with xlsxwriter.Workbook(str(path)) as book:
        book.set_properties({"title": "The scheduling game", "created": report.played_at.replace(tzinfo=None)})
        _Summary(book).write(report)
        charts = book.add_worksheet("Charts")
        _add_table(book, "Jobs", JOBS, job_rows(tournament))
        _add_table(book, "Calls", CALLS, call_rows(tournament))
        _add_table(book, "Instances", INSTANCES, instance_rows(tournament))
        _add_published(book)
        Charts(book, charts).draw(tournament)


def write_board_workbook(runs: Sequence[OwnRun], path: Path) -> None:
    """Write that of a board of one's own: its runs and the published ones."""
    with xlsxwriter.Workbook(
        str(path), {"default_date_format": "yyyy-mm-dd hh:mm", "remove_timezone": True}
    ) as book:
        book.set_properties({"title": "The scheduling game: a board"})
        _add_table(book, "Runs", OwnRun.__struct_fields__, map(msgspec.structs.astuple, runs))
        _add_published(book)


def _add_published(book: Workbook) -> None:
    _add_table(book, "Published", Published.__struct_fields__, map(msgspec.structs.astuple, published()))


def _add_table(book: Workbook, name: str, columns: Sequence[str], rows: Iterable[Row]) -> None:
    sheet = book.add_worksheet(name)
    sheet.freeze_panes(1, 0)
    sheet.set_column(0, 0, 26)
    sheet.set_column(1, len(columns) - 1, 16)
    sheet.write_row(0, 0, columns, book.add_format({"bold": True}))
    last = 1
    for last, row in enumerate(rows, 1):
        sheet.write_row(last, 0, row)
    sheet.autofilter(0, 0, last, len(columns) - 1)


class _Summary:
    """The first sheet: what was played, the figures, and what they show."""

    def __init__(self, book: Workbook) -> None:
        self._sheet: Worksheet = book.add_worksheet("Summary")
        self._title = book.add_format({"bold": True, "font_size": 16})
        self._bold = book.add_format({"bold": True})
        self._broken = book.add_format({"num_format": "#,##0.00"})
        self._whole = book.add_format({"num_format": "#,##0"})
        self._verdict = {
            True: book.add_format({"font_color": GOOD, "bold": True}),
            False: book.add_format({"font_color": BAD, "bold": True}),
        }
        self._row = 0

    def write(self, report: Report) -> None:
        self._sheet.hide_gridlines(2)
        self._sheet.set_column(0, 0, 36)
        self._sheet.set_column(1, len(report.strategies), 26)
        self._add(f"The scheduling game: {title(report)}", style=self._title)
        self._add(f"{report.played_at:%d %B %Y, %H:%M} UTC, seed {report.seed}, store: {report.store}")
        self._add(f"{machine_words(report.machine)}")
        self._add(f"settings: {', '.join(f'{name} {value:g}' for name, value in report.settings.items())}")
        if not report.comparable:
            self._add(NOT_COMPARABLE, style=self._verdict[False])
        self._row += 1
        self._add("", *(strategy_words(figures.strategy) for figures in report.strategies), style=self._bold)
        for name, words in _FIGURES.items():
            self._add(words, *(getattr(figures, name) for figures in report.strategies))
        for figures in report.strategies:
            self._row += 1
            self._tell(figures)

    def _tell(self, figures: Figures) -> None:
        self._add(strategy_words(figures.strategy), style=self._bold)
        for verdict in figures.verdicts:
            self._sheet.write(self._row, 1, "yes" if verdict.holds else "no", self._verdict[verdict.holds])
            self._add(verdict.says)
        for line in standing_words(figures.standing) if figures.standing else ():
            self._add(line)

    def _add(self, *cells: str | float | None, style: object = None) -> None:
        for column, cell in enumerate(cells):
            if isinstance(cell, int | float):
                self._sheet.write_number(
                    self._row, column, cell, self._whole if isinstance(cell, int) else self._broken
                )
            else:
                self._sheet.write(self._row, column, "–" if cell is None else cell, style)
        self._row += 1
