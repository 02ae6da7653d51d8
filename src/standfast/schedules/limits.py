"""A limit on how many attempts run at a time, lower in its peak hours. Pure."""

from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import msgspec

from standfast.errors import ConfigurationError
from standfast.model.suggestions import hint
from standfast.model.validation import is_int, name_problems, refuse_any
from standfast.schedules.adaptive import Adaptive
from standfast.schedules.windows import Span, Window

Peaks = Mapping[Window, int]
"""How many may run at a time inside each of some windows, which do not overlap."""

_EXAMPLE = 'as in peak={Window("09:00", "18:00", tz="Asia/Taipei"): 1}'
_ANY_MOMENT = datetime(2023, 12, 31, tzinfo=UTC)
_COMPARED = timedelta(days=400)
"""Windows that overlap do so within these."""


class Limit(msgspec.Struct, frozen=True):
    """So many at most, and inside a window of the peaks fewer. `most` is None where only the peaks limit."""

    most: int | None
    peaks: tuple[tuple[Window, int], ...] = ()

    def at(self, moment: datetime) -> int | None:
        """Return how many may run at a moment."""
        return next((number for window, number in self.peaks if window.span_at(moment)), self.most)

    def changes_after(self, moment: datetime) -> datetime | None:
        """Return when a peak begins or ends next, if there are any."""
        return min((change for window, _ in self.peaks if (change := _next_change(window, moment))), default=None)


def declare_limit(what: str, most: Any, peak: Any, *, field: str = "concurrency") -> Limit:
    """Return a checked limit of `what`, as people are told. Raises ConfigurationError."""
    if most is not None:
        _check_number(what, field, most)
    if peak is None:
        return Limit(most)
    if not (isinstance(peak, Mapping) and peak and all(isinstance(window, Window) for window in peak)):
        raise ConfigurationError(f"{what}: peak must map windows to numbers, {_EXAMPLE}, not {peak!r:.80}")
    for window, number in peak.items():
        _check_number(what, f"peak in the window {window}", number)
        if most is not None and number > most:
            raise ConfigurationError(
                f"{what}: {number} at a time in the window {window} is more than {most}, the limit at other times;"
                f" declare the higher number as the limit, and the lower one as its peak, {_EXAMPLE}"
            )
    _refuse_overlaps(what, list(peak))
    return Limit(most, tuple(peak.items()))


def _check_number(what: str, field: str, number: Any) -> None:
    if not is_int(number) or number < 1:
        raise ConfigurationError(
            f"{what}: {field} must be a whole number, 1 or more, not {number!r}; to let nothing start,"
            " pause the queue or give it a window"
        )


def _refuse_overlaps(what: str, windows: list[Window]) -> None:
    spans = sorted((span, str(window)) for window in windows for span in _spans(window)) if windows[1:] else []
    for (before, one), (after, other) in pairwise(spans):
        if after[0] < before[1]:
            raise ConfigurationError(
                f"{what}: the peaks {one} and {other} overlap at {after[0]:%Y-%m-%d %H:%M} UTC, so that two limits"
                " would hold; change the times of one of them"
            )


def _spans(window: Window) -> Iterator[Span]:
    moment = _ANY_MOMENT
    while (span := window.next_span(moment)) is not None and span[0] < _ANY_MOMENT + _COMPARED:
        yield span
        moment = span[1]


def _next_change(window: Window, moment: datetime) -> datetime | None:
    if (span := window.span_at(moment)) is not None:
        return span[1]
    following = window.next_span(moment)
    return None if following is None else following[0]


_NOTHING = Limit(None)


class Gate(msgspec.Struct, frozen=True):
    """A named limit that several tasks share: `@app.task(gate=disk)`, or by its name, `@app.task(gate="disk")`."""

    name: str


Gates = Gate | str | Iterable[Gate | str]
"""One gate, or several, each by itself or by its name."""


class Limits(msgspec.Struct):
    """All limits that an app declares. `gates_of` are the gates that the jobs of a task go through."""

    gates: dict[str, Limit] = {}
    queues: dict[str, Limit] = {}
    tasks: dict[str, Limit] = {}
    gates_of: dict[str, tuple[str, ...]] = {}
    worker: Limit = _NOTHING
    adaptive: Adaptive | None = None

    @property
    def apart(self) -> bool:
        """Whether some jobs are limited apart from others."""
        return bool(self.queues or self.tasks or self.gates_of)

    def gate(self, name: Any, limit: Any, peak: Any) -> Gate:
        """Declare a gate."""
        refuse_any(name_problems("gate", name))
        if name in self.gates:
            raise ConfigurationError(f"gate {name!r} is declared twice; declare it once, before its tasks")
        self.gates[name] = declare_limit(f"gate {name!r}", limit, peak, field="limit")
        return Gate(name)

    def queue(self, name: str, concurrency: Any, peak: Any) -> None:
        """Declare how many jobs of a queue run at a time."""
        if concurrency is not None or peak is not None:
            self.queues[name] = declare_limit(f"queue {name!r}", concurrency, peak)

    def task(self, name: str, concurrency: Any, peak: Any, gate: Any) -> None:
        """Declare how many jobs of a task run at a time, and through which gates they go."""
        limit = None
        if concurrency is not None or peak is not None:
            limit = declare_limit(f"task {name!r}", concurrency, peak)
        gates = () if gate is None else self._named(name, gate)
        if limit is not None:
            self.tasks[name] = limit
        if gates:
            self.gates_of[name] = gates

    def forget_task(self, name: str) -> None:
        """Take back what was declared of a task."""
        self.tasks.pop(name, None)
        self.gates_of.pop(name, None)

    def peak(self, peak: Peaks) -> None:
        """Declare how many jobs a worker process runs at a time in its peak hours."""
        if self.worker is not _NOTHING:
            raise ConfigurationError("app.peak is called twice; call it once, with all the windows")
        self.worker = declare_limit("app.peak", None, peak)

    def adapt(self, adaptive: Adaptive) -> Adaptive:
        """Declare that the number of jobs gives way to requests."""
        if self.adaptive is not None:
            raise ConfigurationError("app.adaptive is called twice; call it once, with all that it is to say")
        self.adaptive = adaptive
        return adaptive

    def _named(self, task: str, gate: Any) -> tuple[str, ...]:
        several = gate if isinstance(gate, tuple | list | set | frozenset) else (gate,)
        names = [each.name if isinstance(each, Gate) else each for each in several]
        for name in names:
            if name not in self.gates:
                known = hint(str(name), list(self.gates)) if self.gates else "none is declared yet"
                raise ConfigurationError(
                    f"task {task!r}: there is no gate {name!r} ({known}); declare it before the task, as in"
                    f' app.gate("{name}", 2)'
                )
        return tuple(dict.fromkeys(names))
