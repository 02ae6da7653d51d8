"""Rules that repeat after an interval. Pure."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Unpack

from msgspec.structs import force_setattr

from standfast.errors import ConfigurationError
from standfast.policy.problems import MAX_DELAY
from standfast.policy.reading import Seconds, as_seconds, is_finite
from standfast.schedule.options import RuleOptions
from standfast.schedule.rule import Ground, Rule

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
