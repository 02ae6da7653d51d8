"""A report as one page of HTML: light and dark, wide and narrow, without scripts, with nothing from elsewhere."""

from collections.abc import Iterator, Sequence
from datetime import tzinfo
from html import escape

from standfast.observe.reports.report import Report
from standfast.observe.reports.tables import (
    As,
    Cell,
    Table,
    apps_words,
    headline,
    is_bad,
    said,
    said_briefly,
    span_words,
    tables_of,
)

_NOTHING_FROM_ELSEWHERE = "default-src 'none'; style-src 'unsafe-inline'"
_LONG = 24  # texts of more characters than these may be broken anywhere
_STYLE = """
:root { color-scheme: light dark; --ground: #f6f7f9; --card: #fff; --line: #e1e5eb; --ink: #171b22; --soft: #545e6d;
  --good: #15753f; --good-wash: #e2f4ea; --bad: #b8243f; --bad-wash: #fdebee; --track: #e6e9ee; }
@media (prefers-color-scheme: dark) { :root { --ground: #0d1015; --card: #14181f; --line: #252b36; --ink: #e7eaf0;
  --soft: #a3adbb; --good: #57c98c; --good-wash: #12301f; --bad: #ff8493; --bad-wash: #3b161d; --track: #232934; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--ground); color: var(--ink); font: 14px/1.5 system-ui, -apple-system, "Segoe UI",
  Roboto, "Noto Sans", sans-serif; font-variant-numeric: tabular-nums; }
main { max-width: 1200px; margin: 0 auto; padding: 32px 24px 64px; }
h1 { margin: 0; font-size: 22px; line-height: 32px; overflow-wrap: anywhere; }
h2 { margin: 0 0 8px; font-size: 15px; }
p { margin: 0; }
.span { color: var(--soft); }
.headline { display: inline-block; margin: 16px 0 24px; padding: 8px 16px; border-radius: 8px; font-weight: 600; }
.headline.good { color: var(--good); background: var(--good-wash); }
.headline.bad { color: var(--bad); background: var(--bad-wash); }
section { margin-bottom: 16px; padding: 16px; background: var(--card); border: 1px solid var(--line);
  border-radius: 12px; overflow-x: auto; }
table { width: 100%; border-collapse: collapse; }
th { padding: 4px 12px 4px 0; text-align: left; font-weight: 600; color: var(--soft); font-size: 12px;
  white-space: nowrap; vertical-align: bottom; }
td { padding: 6px 12px 6px 0; border-top: 1px solid var(--line); vertical-align: top; }
th:last-child, td:last-child { padding-right: 0; }
.number { text-align: right; white-space: nowrap; }
.time { white-space: nowrap; }
.long { overflow-wrap: anywhere; min-width: 180px; }
td.bad, #now ~ table td:first-child { color: var(--bad); font-weight: 600; }
.nothing, .zero, .note { color: var(--soft); }
.note { margin-top: 8px; }
.bar { display: block; width: 96px; height: 6px; margin: 4px 0 0 auto; }
.bar .track { fill: var(--track); } .bar .good { fill: var(--good); } .bar .bad { fill: var(--bad); }
@media (max-width: 720px) {
  main { padding: 16px 12px 32px; }
  thead { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); }
  table, tbody, tr, td { display: block; }
  tr { padding: 8px 0; border-top: 1px solid var(--line); }
  td, td:last-child { display: flex; justify-content: space-between; gap: 16px; padding: 2px 0; border: 0;
    text-align: right; white-space: normal; }
  td.empty { display: none; }
  td::before { content: attr(data-name); flex: none; color: var(--soft); font-weight: 400; }
  .long { min-width: 0; }
}
@media print { body { background: #fff; } section { break-inside: avoid; } }
"""


def as_page(report: Report, zone: tzinfo | None = None) -> str:
    """Return a report as a page; times are by the clock of a zone, of this machine's where it is None."""
    return "\n".join(_lines(report, zone)) + "\n"


def _lines(report: Report, zone: tzinfo | None) -> Iterator[str]:
    name = ", ".join(report.apps) or "Standfast"
    yield "<!doctype html>"
    yield '<html lang="en">'
    yield f'<head><meta charset="utf-8"><title>{escape(name)}: report</title>'
    yield f'<meta http-equiv="Content-Security-Policy" content="{_NOTHING_FROM_ELSEWHERE}">'
    yield '<meta name="viewport" content="width=device-width, initial-scale=1">'
    yield f"<style>{_STYLE}</style></head>"
    yield f'<body><main><h1>{escape(name)}</h1><p class="span">{escape(span_words(report, zone))}</p>'
    yield f'<p class="headline {"good" if report.is_quiet else "bad"}">{escape(headline(report))}</p>'
    for table in tables_of(report):
        yield from _section(table, zone)
    if report.left_out:
        yield f'<p class="nothing">Not looked at: {escape("; ".join(report.left_out))}.</p>'
    yield "</main></body></html>"


def _section(table: Table, zone: tzinfo | None) -> Iterator[str]:
    yield f'<section aria-labelledby="{table.name}"><h2 id="{table.name}">{escape(table.title)}</h2>'
    if table.rows:
        heads = "".join(
            f'<th scope="col" class="{_kind(kind)}">{escape(name)}</th>' for name, kind in table.columns
        )
        yield f"<table><thead><tr>{heads}</tr></thead><tbody>"
        yield from (_row(table.columns, row, zone) for row in table.rows)
        yield "</tbody></table>"
    else:
        yield f'<p class="nothing">{escape(table.nothing)}</p>'
    if table.note:
        yield f'<p class="note">{escape(table.note)}</p>'
    yield "</section>"


def _row(columns: Sequence[tuple[str, As]], row: Sequence[Cell], zone: tzinfo | None) -> str:
    cells = (_cell(name, cell, kind, zone) for (name, kind), cell in zip(columns, row, strict=True))
    return f"<tr>{''.join(cells)}</tr>"


def _cell(name: str, cell: Cell, kind: As, zone: tzinfo | None) -> str:
    words = said(cell, kind, zone)
    looks = [_kind(kind)]
    if not words:
        looks.append("empty")
    elif is_bad(cell, kind):
        looks.append("bad")
    elif cell == 0 and kind in {As.COUNT, As.BAD}:
        looks.append("zero")
    elif kind in {As.TEXT, As.SAYS, As.ID} and len(words) > _LONG:
        looks.append("long")
    bar = _bar(cell) if kind is As.BUDGET and isinstance(cell, float) else ""
    return f'<td class="{" ".join(looks)}" data-name="{escape(name)}"><span>{escape(words)}{bar}</span></td>'


def _kind(kind: As) -> str:
    return "number" if kind.is_number else kind.value


def _bar(left: float) -> str:
    """Return a bar of what is left of a budget; one that is overdrawn is full, and red."""
    look, width = ("bad", 100.0) if left < 0 else ("good", 100 * min(left, 1.0))
    return (
        '<svg class="bar" viewBox="0 0 100 6" preserveAspectRatio="none" aria-hidden="true">'
        f'<rect class="track" width="100" height="6"/><rect class="{look}" width="{width:.1f}" height="6"/></svg>'
    )


_SOFT, _GOOD, _BAD, _STRIPE = "#545e6d", "#15753f", "#b8243f", "#f1f3f6"


def as_mail(report: Report, zone: tzinfo | None = None, most: int | None = None) -> str:
    """Return a report as the HTML of a mail, a part of a page; of each table `most` rows if that is said.

    Mail programs drop style sheets, or parts of them: so looks are attributes of elements, older than all of them.
    """
    return "\n".join(_mail_lines(report, zone, most)) + "\n"


def _mail_lines(report: Report, zone: tzinfo | None, most: int | None) -> Iterator[str]:
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
        yield from (_mail_row(table.columns, row, zone, number) for number, row in enumerate(table.rows))
        yield "</table>"
    for words in ("" if table.rows else table.nothing, table.note):
        if words:
            yield f'<p style="color:{_SOFT}">{escape(words)}</p>'


def _mail_row(columns: Sequence[tuple[str, As]], row: Sequence[Cell], zone: tzinfo | None, number: int) -> str:
    stripe = "" if number % 2 else f' bgcolor="{_STRIPE}"'
    cells = (_mail_cell(cell, kind, zone) for (_, kind), cell in zip(columns, row, strict=True))
    return f'<tr valign="top"{stripe}>{"".join(cells)}</tr>'


def _mail_cell(cell: Cell, kind: As, zone: tzinfo | None) -> str:
    shown = escape(said_briefly(cell, kind, zone))
    if is_bad(cell, kind):
        shown = f'<b style="color:{_BAD}">{shown}</b>'
    side = ' align="right"' if kind.is_number else ""
    whole = " nowrap" if kind.is_number or kind is As.TIME else ""
    return f"<td{side}{whole}>{shown}</td>"


def _side(kind: As) -> str:
    return "right" if kind.is_number else "left"
