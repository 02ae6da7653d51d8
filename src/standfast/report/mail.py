"""A report as the HTML of a mail, without scripts, and with nothing from elsewhere. Pure.

Mail programs drop style sheets, or parts of them: so looks are attributes of elements, older than all of them.
It is a part of a page: the words around it are of the message.
"""

from collections.abc import Iterator, Sequence
from datetime import tzinfo
from html import escape

from standfast.report.cells import apps_words, is_bad, said_briefly, span_words
from standfast.report.model import Report
from standfast.report.tables import As, Cell, Table, headline, tables_of

_SOFT, _GOOD, _BAD, _STRIPE = "#545e6d", "#15753f", "#b8243f", "#f1f3f6"


def as_mail(report: Report, zone: tzinfo | None = None, most: int | None = None) -> str:
    """Return a report as a part of a page, of each table `most` rows if that is said."""
    return "\n".join(_lines(report, zone, most)) + "\n"


def _lines(report: Report, zone: tzinfo | None, most: int | None) -> Iterator[str]:
    yield f"<h2>{escape(apps_words(report))}</h2>"
    yield f'<p style="color:{_SOFT}">{escape(span_words(report, zone))}</p>'
    yield f'<p style="color:{_GOOD if report.is_quiet else _BAD}"><b>{escape(headline(report))}</b></p>'
    for table in tables_of(report, most):
        yield from _table(table, zone)
    if report.left_out:
        yield f'<p style="color:{_SOFT}">Not looked at: {escape("; ".join(report.left_out))}.</p>'


def _table(table: Table, zone: tzinfo | None) -> Iterator[str]:
    yield f"<h3>{escape(table.title)}</h3>"
    if table.rows:
        heads = "".join(f'<th align="{_side(kind)}">{escape(name)}</th>' for name, kind in table.columns)
        yield '<table border="0" cellspacing="0" cellpadding="6" style="font-size:13px">'
        yield f"<tr>{heads}</tr>"
        yield from (_row(table.columns, row, zone, number) for number, row in enumerate(table.rows))
        yield "</table>"
    for words in ("" if table.rows else table.nothing, table.note):
        if words:
            yield f'<p style="color:{_SOFT}">{escape(words)}</p>'


def _row(columns: Sequence[tuple[str, As]], row: Sequence[Cell], zone: tzinfo | None, number: int) -> str:
    stripe = "" if number % 2 else f' bgcolor="{_STRIPE}"'
    cells = (_cell(cell, kind, zone) for (_, kind), cell in zip(columns, row, strict=True))
    return f'<tr valign="top"{stripe}>{"".join(cells)}</tr>'


def _cell(cell: Cell, kind: As, zone: tzinfo | None) -> str:
    shown = escape(said_briefly(cell, kind, zone))
    if is_bad(cell, kind):
        shown = f'<b style="color:{_BAD}">{shown}</b>'
    side = ' align="right"' if kind.is_number else ""
    whole = " nowrap" if kind.is_number or kind is As.TIME else ""
    return f"<td{side}{whole}>{shown}</td>"


def _side(kind: As) -> str:
    return "right" if kind.is_number else "left"
