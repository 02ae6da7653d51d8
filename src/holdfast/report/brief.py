"""A report as it is sent: short enough to be read, for services to take, and for a job to carry. Pure."""

from datetime import tzinfo

from holdfast.report.model import Report
from holdfast.report.text import as_text

LONGEST_TEXT = 12_000
"""Characters: a service that takes little at once gets a dozen messages, not a hundred."""

_ROWS = (20, 10, 5, 2)
"""How many rows of each table are shown: the most that fit. Two always do, as texts in rows are cut."""


def brief_text(report: Report, zone: tzinfo | None) -> str:
    """Return a report with so many rows of each table as make a text of that length; it says what is left out."""
    texts = (as_text(report, zone, most) for most in _ROWS)
    return next(text for text in texts if len(text) <= LONGEST_TEXT)
