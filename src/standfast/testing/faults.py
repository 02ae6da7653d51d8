"""Faults on purpose: what happens at the places in handlers that `ctx.fault_point` has named."""

import threading
from collections import Counter
from types import TracebackType
from typing import Self


class Killed(BaseException):
    """The attempt ends here as if its process had been killed.

    It is no `Exception`, so that a handler's `except Exception` cannot swallow it.
    """


class Fault:
    """A fault that waits at one point, to strike so many times. `with` it, it must have done so by the end."""

    def __init__(self, faults: "Faults", point: str, times: int, error: BaseException) -> None:
        self.point = point
        self.times = times
        self.struck = 0
        self._faults = faults
        self._error = error

    def strike(self) -> None:
        """Raise the error, if it is not used up."""
        if self.struck < self.times:
            self.struck += 1
            raise self._error.with_traceback(None)  # the same one each time: where it was raised before is over

    def disarm(self) -> None:
        """Strike no more."""
        self._faults.remove(self)

    def check(self) -> None:
        """Raise AssertionError unless it has struck as often as it should."""
        if self.struck < self.times:
            reached = self._faults.reached
            passed = ", ".join(f"{name!r} {_times(count)}" for name, count in reached.items()) or "none"
            raise AssertionError(
                f"the fault at point {self.point!r} should have struck {_times(self.times)} and struck"
                f" {_times(self.struck)}; points reached: {passed}"
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        __tracebackhide__ = True
        self.disarm()
        if error is None:
            self.check()


class Faults:
    """The faults that are armed, and the points that handlers came by."""

    def __init__(self) -> None:
        self.reached: Counter[str] = Counter()
        self._armed: list[Fault] = []
        self._lock = threading.RLock()  # handlers come by in threads of their own

    def arm(self, point: str, times: int, error: BaseException) -> Fault:
        """Let the next `times` attempts that come to the point meet this error."""
        if times < 1:
            raise ValueError(f"times must be 1 or more, not {times!r}")
        fault = Fault(self, point, times, error)
        with self._lock:
            self._armed.append(fault)
        return fault

    def remove(self, fault: Fault) -> None:
        """Forget a fault."""
        with self._lock:
            if fault in self._armed:
                self._armed.remove(fault)

    def reach(self, point: str) -> None:
        """Come by a point: the first fault there that is not used up strikes."""
        with self._lock:
            self.reached[point] += 1
            for fault in self._armed:
                if fault.point == point:
                    fault.strike()

    def check(self) -> None:
        """Raise AssertionError if a fault that is still armed has not struck as often as it should."""
        for fault in self._armed:
            fault.check()


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times" if count else "never"
