"""What an app declares about how much runs at a time, when nothing starts, and when processes are replaced.

A part of the app.
"""

from collections.abc import Sequence

from standfast.errors import ConfigurationError
from standfast.gates.adaptive import TURN, Adaptive
from standfast.gates.limit import Peaks
from standfast.gates.limits import DeclaredLimits, Gate, Limits
from standfast.policy import Seconds
from standfast.policy.problems import queue_problems, refuse_any
from standfast.schedule.closing import About, ClosedHours, Windows, declare_hours
from standfast.schedule.recycle import RecycleRules, declare_recycling
from standfast.schedule.rules import AnyRule
from standfast.spelling import options_of


class Governed:
    """The windows, limits and recycling of an app."""

    def __init__(self) -> None:
        self._windows: dict[tuple[About, str], ClosedHours] = {}
        self._queues: set[str] = set()
        self._limits = DeclaredLimits()
        self._recycle: RecycleRules | None = None

    @property
    def windows(self) -> Sequence[ClosedHours]:
        """The windows declared so far, of queues and of tasks; the workers of this app keep to them."""
        return tuple(self._windows.values())

    @options_of("app.queue")
    def queue(
        self,
        name: str,
        *,
        window: Windows | None = None,
        concurrency: int | None = None,
        peak: Peaks | None = None,
    ) -> None:
        """Declare that no job of a queue starts inside a window, and how many run at a time in one process.

        Running jobs are asked to finish before a window begins, and what had to wait starts when it has ended.
        While `concurrency` of its jobs run, or in a `peak` fewer, none is claimed here: other processes may.
        """
        refuse_any(queue_problems(name))
        if name in self._queues:
            raise ConfigurationError(
                f"queue {name!r} is declared twice; declare it once, with all its windows: window=(..., ...)"
            )
        if window is None and concurrency is None and peak is None:
            raise ConfigurationError(
                f"app.queue({name!r}) says nothing; say how many of its jobs run at a time, as in concurrency=2, or"
                ' when none starts, as in window=Window("03:00", "03:15", tz="Asia/Taipei")'
            )
        hours = None if window is None else declare_hours(About.QUEUE, name, window)
        self._limits.queue(name, concurrency, peak)
        self._queues.add(name)
        if hours is not None:
            self._windows[hours.about, hours.name] = hours

    @property
    def limits(self) -> Limits:
        """How many jobs may run at a time in one process, as far as that is declared."""
        return self._limits.all

    @options_of("app.gate")
    def gate(self, name: str, limit: int, *, peak: Peaks | None = None) -> Gate:
        """Declare a gate: of all tasks that go through it, so many jobs run at a time in one process.

        In a `peak` fewer: `peak={Window("09:00", "18:00"): 1}`. Declare it before its tasks, which name it:
        `@app.task(gate="disk")`.
        """
        return self._limits.gate(name, limit, peak)

    def peak(self, peak: Peaks) -> None:
        """Declare how many jobs a worker process runs at a time in its peak hours, instead of its `concurrency`."""
        self._limits.peak(peak)

    @options_of("app.adaptive")
    def adaptive(
        self,
        *,
        lag: Seconds | None = 0.05,
        latency: Seconds | None = None,
        lowest: int = 1,
        turn: Seconds | None = TURN,
    ) -> Adaptive:
        """Declare that fewer jobs run at a time while the host's event loop lags, or its requests take too long.

        The limits are seconds. What is returned is told of both: see `standfast.gates.adaptive.Adaptive`.
        """
        return self._limits.adapt(Adaptive(lag, latency, lowest, turn))

    @property
    def recycle_rules(self) -> RecycleRules:
        """When worker processes are replaced, and when not, as far as that is declared."""
        return self._recycle or RecycleRules()

    @options_of("app.recycle")
    def recycle(self, *, at: AnyRule | None = None, never: Windows = ()) -> None:
        """Declare that worker processes are replaced at the times of a rule, and for no reason inside a window.

        Each by another that works before it leaves: see also the settings `recycle_age`, `recycle_jobs` and
        `recycle_memory`.
        """
        if self._recycle is not None:
            raise ConfigurationError("app.recycle is called twice; call it once, with all that it is to say")
        self._recycle = declare_recycling(at, never)
