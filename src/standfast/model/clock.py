"""Time, behind one small port, so that tests and the simulator own it.

Two clocks, never mixed: `now` is what people mean by time and may be set back or forth; `boot` only grows,
counts suspended time too, and is the same for every process of a machine. Leases use
`boot`, where the store is on the same machine.
"""

import time
from datetime import UTC, datetime
from functools import partial
from typing import Protocol

EARLIEST = datetime.min.replace(tzinfo=UTC)
LATEST = datetime(9999, 12, 31, tzinfo=UTC)
"""No time of a job is beyond these. One day before the end of the calendar every zone still has a local time."""

_BOOT_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


class Clock(Protocol):
    """Where time comes from."""

    def now(self) -> datetime:
        """Return the wall-clock time, aware, in UTC."""
        ...

    def boot(self) -> float:
        """Return seconds since this machine booted, suspended time included."""
        ...


class SystemClock:
    """The machine's own clocks."""

    def now(self) -> datetime:
        """Return the wall-clock time, aware, in UTC."""
        return datetime.now(UTC)

    boot = staticmethod(partial(time.clock_gettime, _BOOT_CLOCK))
    """Return seconds since this machine booted, suspended time included: the bare call, asked all the time."""
