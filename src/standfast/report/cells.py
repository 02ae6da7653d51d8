"""Cells of a report in words. Pure."""

from datetime import datetime, timedelta, timezone, tzinfo

from standfast.objectives.words import burn, percent
from standfast.report.model import Report
from standfast.report.tables import As, Cell
from standfast.words import one_line, short_id, span

_WIDEST = 60
_WIDEST_SAYS = 100


def said(cell: Cell, kind: As, zone: tzinfo | None) -> str:
    """Return a cell as people read it; times by the clock of a zone, of this machine's where it is None."""
    match cell:
        case None:
            return ""
        case timedelta():
            return span(cell)
        case datetime():
            return _time(cell, zone)
        case float():
            return _share(cell, kind)
    return f"{cell:,}" if isinstance(cell, int) else cell


def said_briefly(cell: Cell, kind: As, zone: tzinfo | None) -> str:
    """Return a cell on one line that is not too long, and of an id the end."""
    words = said(cell, kind, zone)
    if kind is As.ID:
        return short_id(words)
    return one_line(words, _WIDEST_SAYS if kind is As.SAYS else _WIDEST)


def _time(at: datetime, zone: tzinfo | None) -> str:
    try:
        return f"{at.astimezone(zone):%Y-%m-%d %H:%M:%S}"
    except OverflowError:  # a job may be due since the year 1, when there is no local time west of Greenwich
        return f"{at:%Y-%m-%d %H:%M:%S} UTC"


def _share(number: float, kind: As) -> str:
    if kind is As.BURN:
        return burn(number)
    digits = 1 if kind is As.BUDGET else 3
    return f"−{percent(-number, digits)}" if number < 0 else percent(number, digits)


def is_bad(cell: Cell, kind: As) -> bool:
    """Tell whether a cell is to stand out: something went wrong that it counts."""
    if not isinstance(cell, int | float):
        return False
    return (kind is As.BAD and cell > 0) or (kind is As.BUDGET and cell < 0)


def apps_words(report: Report) -> str:
    """Return whose report it is, on one line that is not too long."""
    return one_line(", ".join(report.apps), _WIDEST_SAYS) or "Standfast"


def span_words(report: Report, zone: tzinfo | None) -> str:
    """Return the time that a report is about: `2026-03-04 07:00 to 2026-03-05 07:00 (Asia/Taipei)`."""
    begin, end = report.since.astimezone(zone), report.until.astimezone(zone)
    return f"{begin:%Y-%m-%d %H:%M} to {end:%Y-%m-%d %H:%M} ({_zone_words(end)})"


def _zone_words(at: datetime) -> str:
    """Return the name of a time's zone, or how far it is from UTC; CST would be that of Taipei, or of Chicago."""
    return getattr(at.tzinfo, "key", None) or str(timezone(at.utcoffset() or timedelta()))
