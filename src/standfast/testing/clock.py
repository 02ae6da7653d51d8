"""A clock that stands still until a test moves it."""

from datetime import UTC, datetime, timedelta

_START = datetime(2030, 1, 2, 3, 4, 5, tzinfo=UTC)


class FakeClock:
    """Both clocks in the hands of a test: `advance` moves time on, `step_wall` sets only the wall clock."""

    def __init__(self, start: datetime = _START, boot: float = 1000.0) -> None:
        self._now = start
        self._boot = boot

    def now(self) -> datetime:
        """Return the wall-clock time, aware, in UTC."""
        return self._now

    def boot(self) -> float:
        """Return seconds since this machine booted, suspended time included."""
        return self._boot

    def advance(self, seconds: float) -> None:
        """Let time pass: both clocks move, and only forward."""
        if seconds < 0:
            raise ValueError(f"time does not pass backwards ({seconds!r} s): step_wall sets the wall clock")
        self._now += timedelta(seconds=seconds)
        self._boot += seconds

    def step_wall(self, seconds: float) -> None:
        """Set the wall clock forth or, with a negative number, back, as an administrator or NTP might."""
        self._now += timedelta(seconds=seconds)
