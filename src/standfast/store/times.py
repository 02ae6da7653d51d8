"""Times as stores keep them: whole microseconds, so that what is read is exactly what was written."""

from datetime import UTC, datetime, timedelta

from standfast.clock import EARLIEST, LATEST

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


def to_micros(time: datetime) -> int:
    """Return a time as microseconds since 1970."""
    return (time - _EPOCH) // _MICROSECOND


def to_micros_or_none(time: datetime | None) -> int | None:
    """Return a time as microseconds since 1970, if there is one."""
    return None if time is None else to_micros(time)


def from_micros(micros: int) -> datetime:
    """Return the time that so many microseconds since 1970 are, or the last one that can be told."""
    try:
        return _EPOCH + _MICROSECOND * micros  # twice as fast as to make a timedelta of them
    except OverflowError:
        return LATEST if micros > 0 else EARLIEST


def from_micros_or_none(micros: int | None) -> datetime | None:
    """Return the time that so many microseconds since 1970 are, if there is one."""
    return None if micros is None else from_micros(micros)


def later(time: datetime, span: timedelta) -> datetime:
    """Return a time so much later, or the last one that can be told."""
    try:
        return time + span
    except OverflowError:
        return LATEST if span > timedelta() else EARLIEST


def span_to_micros(span: timedelta) -> int:
    """Return a span as microseconds."""
    return span // _MICROSECOND


def span_from_micros(micros: int) -> timedelta:
    """Return the span that so many microseconds are, or the longest one that can be told."""
    try:
        return timedelta(microseconds=micros)
    except OverflowError:
        return timedelta.max if micros > 0 else timedelta.min


def seconds_to_micros(seconds: float) -> int:
    """Return a reading of the boot clock as microseconds."""
    return round(seconds * 1_000_000)
