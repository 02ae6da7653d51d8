"""The options that every rule takes, and what is wrong with them. Pure."""

from collections.abc import Iterable, Iterator
from datetime import UTC, date, datetime
from enum import StrEnum
from typing import Any, Literal, TypedDict

from standfast.policy.problems import MAX_DELAY
from standfast.policy.reading import Seconds, is_finite, is_word
from standfast.schedule.calendar import Calendar
from standfast.schedule.window import Window

MisfireWord = Literal["skip", "once", "all"]
OverlapWord = Literal["allow", "skip", "queue_one", "queue_all", "cancel_running"]
Exclusion = Window | Calendar | date | str
"""What may be excluded: a window, a calendar, a date, or the name of a weekday."""


class Misfire(StrEnum):
    """What becomes of times that nobody was there for."""

    SKIP = "skip"
    ONCE = "once"
    """The last of them is fired."""
    ALL = "all"
    """All are fired, within `catch_up_limit` and `catch_up_window`: one by one, unless runs may overlap."""


class Overlap(StrEnum):
    """What becomes of a time at which a run before it is not over."""

    ALLOW = "allow"
    SKIP = "skip"
    QUEUE_ONE = "queue_one"
    """One waits for the end of that run; others are skipped."""
    QUEUE_ALL = "queue_all"
    CANCEL_RUNNING = "cancel_running"
    """That run is cancelled."""


class RuleOptions(TypedDict, total=False):
    """The options that every rule takes by name; `Rule` says what they mean."""

    misfire: MisfireWord | Misfire
    misfire_after: Seconds
    catch_up_limit: int
    catch_up_window: Seconds | None
    overlap: OverlapWord | Overlap
    pause_on_failure: bool
    jitter: Seconds
    start: datetime | None
    end: datetime | None
    exclude: Exclusion | Iterable[Exclusion]


def word_problems(name: str, words: type[StrEnum], word: Any) -> Iterator[str]:
    """Yield what is wrong with one of several words."""
    if not is_word(words, word):
        among = ", ".join(f'"{each}"' for each in words)
        yield f"{name} must be one of {among}, not {word!r}"


def span_problems(name: str, seconds: Any) -> Iterator[str]:
    """Yield what is wrong with a span that may be nothing."""
    if not (is_finite(seconds) and 0 <= seconds <= MAX_DELAY.total_seconds()):
        yield f"{name} must be a timedelta or seconds, from 0 to a hundred years, as in {name}=60, not {seconds!r}"


def bound_problems(start: Any, end: Any) -> Iterator[str]:
    """Yield what is wrong with the first and the last moment of a rule."""
    problems = [
        problem
        for name, bound in (("start", start), ("end", end))
        if bound is not None
        for problem in moment_problems(name, bound)
    ]
    if not problems and start is not None and end is not None and start > end:
        problems = [f"start ({start.isoformat()}) must not be after end ({end.isoformat()}); exchange them"]
    yield from problems


def moment_problems(name: str, moment: Any) -> Iterator[str]:
    """Yield what is wrong with a moment in time."""
    if not isinstance(moment, datetime):
        yield f"{name} must be a datetime with a time zone, as in datetime(2026, 3, 1, tzinfo=UTC), not {moment!r}"
    elif moment.utcoffset() is None:
        yield (
            f"{name} must have a time zone, and {moment.isoformat()} has none; "
            f"add one, as in datetime({moment.year}, {moment.month}, {moment.day}, tzinfo=UTC)"
        )
    elif not datetime.min.replace(tzinfo=UTC) <= moment <= datetime.max.replace(tzinfo=UTC):
        yield f"{name} must lie within the years 1 to 9999 in UTC, not {moment.isoformat()}; choose another time"
