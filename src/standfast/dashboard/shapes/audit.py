"""What was done by whom."""

from datetime import datetime
from typing import Annotated

import msgspec

from standfast.dashboard.shapes.words import Asks, Limit, Told, Word
from standfast.phrases import Phrase

Place = Annotated[str, msgspec.Meta(max_length=20, extra_json_schema={"pattern": r"^(|[0-9]{1,9}\.[0-9]{1,3})$"})]


class AuditAsked(Asks, frozen=True, kw_only=True):
    """One page of what was done, the newest first; `before` is the `next` of the page before."""

    before: Place | None = None
    who: Word | None = None
    what: Word | None = None
    limit: Limit = 50


class EntrySeen(Told, frozen=True, kw_only=True):
    """Who did what, when, and how it was before and after."""

    at: datetime
    who: str
    what: str
    asked: dict[str, str]
    before: Phrase | None
    after: Phrase | None
    error: Phrase | None
    by: str


class AuditSeen(Told, frozen=True, kw_only=True):
    """What was done."""

    entries: tuple[EntrySeen, ...]
    next: str | None = None
