"""The charts of the workbook, for those who want to look at the figures from another side."""

from typing import Any

from xlsxwriter.chart import Chart
from xlsxwriter.workbook import Workbook
from xlsxwriter.worksheet import Worksheet

from game.board import published
from game.report.rows import STEPS, Row, shares, spent
from game.report.style import FAINT, PUBLISHED, colour_of
from game.report.words import strategy_words
from game.result import Report, delays_of
from game.tournament import Tournament

_DATA = "Chart data"
_SIZE = {"width": 900, "height": 480}
_ROWS_APART = 25
_LINES = {"visible": True, "line": {"color": FAINT}}


class Charts:
    """Three charts on one sheet, one below the other; what they show is in columns of another."""

    def __init__(self, book: Workbook, sheet: Worksheet) -> None:
        self._book = book
        self._sheet = sheet
        self._data: Worksheet = book.add_worksheet(_DATA)
        self._columns = 0
        self._placed = 0

    def draw(self, tournament: Tournament) -> None:
        """Draw all."""
        self._draw_delays(tournament)
        self._draw_scores(tournament.report)
        self._draw_spending(tournament)

    def _draw_delays(self, tournament: Tournament) -> None:
        steps = self._column("up to, ms", [f"{step:,}" for step in STEPS])
        chart = self._book.add_chart({"type": "column"})
        for name, evidence in tournament.evidence.items():
            of_jobs = self._column(strategy_words(name), shares(list(delays_of(evidence).values())))
            chart.add_series(
                {
                    "name": strategy_words(name),
                    "categories": steps,
                    "values": of_jobs,
                    "fill": {"color": colour_of(name)},
                    "gap": 40,
                }
            )
        chart.set_x_axis({"name": "milliseconds, up to"})
        chart.set_y_axis({"name": "share of jobs, %", "major_gridlines": _LINES})
        self._place(chart, "Delay, the work of 83 ms included")

    def _draw_scores(self, report: Report) -> None:
        chart = self._book.add_chart({"type": "scatter"})
        if report.comparable:
            board = [run for run in published() if run.keeps_the_rules]
            self._add_points(chart, "published runs", [(run.cost, run.efficient) for run in board], PUBLISHED, 5)
        for figures in report.strategies:
            points: list[Row] = [(figures.cost, figures.efficient)]
            self._add_points(chart, strategy_words(figures.strategy), points, colour_of(figures.strategy), 12)
        least = 1000 if report.comparable else 100
        chart.set_x_axis({"name": "COST", "log_base": 10, "min": least, "major_gridlines": _LINES})
        chart.set_y_axis({"name": "EFFICIENT, ms", "log_base": 10, "min": 10, "major_gridlines": _LINES})
        self._place(chart, "Cost against efficiency")

    def _add_points(self, chart: Chart, name: str, points: list[Row], colour: str, size: int) -> None:
        chart.add_series(
            {
                "name": name,
                "categories": self._column(f"{name}: COST", [cost for cost, _ in points]),
                "values": self._column("EFFICIENT", [efficient for _, efficient in points]),
                "marker": {"type": "circle", "size": size, "fill": {"color": colour}, "border": {"color": "white"}},
            }
        )

    def _draw_spending(self, tournament: Tournament) -> None:
        chart = self._book.add_chart({"type": "scatter", "subtype": "straight"})
        for name, evidence in tournament.evidence.items():
            points = spent(evidence)
            chart.add_series(
                {
                    "name": strategy_words(name),
                    "categories": self._column("second", [at for at, _ in points]),
                    "values": self._column(f"{strategy_words(name)}: COST so far", [cost for _, cost in points]),
                    "line": {"color": colour_of(name), "width": 2},
                }
            )
        chart.set_x_axis({"name": "seconds", "min": 0})
        chart.set_y_axis({"name": "COST", "major_gridlines": _LINES})
        self._place(chart, "COST as the game goes on")

    def _column(self, name: str, values: list[Any]) -> list[Any]:
        """Write a column of data; return where it is, as a chart wants to be told."""
        column, self._columns = self._columns, self._columns + 1
        self._data.write(0, column, name)
        self._data.write_column(1, column, values)
        return [_DATA, 1, column, max(1, len(values)), column]

    def _place(self, chart: Chart, title: str) -> None:
        chart.set_title({"name": title, "name_font": {"size": 13}})
        chart.set_size(_SIZE)
        chart.set_legend({"position": "bottom"})
        self._sheet.insert_chart(self._placed * _ROWS_APART, 0, chart)
        self._placed += 1
