"""The rules that say when something runs: Cron, Every, At, AnyOf, and the options that all of them take. Pure."""

import heapq
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from datetime import UTC, date, datetime, timedelta, tzinfo
from enum import StrEnum
from itertools import takewhile
from typing import TYPE_CHECKING, Any, Literal, TypedDict, Unpack, cast

import msgspec
from msgspec.structs import fields, force_setattr

from standfast.errors import ConfigurationError
from standfast.model.clock import LATEST
from standfast.model.phrases import Phrase
from standfast.model.suggestions import DeclaredOfMany, DeclaredStruct
from standfast.model.validation import (
    MAX_DELAY,
    Seconds,
    as_seconds,
    as_word,
    is_finite,
    is_int,
    is_word,
    refuse_any,
)
from standfast.schedules.calendar import WEEKDAYS, Calendar, as_day, day_reason, is_on, several
from standfast.schedules.windows import Window
from standfast.schedules.zones import (
    change_between,
    check_zone,
    find_zone,
    first_instant,
    last_instant,
    offset_at,
    wall_at,
)

if TYPE_CHECKING:
    from standfast.schedules.cron import WallTimes


def share(among: int, *names: str) -> int:
    """Return one of the whole numbers below `among` that names choose: it looks random, and never changes."""
    from hashlib import blake2b  # noqa: PLC0415 - only where something is spread

    digest = blake2b("\0".join(names).encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return among * int.from_bytes(digest) >> 64


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


_SPANS = ("misfire_after", "jitter", "catch_up_window")
_FIRST_MOMENT = datetime.min.replace(tzinfo=UTC)


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
            after = max(after, self.start - timedelta.resolution)
        times = self._times_after(after, ground)
        end = self.end
        return times if end is None else takewhile(lambda time: time <= end, times)

    def excluded(self, moment: datetime) -> Phrase | None:
        """Return why a time is excluded, in plain words, or None if it is not."""
        reasons = (self._reason(exclusion, moment) for exclusion in self.exclude)
        return next((reason for reason in reasons if reason is not None), None)

    def run_at(self, planned: datetime, ground: Ground) -> datetime:
        """Return when the run of a planned time starts: put off within `jitter`, always by the same."""
        most = round(self.jitter / timedelta.resolution.total_seconds())
        own = share(most, "jitter", ground.name, planned.astimezone(UTC).isoformat()) if most else 0
        return planned + min(own * timedelta.resolution, max(LATEST - planned, timedelta()))

    def note(self, planned: datetime, ground: Ground) -> Phrase | None:  # noqa: ARG002 - most have nothing to say
        """Return what changed clocks have to do with a planned time, in plain words, if anything."""
        return None

    def zones(self) -> frozenset[str]:
        """Return the zones by whose clocks it goes."""
        return frozenset()

    def __or__(self, other: Any) -> "AnyOf":

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


LEAST_INTERVAL = timedelta(milliseconds=100)
"""Each fire is a transaction of its own: what comes more often is work for a loop inside one job."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class _Anchoring(Rule, frozen=True, kw_only=True):
    anchored: bool = False


class Every(_Anchoring, frozen=True, tag="every"):
    """Each time an interval, in seconds or as a timedelta, has gone by: `Every(60)`, `Every(timedelta(hours=6))`.

    It is counted from when the schedule was made, and first comes one interval later; or from `start`, if there is
    one, which is then the first time itself. With `anchored=True` it comes at the multiples of the interval since
    1970 in UTC: `Every(3600, anchored=True)` is each full hour, for every schedule. Intervals are of real time:
    clocks that go forward or back do not touch them.
    """

    interval: float

    if TYPE_CHECKING:

        def __init__(
            self, interval: Seconds, *, anchored: bool = False, **options: Unpack[RuleOptions]
        ) -> None: ...

    def __post_init__(self) -> None:
        super().__post_init__()
        seconds = as_seconds(self.interval)
        least, most = LEAST_INTERVAL.total_seconds(), MAX_DELAY.total_seconds()
        if not (is_finite(seconds) and least <= seconds <= most):
            raise ConfigurationError(
                f"the interval must be a timedelta or seconds, from {least:g} s to a hundred years, "
                f"as in Every(60), not {self.interval!r}"
            )
        if not isinstance(self.anchored, bool):
            raise ConfigurationError(f"anchored must be True or False, not {self.anchored!r}")
        force_setattr(self, "interval", float(seconds))

    def _times_after(self, moment: datetime, ground: Ground) -> Iterator[datetime]:
        interval = timedelta(seconds=self.interval)
        origin = ground.created_at.astimezone(UTC) + interval
        if self.anchored:
            origin = _EPOCH
        elif self.start is not None:
            origin = self.start
        gone_by = (moment - origin) // interval + 1
        try:
            time = origin + interval * (gone_by if self.anchored else max(gone_by, 0))
            while True:
                yield time
                time += interval
        except OverflowError:  # the end of the calendar
            return


class At(Rule, frozen=True, tag="at", metaclass=DeclaredOfMany):
    """At given moments, each once: `At(datetime(2026, 3, 1, 9, tzinfo=UTC))`. They must have a time zone."""

    moments: tuple[datetime, ...]

    if TYPE_CHECKING:

        def __init__(self, *moments: datetime, **options: Unpack[RuleOptions]) -> None: ...

    def __post_init__(self) -> None:
        super().__post_init__()
        moments = several(self.moments)
        if not moments:
            raise ConfigurationError("At has no moment; give one, as in At(datetime(2026, 3, 1, 9, tzinfo=UTC))")
        refuse_any(problem for moment in moments for problem in moment_problems("a moment of At", moment))
        force_setattr(self, "moments", tuple(sorted({moment.astimezone(UTC) for moment in moments})))

    def _times_after(self, moment: datetime, ground: Ground) -> Iterator[datetime]:  # noqa: ARG002 - the same shape
        yield from self.moments[bisect_right(self.moments, moment) :]


_STRETCH = timedelta(days=1)
"""No two changes of a zone's clocks are nearer to each other."""

_FURTHEST = timedelta(days=2)
"""More than any two clocks differ."""


class _Zoned(Rule, frozen=True, kw_only=True):
    tz: str = "UTC"


class Cron(_Zoned, frozen=True, tag="cron"):
    """The times that a cron expression names, by the clock of a time zone: `Cron("0 2 * * *", tz="Asia/Taipei")`.

    Five fields are minute, hour, day of the month, month and day of the week; of six the first is the second, as in
    `*/10 * * * * *` for every ten seconds. A field has numbers or names (JAN, MON), lists (1,15), ranges (1-5) and
    steps (*/15, 8-18/2). L is the last day of the month, LW its last weekday, 5L its last Friday, FRI#2 its second.
    Sunday is 0 and 7. There are @hourly, @daily or @midnight, @weekly, @monthly, and @yearly or @annually.

    Days are those of every cron: where both the day of the month and the day of the week are given, one of them is
    enough; where one of them begins with `*`, as `*/2` does, both must hold.

    `H` stands for a number that is drawn from the schedule's name and never changes, so that many schedules do not
    all come at once: `H 2 * * *` is one minute of the hour from 02:00, `H(0-29) 2 * * *` one of its first half,
    `H/15 * * * *` every 15 minutes from a minute of its own. As a day of the month it is 1 to 28.

    When clocks go forward or back, it is as in Debian's cron:

    - An expression whose minute and hour both do *not* begin with `*`, as in `30 2 * * *`, names times of the day.
      One that the clocks skip comes when the skip is over: 02:30 at 03:00, and once, however many were skipped. One
      that they show twice comes the first time only.
    - Every other, as `*/15 * * * *` or `0 */2 * * *`, comes whenever the clock shows a time that fits: not while it
      skips, and again while it repeats. So what comes every 15 minutes goes on coming every 15 minutes.

    That there are six fields makes no difference to this.
    """

    expression: str

    if TYPE_CHECKING:

        def __init__(self, expression: str, *, tz: str = "UTC", **options: Unpack[RuleOptions]) -> None: ...

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.expression, str):
            raise ConfigurationError(
                f'a cron expression is a text, as in Cron("30 2 * * *"), not {self.expression!r}'
            )
        force_setattr(self, "expression", " ".join(self.expression.split()))
        check_zone(self.tz)
        from standfast.schedules.cron import check_expression  # noqa: PLC0415 - for those who have one

        check_expression(self.expression)

    def note(self, planned: datetime, ground: Ground) -> Phrase | None:
        """Return what changed clocks have to do with a planned time, in plain words, if anything."""
        zone, face = self._zone(), self._face(ground)
        wall = wall_at(zone, planned)
        if first_instant(zone, wall) != last_instant(zone, wall):
            which = "second"
            if planned == first_instant(zone, wall):
                which = "first_only" if face.names_times else "first"
            return Phrase(f"clocks.twice_{which}", time=_shown(wall))
        skipped = wall_at(zone, planned - timedelta.resolution) + timedelta.resolution
        missed = next(face.walls_from(skipped), wall)
        if face.names_times and missed < wall:
            return Phrase("clocks.skipped", time=_shown(missed), since=_shown(skipped), until=_shown(wall))
        return None

    def zones(self) -> frozenset[str]:
        """Return the zones by whose clocks it goes."""
        return frozenset({self.tz})

    def _times_after(self, moment: datetime, ground: Ground) -> Iterator[datetime]:
        face, zone = self._face(ground), self._zone()
        try:
            if zone is UTC:
                yield from _in_utc(face, moment)
            elif face.names_times:
                yield from _by_the_wall(face, zone, moment)
            else:
                yield from _by_real_time(face, zone, moment)
        except OverflowError:  # the end of the calendar
            return

    def _face(self, ground: Ground) -> "WallTimes":
        from standfast.schedules.cron import read_wall_times  # noqa: PLC0415 - for those who have one

        return read_wall_times(self.expression, ground.name)


def _in_utc(face: "WallTimes", moment: datetime) -> Iterator[datetime]:
    for wall in face.walls_from(_whole(moment.replace(tzinfo=None))):
        time = wall.replace(tzinfo=UTC)
        if time > moment:
            yield time


def _by_the_wall(face: "WallTimes", zone: tzinfo, moment: datetime) -> Iterator[datetime]:
    """Yield each wall time once: when it is skipped, after the skip; when it is repeated, the first time."""
    last = moment
    for wall in face.walls_from(_whole(wall_at(zone, moment))):
        time = first_instant(zone, wall)
        if time > last:
            yield time
            last = time


def _by_real_time(face: "WallTimes", zone: tzinfo, moment: datetime) -> Iterator[datetime]:
    """Yield whenever the clock shows a wall time: stretch by stretch, in each of which no clock is changed."""
    since = moment
    while True:
        offset = offset_at(zone, since)
        until = since + _STRETCH
        changes = offset_at(zone, until) != offset
        if changes:
            until = change_between(zone, since, until)
        came = False
        for wall in face.walls_from(_whole((since + offset).replace(tzinfo=None))):
            time = wall.replace(tzinfo=UTC) - offset
            if time >= until:
                break
            if time >= since and time > moment:
                yield time
                came = True
        else:
            return
        # Clocks that go back bring again what came in the last stretch: only from an empty one one may leap.
        since = until if came or changes else max(until, time - _FURTHEST)


def _whole(wall: datetime) -> datetime:
    return wall.replace(microsecond=0)


def _shown(wall: datetime) -> str:
    return f"{wall:%H:%M:%S}" if wall.second else f"{wall:%H:%M}"


_OF_THE_UNION = {field.name: field.default for field in fields(Rule) if field.name not in {"start", "end"}}
"""The options that say what becomes of a time, whichever member it comes from, and their defaults."""


class AnyOf(Rule, frozen=True, tag="any", metaclass=DeclaredOfMany):
    """Whenever one of several rules comes: `AnyOf(Cron("0 9 * * *"), Every(3600))`, or with `|` between them.

    A time of several of them comes once. A member has times of its own, with its zone, start and end; every other
    option is the union's: `AnyOf(Cron("0 9 * * *"), Every(3600), overlap="allow")`. Weekdays and dates in `exclude`
    are read by the clock of its members, which must go by the same one then.
    """

    rules: "tuple[AnyRule, ...]"

    if TYPE_CHECKING:

        def __init__(self, *rules: "AnyRule", **options: Unpack[RuleOptions]) -> None: ...

    def __post_init__(self) -> None:
        super().__post_init__()
        force_setattr(self, "rules", several(self.rules))
        if not self.rules:
            raise ConfigurationError('AnyOf has no rules; give some, as in AnyOf(Cron("0 9 * * *"), Every(3600))')
        for rule in self.rules:
            _check_member(rule)
        if any(isinstance(each, str) for each in self.exclude) and len(self.zones()) > 1:
            raise ConfigurationError(
                f"the rules of AnyOf go by different clocks ({' and '.join(sorted(self.zones()))}), "
                "so that a bare day in exclude could mean either; say which, "
                'as in exclude=Calendar("office", weekdays=("sat", "sun"), tz="Asia/Taipei")'
            )

    def note(self, planned: datetime, ground: Ground) -> Phrase | None:
        """Return what changed clocks have to do with a planned time, in plain words, if anything."""
        before = planned - timedelta.resolution
        theirs = (rule for rule in self.rules if next(rule.times_after(before, ground), None) == planned)
        notes = (rule.note(planned, ground) for rule in theirs)
        return next((note for note in notes if note is not None), None)

    def zones(self) -> frozenset[str]:
        """Return the zones by whose clocks it goes."""
        return frozenset[str]().union(*(rule.zones() for rule in self.rules))

    def _alternatives(self) -> tuple[Rule, ...]:
        return self.rules if self == AnyOf(*self.rules) else (self,)

    def _times_after(self, moment: datetime, ground: Ground) -> Iterator[datetime]:
        last = None
        for time in heapq.merge(*(rule.times_after(moment, ground) for rule in self.rules)):
            if time != last:
                yield time
                last = time


AnyRule = Cron | Every | At | AnyOf
"""Any rule there is: what JSON is decoded to."""


def _check_member(rule: object) -> None:
    if not isinstance(rule, Cron | Every | At | AnyOf):
        raise ConfigurationError(
            f'a member of AnyOf must be a rule, as in AnyOf(Cron("0 9 * * *"), Every(3600)), not {rule!r:.80}'
        )
    for name, default in _OF_THE_UNION.items():
        value = getattr(rule, name)
        if value != default:
            said = f'"{value}"' if isinstance(value, str) else repr(value)
            raise ConfigurationError(
                f"{name} is given to the {type(rule).__name__} inside of a union, which has one for all its rules; "
                f'give it there, as in AnyOf(Cron("0 9 * * *"), Every(3600), {name}={said})'
            )
