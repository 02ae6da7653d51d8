"""What an app declares of how much may run at a time in one process, and the checks of that."""

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from standfast.errors import ConfigurationError
from standfast.gates.adaptive import Adaptive
from standfast.gates.limit import Limit, Peaks, declare_limit
from standfast.policy.problems import name_problems, refuse_any
from standfast.spelling import hint

_NOTHING = Limit(None)


class Gate(msgspec.Struct, frozen=True):
    """A named limit that several tasks share: `@app.task(gate=disk)`, or by its name, `@app.task(gate="disk")`."""

    name: str


Gates = Gate | str | Iterable[Gate | str]
"""One gate, or several, each by itself or by its name."""


class Limits(msgspec.Struct, frozen=True):
    """All limits of an app. `gates_of` are the gates that the jobs of a task go through."""

    gates: Mapping[str, Limit] = {}
    queues: Mapping[str, Limit] = {}
    tasks: Mapping[str, Limit] = {}
    gates_of: Mapping[str, tuple[str, ...]] = {}
    worker: Limit = _NOTHING
    adaptive: Adaptive | None = None

    @property
    def apart(self) -> bool:
        """Whether some jobs are limited apart from others."""
        return bool(self.queues or self.tasks or self.gates_of)


class DeclaredLimits:
    """The limits that an app has declared so far."""

    def __init__(self) -> None:
        self._gates: dict[str, Limit] = {}
        self._queues: dict[str, Limit] = {}
        self._tasks: dict[str, Limit] = {}
        self._gates_of: dict[str, tuple[str, ...]] = {}
        self._worker = _NOTHING
        self._adaptive: Adaptive | None = None

    @property
    def all(self) -> Limits:
        """All of them."""
        return Limits(self._gates, self._queues, self._tasks, self._gates_of, self._worker, self._adaptive)

    def gate(self, name: Any, limit: Any, peak: Any) -> Gate:
        """Declare a gate."""
        refuse_any(name_problems("gate", name))
        if name in self._gates:
            raise ConfigurationError(f"gate {name!r} is declared twice; declare it once, before its tasks")
        self._gates[name] = declare_limit(f"gate {name!r}", limit, peak, field="limit")
        return Gate(name)

    def queue(self, name: str, concurrency: Any, peak: Any) -> None:
        """Declare how many jobs of a queue run at a time."""
        if concurrency is not None or peak is not None:
            self._queues[name] = declare_limit(f"queue {name!r}", concurrency, peak)

    def task(self, name: str, concurrency: Any, peak: Any, gate: Any) -> None:
        """Declare how many jobs of a task run at a time, and through which gates they go."""
        limit = None
        if concurrency is not None or peak is not None:
            limit = declare_limit(f"task {name!r}", concurrency, peak)
        gates = () if gate is None else self._named(name, gate)
        if limit is not None:
            self._tasks[name] = limit
        if gates:
            self._gates_of[name] = gates

    def forget_task(self, name: str) -> None:
        """Take back what was declared of a task."""
        self._tasks.pop(name, None)
        self._gates_of.pop(name, None)

    def peak(self, peak: Peaks) -> None:
        """Declare how many jobs a worker process runs at a time in its peak hours."""
        if self._worker is not _NOTHING:
            raise ConfigurationError("app.peak is called twice; call it once, with all the windows")
        self._worker = declare_limit("app.peak", None, peak)

    def adapt(self, adaptive: Adaptive) -> Adaptive:
        """Declare that the number of jobs gives way to requests."""
        if self._adaptive is not None:
            raise ConfigurationError("app.adaptive is called twice; call it once, with all that it is to say")
        self._adaptive = adaptive
        return adaptive

    def _named(self, task: str, gate: Any) -> tuple[str, ...]:
        several = gate if isinstance(gate, tuple | list | set | frozenset) else (gate,)
        names = [each.name if isinstance(each, Gate) else each for each in several]
        for name in names:
            if name not in self._gates:
                known = hint(str(name), list(self._gates)) if self._gates else "none is declared yet"
                raise ConfigurationError(
                    f"task {task!r}: there is no gate {name!r} ({known}); declare it before the task, as in"
                    f' app.gate("{name}", 2)'
                )
        return tuple(dict.fromkeys(names))
