"""Moments as people write them: a date with its zone, or a span before or after now.

With `days` a date may stand alone: it is the first moment of its day in UTC.
"""

import re
from datetime import UTC, datetime

from standfast.clock import LATEST
from standfast.dashboard.refusals import WrongRequestError
from standfast.phrases import Phrase
from standfast.policy.problems import calendar_problems
from standfast.watch.spans import read_span

_SPAN = re.compile(r"([0-9.]+ ?(ms|s|min|m|h|d|w) ?)+")
_NUMBER = re.compile(r"[0-9]*\.?[0-9]+")
_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_FIRST = datetime(1970, 1, 2, tzinfo=UTC)


def is_bare_number(text: str) -> bool:
    """Tell whether a text is a number without a unit, which as a span means seconds."""
    return _NUMBER.fullmatch(text.strip()) is not None


def past(field: str, text: str | None, now: datetime, *, days: bool = False) -> datetime | None:
    """Return the moment that is meant, where a span is so long ago; None where nothing is said."""
    return _moment(field, text, now, -1, days=days) if text else None


def coming(field: str, text: str | None, now: datetime, *, days: bool = False) -> datetime | None:
    """Return the moment that is meant, where a span is from now on; None where nothing is said."""
    return _moment(field, text, now, 1, days=days) if text else None


def _moment(field: str, text: str, now: datetime, sign: int, *, days: bool) -> datetime:
    written = text.strip()
    if days and _DAY.fullmatch(written):
        written += "T00:00Z"
    if written == "now":
        return now
    try:
        moment = now + sign * read_span(written)
    except (OverflowError, ValueError):
        endless = _SPAN.fullmatch(written) is not None  # a span of more than a hundred years
        moment = (LATEST if sign > 0 else _FIRST) if endless else _date(field, written)
        for problem in calendar_problems(field, moment) if sign > 0 else ():
            raise WrongRequestError(problem) from None
    return min(max(moment, _FIRST), LATEST)


def _date(field: str, text: str) -> datetime:
    try:
        moment = datetime.fromisoformat(text)
        if moment.utcoffset() is not None:
            return moment.astimezone(UTC)
    except (ValueError, OverflowError):
        raise WrongRequestError(Phrase("refusal.no_moment", field=field, text=repr(text))) from None
    raise WrongRequestError(
        Phrase("refusal.no_zone", field=field, text=repr(text), example=f"{moment:%Y-%m-%dT%H:%M}Z")
    )
