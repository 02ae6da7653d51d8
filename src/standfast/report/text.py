"""A report as plain text: for terminals, and for mails. Pure."""

from collections.abc import Iterator, Sequence
from datetime import tzinfo

from standfast.report.cells import apps_words, said_briefly, span_words
from standfast.report.model import Report
from standfast.report.tables import Table, headline, tables_of

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
