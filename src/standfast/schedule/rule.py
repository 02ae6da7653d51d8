"""What every rule has: options that say what becomes of its times, and the questions it answers. Pure."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, tzinfo
from itertools import takewhile
from typing import TYPE_CHECKING, Any, cast

import msgspec
from msgspec.structs import force_setattr

from standfast.clock import LATEST
from standfast.phrases import Phrase
from standfast.policy.problems import refuse_any
from standfast.policy.reading import as_seconds, as_word, is_finite, is_int
from standfast.schedule.calendar import Calendar
from standfast.schedule.days import WEEKDAYS, as_day, day_reason, is_on, several
from standfast.schedule.options import (
    Misfire,
    Overlap,
    bound_problems,
    moment_problems,
    span_problems,
    word_problems,
)
from standfast.schedule.spread import share
from standfast.schedule.window import Window
from standfast.schedule.zones import find_zone
from standfast.spelling import DeclaredStruct

if TYPE_CHECKING:
    from standfast.schedule.union import AnyOf, AnyRule


_SPANS = ("misfire_after", "jitter", "catch_up_window")
_FIRST_MOMENT = datetime.min.replace(tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


class Ground(msgspec.Struct, frozen=True):
    """What else the times of a rule depend on: the name of the schedule, and when it was made."""

    name: str
    created_at: datetime


class Rule(DeclaredStruct, frozen=True, kw_only=True, tag_field="rule"):
    """When something is to run: one of Cron, Every, At and AnyOf. Spans are seconds or timedeltas.

    `misfire`: what becomes of times that were missed, and `misfire_after`: how late a fire may be and still count
    as on time. `catch_up_limit` and `catch_up_window`: how many missed times, and from how long ago,
    `misfire="all"` makes up for; the latest count. `overlap`: what becomes of a time at which a run before it is
    not over. `pause_on_failure`: whether a job that ends dead pauses the schedule. `jitter`: each run is put off by
    less than that, by an amount of its own that never changes. `start` and `end`: the first and the last moment at
    which it may fire. `exclude`: when not: weekdays and dates (by the rule's own zone), windows, calendars.
    """

    misfire: Misfire = Misfire.ONCE
    misfire_after: float = 60.0
    catch_up_limit: int = 100
    catch_up_window: float | None = 86400.0
    overlap: Overlap = Overlap.SKIP
    pause_on_failure: bool = False
    jitter: float = 0.0
    start: datetime | None = None
    end: datetime | None = None
    exclude: tuple[Window | Calendar | str, ...] = ()

    def __post_init__(self) -> None:
        for name in _SPANS:
            seconds = as_seconds(getattr(self, name))
            force_setattr(self, name, float(seconds) if is_finite(seconds) else seconds)
        force_setattr(self, "misfire", as_word(Misfire, self.misfire))
        force_setattr(self, "overlap", as_word(Overlap, self.overlap))
        read = (each if isinstance(each, Window | Calendar) else as_day(each) for each in several(self.exclude))
        force_setattr(self, "exclude", tuple(dict.fromkeys(read)))
        refuse_any(self._problems())
        force_setattr(self, "start", self.start and self.start.astimezone(UTC))
        force_setattr(self, "end", self.end and self.end.astimezone(UTC))

    def times_after(self, moment: datetime, ground: Ground) -> Iterator[datetime]:
        """Return its times after a moment, ascending, in UTC, one by one. Exclusions are not applied."""
        refuse_any(moment_problems("the moment after which times are wanted", moment))
        after = moment.astimezone(UTC)
        if self.start is not None and self.start > _FIRST_MOMENT:
            after = max(after, self.start - _MICROSECOND)
        times = self._times_after(after, ground)
        end = self.end
        return times if end is None else takewhile(lambda time: time <= end, times)

    def excluded(self, moment: datetime) -> Phrase | None:
        """Return why a time is excluded, in plain words, or None if it is not."""
        reasons = (self._reason(exclusion, moment) for exclusion in self.exclude)
        return next((reason for reason in reasons if reason is not None), None)

    def run_at(self, planned: datetime, ground: Ground) -> datetime:
        """Return when the run of a planned time starts: put off within `jitter`, always by the same."""
        most = round(self.jitter / _MICROSECOND.total_seconds())
        own = share(most, "jitter", ground.name, planned.astimezone(UTC).isoformat()) if most else 0
        return planned + min(own * _MICROSECOND, max(LATEST - planned, timedelta()))

    def note(self, planned: datetime, ground: Ground) -> Phrase | None:  # noqa: ARG002 - most have nothing to say
        """Return what changed clocks have to do with a planned time, in plain words, if anything."""
        return None

    def zones(self) -> frozenset[str]:
        """Return the zones by whose clocks it goes."""
        return frozenset()

    def __or__(self, other: Any) -> "AnyOf":
        from standfast.schedule.union import AnyOf  # noqa: PLC0415 - a union is itself a rule

        if not isinstance(other, Rule):
            return NotImplemented
        return AnyOf(*cast("tuple[AnyRule, ...]", self._alternatives() + other._alternatives()))

    def _alternatives(self) -> tuple["Rule", ...]:
        """Return the rules that stand for it in a union."""
        return (self,)

    def _times_after(self, moment: datetime, ground: Ground) -> Iterator[datetime]:
        """Yield its times after a moment in UTC, whatever its start and end."""
        raise NotImplementedError

    def _zone(self) -> tzinfo:
        """Return the zone in which it reads weekdays and dates."""
        return find_zone(min(self.zones(), default="UTC"))

    def _reason(self, exclusion: Window | Calendar | str, moment: datetime) -> Phrase | None:
        if not isinstance(exclusion, str):
            return exclusion.excluded(moment)
        today = moment.astimezone(self._zone()).date()
        return day_reason(exclusion, today) if is_on(exclusion, today) else None

    def _problems(self) -> Iterator[str]:
        yield from word_problems("misfire", Misfire, self.misfire)
        yield from word_problems("overlap", Overlap, self.overlap)
        for name in _SPANS:
            if name != "catch_up_window" or self.catch_up_window is not None:
                yield from span_problems(name, getattr(self, name))
        if not is_int(self.catch_up_limit) or self.catch_up_limit < 1:
            given = f"not {self.catch_up_limit!r}"
            yield f'catch_up_limit must be 1 or more, as in catch_up_limit=100 (for none: misfire="skip"), {given}'
        if not isinstance(self.pause_on_failure, bool):
            yield f"pause_on_failure must be True or False, not {self.pause_on_failure!r}"
        yield from bound_problems(self.start, self.end)
        if set(WEEKDAYS) <= set(self.exclude):
            yield 'exclude names every weekday, so that nothing would ever run; leave one out, as in exclude="sun"'
