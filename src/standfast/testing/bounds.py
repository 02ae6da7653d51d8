"""What keeps a drain from running for ever."""

import threading
from collections import Counter
from dataclasses import dataclass, field
from types import TracebackType

from standfast.testing.runner import Run

RUNS = 1000
"""So many attempts may one drain run."""

NESTED = 25
"""So many inline jobs may have enqueued one another."""


@dataclass(slots=True)
class Runs:
    """The attempts of one drain, as many as it may run."""

    limit: int = RUNS
    done: list[Run] = field(default_factory=list)

    def add(self, run: Run) -> None:
        """Add an attempt. Raises AssertionError where there are too many."""
        self.done.append(run)
        if len(self.done) > self.limit:
            [(task, count)] = Counter(each.task for each in self.done).most_common(1)
            raise AssertionError(
                f"the drain ran {len(self.done):,} attempts, {count:,} of them of {task}, and there is no end: does"
                " a handler enqueue itself or snooze for ever? If so many are right, give a higher limit="
            )


class Nesting:
    """The drains in progress: several where inline jobs enqueue others, each within the one before."""

    def __init__(self) -> None:
        self.depth = 0
        self._endless: AssertionError | None = None
        self._lock = threading.Lock()

    def __enter__(self) -> None:
        with self._lock:
            if self.depth >= NESTED:
                self._endless = AssertionError(
                    f"inline jobs have enqueued one another {NESTED} deep, and there is no end: does a handler"
                    " enqueue itself? Test it with kit.drain()"
                )
                raise self._endless
            self.depth += 1

    def check(self) -> None:
        """Raise what was found to be endless, at every level: each handler takes it for a failure of its own."""
        if self._endless is not None:
            raise self._endless

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._lock:
            self.depth -= 1
            if self.depth == 0:
                self._endless = None
