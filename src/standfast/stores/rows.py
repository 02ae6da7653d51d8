"""Times as stores keep them, and rows that cannot be read.

Times as stores keep them: whole microseconds, so that what is read is exactly what was written.
"""

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from types import MappingProxyType
from typing import Any, TypeVar

import msgspec

from standfast.model.clock import EARLIEST, LATEST
from standfast.model.job import NO_TASK, UNREADABLE, ClaimRef, Job, UnreadableClaim
from standfast.model.states import FINAL, State

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


# Rows that cannot be read, because somebody changed them or a disk did: each costs its own job, and no other.
#
# A claim of such a job is given out like any other, as an `UnreadableClaim`, and its worker ends it as dead. Views
# show what is left of it. Nothing here is called for a row that is sound.

Row = Any
T = TypeVar("T")

DAMAGES = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError, msgspec.MsgspecError)
"""What reading a damaged row raises."""


def read_each(
    read: Callable[[Sequence[Row]], Sequence[T]], rows: Sequence[Row], instead: Callable[[Row, Exception], T]
) -> list[T]:
    """Read rows one by one, after they could not be read together; `instead` is for those that are damaged."""
    found: list[T] = []
    for row in rows:
        try:
            found += read((row,))
        except DAMAGES as error:
            found.append(instead(row, error))
    return found


def unreadable_claim(job_id: str, fence: int, queue: object, error: Exception) -> UnreadableClaim:
    """Return the claim of a job of which no more is known."""
    return UnreadableClaim(
        ClaimRef(job_id, fence),
        NO_TASK,
        0,
        b"",
        queue if isinstance(queue, str) else NO_TASK,
        0,
        EARLIEST,
        0,
        0,
        1,
        problem=problem_of(error),
    )


def unreadable_job(job_id: str, said: Mapping[str, Any], error: Exception) -> Job:
    """Return what can be shown of a damaged job; `said` are the values that may be sound."""
    known = {**_NOTHING, **{name: value for name, value in said.items() if _is_sound(name, value)}}
    if known["state"] not in FINAL or known["error"] is None:
        known["error"] = f"{UNREADABLE}: {problem_of(error)}"
    return Job(id=job_id, **known)


def _is_sound(name: str, value: object) -> bool:
    return type(value) in {type(_NOTHING[name]), _OPTIONAL.get(name)}


def problem_of(error: Exception) -> str:
    """Return what is wrong with a row, in one line."""
    return " ".join(str(error).split())[:_LONGEST] or type(error).__name__


_LONGEST = 200

_NOTHING: Mapping[str, Any] = MappingProxyType(
    {
        "task": NO_TASK,
        "version": 0,
        "queue": NO_TASK,
        "priority": 0,
        "state": State.DEAD,
        "reason": None,
        "run_at": EARLIEST,
        "created_at": EARLIEST,
        "finished_at": None,
        "fence": 0,
        "attempt": 0,
        "crashes": 0,
        "max_attempts": 1,
        "group": 0,
        "cancel_requested": False,
        "worker": None,
        "payload": b"",
        "result": None,
        "error": None,
        "progress": None,
    }
)
_OPTIONAL: Mapping[str, type] = MappingProxyType(
    {"reason": str, "finished_at": datetime, "worker": str, "result": bytes, "error": str}
)
