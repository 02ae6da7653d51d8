"""A report as it is sent: short enough to be read, for services to take, and for a job to carry. Pure."""

from datetime import tzinfo
from typing import NamedTuple

from standfast.report.mail import as_mail
from standfast.report.model import Report
from standfast.report.text import as_text

LONGEST_TEXT = 12_000
"""Characters: a service that takes little at once gets a dozen messages, not a hundred."""

LONGEST_HTML = 29_000
"""Characters: with the words around it it is one mail, which would be in pieces otherwise."""

_ROWS = (20, 10, 5, 2)
"""How many rows of each table are shown: the most that fit. Two always do, as texts in rows are cut."""


class Brief(NamedTuple):
    """A report with some rows of each table, which say what is left out: the same in both forms."""

    text: str
    html: str

    @property
    def fits(self) -> bool:
        """Whether both forms are as short as they have to be."""
        return len(self.text) <= LONGEST_TEXT and len(self.html) <= LONGEST_HTML


def brief_of(report: Report, zone: tzinfo | None) -> Brief:
    """Return as much of a report as fits."""
    briefs = (Brief(as_text(report, zone, most), as_mail(report, zone, most)) for most in _ROWS)
    return next(brief for brief in briefs if brief.fits)
