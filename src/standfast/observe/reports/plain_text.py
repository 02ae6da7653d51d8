"""A report as plain text, for terminals; and as it is sent: short enough to be read, and for services to take."""

from collections.abc import Iterator, Sequence
from datetime import tzinfo
from typing import NamedTuple

from standfast.observe.reports.html_page import as_mail
from standfast.observe.reports.report import Report
from standfast.observe.reports.tables import Table, apps_words, headline, said_briefly, span_words, tables_of

_GAP = "  "


def as_text(report: Report, zone: tzinfo | None = None, most: int | None = None) -> str:
    """Return a report as lines, of each table `most` if that is said; those of empty tables are few."""
    return "\n".join(_lines(report, zone, most)) + "\n"


def _lines(report: Report, zone: tzinfo | None, most: int | None) -> Iterator[str]:
    yield f"{apps_words(report)}: {span_words(report, zone)}"
    yield headline(report)
    for table in tables_of(report, most):
        yield ""
        yield table.title
        yield from _table(table, zone)
        if table.note:
            yield f"{_GAP}{table.note}"
    if report.left_out:
        yield ""
        yield f"Not looked at: {'; '.join(report.left_out)}."


def _table(table: Table, zone: tzinfo | None) -> Iterator[str]:
    if not table.rows:
        yield f"{_GAP}{table.nothing}"
        return
    kinds = [kind for _, kind in table.columns]
    rows = [[said_briefly(cell, kind, zone) for cell, kind in zip(row, kinds, strict=True)] for row in table.rows]
    lines = [[name.upper() for name, _ in table.columns], *rows]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        yield _GAP + _aligned(line, widths, [kind.is_number for kind in kinds])


def _aligned(cells: Sequence[str], widths: Sequence[int], right: Sequence[bool]) -> str:
    told = (
        cell.rjust(width) if to_right else cell.ljust(width)
        for cell, width, to_right in zip(cells, widths, right, strict=True)
    )
    return _GAP.join(told).rstrip()


LONGEST_TEXT = 12_000  # characters: a service that takes little at once gets a dozen messages, not a hundred
LONGEST_HTML = 29_000  # characters: with the words around it it is one mail, which would be in pieces otherwise
_ROWS = (20, 10, 5, 2)
"""How many rows of each table are shown: the most that fit. Two always do, as texts in rows are cut."""


class Brief(NamedTuple):
    """A report with some rows of each table, which say what is left out: the same in both forms."""

    text: str
    html: str


def brief_of(report: Report, zone: tzinfo | None) -> Brief:
    """Return as much of a report as fits."""
    briefs = (Brief(as_text(report, zone, most), as_mail(report, zone, most)) for most in _ROWS)
    return next(each for each in briefs if len(each.text) <= LONGEST_TEXT and len(each.html) <= LONGEST_HTML)
