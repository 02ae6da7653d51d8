"""Tasks that every worker knows without anyone declaring them: the canary, and the delivery of notices."""

from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from typing import Any, TypeVar

from msgspec.structs import replace

from standfast.alerts.channels.command import Programs
from standfast.alerts.delivery import DELIVER, deliver_by
from standfast.alerts.delivery import POLICY as DELIVERY
from standfast.app import Standfast
from standfast.child.canary import CANARY, canary
from standfast.child.canary import POLICY as CANARIES
from standfast.task import Task, declare_task

D = TypeVar("D")


class WithBuiltIn(Mapping[str, Task[..., Any]]):
    """The tasks of an app, those declared later included, and those that are built in."""

    def __init__(self, app: Standfast, now: Callable[[], datetime], name: str = "") -> None:
        self._tasks = app.tasks
        self.programs = Programs()
        """What deliveries have started."""
        deliver = deliver_by(lambda: replace(app.watching, app=name), now, self.programs)
        self._built_in = {
            CANARY: declare_task(canary, CANARY, CANARIES, app),
            DELIVER: declare_task(deliver, DELIVER, DELIVERY, app),
        }

    def get(self, name: str, default: D | None = None) -> Task[..., Any] | D | None:  # type: ignore[override]
        """Return the task, or the default; asked for every job, so the usual case comes first."""
        return self._tasks.get(name) or self._built_in.get(name) or default

    def __getitem__(self, name: str) -> Task[..., Any]:
        found = self.get(name)
        if found is None:
            raise KeyError(name)
        return found

    def __iter__(self) -> Iterator[str]:
        yield from self._tasks
        yield from (name for name in self._built_in if name not in self._tasks)

    def __len__(self) -> int:
        return sum(1 for _ in self)
