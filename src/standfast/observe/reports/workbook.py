"""A report as a workbook: a sheet for each table, with numbers as numbers, spans in seconds."""

from datetime import datetime, timedelta, tzinfo
from io import BytesIO
from types import ModuleType
from typing import Any

from standfast.errors import ConfigurationError
from standfast.model.display import install
from standfast.observe.reports.report import Report
from standfast.observe.reports.tables import As, Cell, Table, headline, is_bad, said, span_words, tables_of

_FORMATS = {
    As.COUNT: "#,##0",
    As.BAD: "#,##0",
    As.SPAN: "#,##0.000",
    As.TIME: "yyyy-mm-dd hh:mm:ss",
    As.SHARE: "0.000%",
    As.BUDGET: "0.0%",
    As.BURN: "#,##0.0",
}
_WIDTHS = {As.TEXT: 36, As.SAYS: 80, As.ID: 40, As.TIME: 20}
_WIDTH = 14
_FIRST_YEAR = 1900  # workbooks know no time before it: such a one is a text
_PLAIN = {"strings_to_formulas": False, "strings_to_urls": False, "strings_to_numbers": False, "in_memory": True}
"""Texts are texts: an error that begins with = is no formula."""


def as_workbook(report: Report, zone: tzinfo | None = None) -> bytes:
    """Return a report as an xlsx file. Raises ConfigurationError where what writes it is not installed."""
    file = BytesIO()
    with _writer().Workbook(file, _PLAIN) as book:
        book.set_properties({"title": "Standfast report", "created": _local(report.until, zone)})
        _write_summary(book, report, zone)
        for table in tables_of(report):
            _Sheet(book, table).write(zone)
    return file.getvalue()


def _writer() -> ModuleType:
    try:
        import xlsxwriter  # noqa: PLC0415 - only who wants a workbook needs it
    except ModuleNotFoundError:
        raise ConfigurationError(
            f"a workbook needs xlsxwriter, not installed here: run {install('report')}, or choose html"
        ) from None
    module: ModuleType = xlsxwriter
    return module


def _local(at: datetime, zone: tzinfo | None) -> datetime:
    """Return a time as a workbook has it: without a zone."""
    return at.astimezone(zone).replace(tzinfo=None)


def _write_summary(book: Any, report: Report, zone: tzinfo | None) -> None:
    """Write the first sheet."""
    sheet = book.add_worksheet("summary")
    sheet.set_column(0, 0, 100)
    title = book.add_format({"bold": True, "font_size": 16})
    sheet.write_string(0, 0, ", ".join(report.apps) or "Standfast", title)
    notes = [table.note for table in tables_of(report) if table.note]
    left_out = [f"Not looked at: {words}." for words in report.left_out]
    lines = [span_words(report, zone), headline(report), *notes, "Spans are seconds.", *left_out]
    for row, line in enumerate(lines, 1):
        sheet.write_string(row, 0, line)


class _Sheet:
    """One table."""

    def __init__(self, book: Any, table: Table) -> None:
        self._table = table
        self._sheet = book.add_worksheet(table.name)
        self._head = book.add_format({"bold": True})
        self._formats = {
            (kind, bad): book.add_format(
                {"num_format": words, **({"bold": True, "font_color": "#b8243f"} if bad else {})}
            )
            for kind, words in _FORMATS.items()
            for bad in (False, True)
        }

    def write(self, zone: tzinfo | None) -> None:
        sheet, columns = self._sheet, self._table.columns
        sheet.freeze_panes(1, 0)
        for place, (name, kind) in enumerate(columns):
            sheet.set_column(place, place, _WIDTHS.get(kind, _WIDTH))
            sheet.write_string(0, place, name, self._head)
        for number, row in enumerate(self._table.rows, 1):
            for place, (cell, (_, kind)) in enumerate(zip(row, columns, strict=True)):
                self._write(number, place, cell, kind, zone)
        if self._table.rows:
            sheet.autofilter(0, 0, len(self._table.rows), len(columns) - 1)

    def _write(self, row: int, place: int, cell: Cell, kind: As, zone: tzinfo | None) -> None:
        look = self._formats.get((kind, is_bad(cell, kind)))
        match cell:
            case str():
                self._sheet.write_string(row, place, cell)
            case datetime() if cell.year <= _FIRST_YEAR:
                self._sheet.write_string(row, place, said(cell, kind, zone))
            case datetime():
                self._sheet.write_datetime(row, place, _local(cell, zone), look)
            case timedelta():
                self._sheet.write_number(row, place, cell.total_seconds(), look)
            case int() | float():
                self._sheet.write_number(row, place, cell, look)
