"""A limit on how many attempts run at a time, lower in its peak hours. Pure."""

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import msgspec

from standfast.errors import ConfigurationError
from standfast.policy.reading import is_int
from standfast.schedule.window import Span, Window

Peaks = Mapping[Window, int]
"""How many may run at a time inside each of some windows, which do not overlap."""

_EXAMPLE = 'as in peak={Window("09:00", "18:00", tz="Asia/Taipei"): 1}'
_ANY_MOMENT = datetime(2023, 12, 31, tzinfo=UTC)
_COMPARED = timedelta(days=400)
"""Windows that overlap do so within these."""


class Limit(msgspec.Struct, frozen=True):
    """So many at most, and inside a window of the peaks fewer. `most` is None where only the peaks limit."""

    most: int | None
    peaks: tuple[tuple[Window, int], ...] = ()

    def at(self, moment: datetime) -> int | None:
        """Return how many may run at a moment."""
        return next((number for window, number in self.peaks if window.span_at(moment)), self.most)

    def changes_after(self, moment: datetime) -> datetime | None:
        """Return when a peak begins or ends next, if there are any."""
        return min((change for window, _ in self.peaks if (change := _next_change(window, moment))), default=None)


def declare_limit(what: str, most: Any, peak: Any, *, field: str = "concurrency") -> Limit:
    """Return a checked limit of `what`, as people are told. Raises ConfigurationError."""
    if most is not None:
        _check_number(what, field, most)
    if peak is None:
        return Limit(most)
    if not (isinstance(peak, Mapping) and peak and all(isinstance(window, Window) for window in peak)):
        raise ConfigurationError(f"{what}: peak must map windows to numbers, {_EXAMPLE}, not {peak!r:.80}")
    for window, number in peak.items():
        _check_number(what, f"peak in the window {window}", number)
        if most is not None and number > most:
            raise ConfigurationError(
                f"{what}: {number} at a time in the window {window} is more than {most}, the limit at other times;"
                f" declare the higher number as the limit, and the lower one as its peak, {_EXAMPLE}"
            )
    _refuse_overlaps(what, list(peak))
    return Limit(most, tuple(peak.items()))


def _check_number(what: str, field: str, number: Any) -> None:
    if not is_int(number) or number < 1:
        raise ConfigurationError(
            f"{what}: {field} must be a whole number, 1 or more, not {number!r}; to let nothing start,"
            " pause the queue or give it a window"
        )


def _refuse_overlaps(what: str, windows: list[Window]) -> None:
    spans = sorted((span, str(window)) for window in windows for span in _spans(window)) if windows[1:] else []
    for (before, one), (after, other) in pairwise(spans):
        if after[0] < before[1]:
            raise ConfigurationError(
                f"{what}: the peaks {one} and {other} overlap at {after[0]:%Y-%m-%d %H:%M} UTC, so that two limits"
                " would hold; change the times of one of them"
            )


def _spans(window: Window) -> Iterator[Span]:
    moment = _ANY_MOMENT
    while (span := window.next_span(moment)) is not None and span[0] < _ANY_MOMENT + _COMPARED:
        yield span
        moment = span[1]


def _next_change(window: Window, moment: datetime) -> datetime | None:
    if (span := window.span_at(moment)) is not None:
        return span[1]
    following = window.next_span(moment)
    return None if following is None else following[0]
