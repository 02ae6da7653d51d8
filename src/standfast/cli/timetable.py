"""The schedules of an open store: what every command about them goes through."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TypeVar

from standfast.cli.connection import existing_store
from standfast.cli.failures import say_failed
from standfast.core.record import Fire, Kind
from standfast.schedule.declaring import read_releases
from standfast.schedule.plan import Schedule, read_schedules
from standfast.schedule.schedules import Schedules
from standfast.settings import Settings
from standfast.store.backend import Backend
from standfast.store.errand import Errand, run_errand
from standfast.store.protocol import ask_time
from standfast.store.verb import Verb

T = TypeVar("T")

_A_MOMENT = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class Timetable:
    """The schedules of a store, how far `ahead` of their time they are fired, and what time the store has."""

    backend: Backend
    schedules: Schedules
    ahead: timedelta
    now: datetime

    def call(self, what: Verb[T] | Errand[T]) -> T:
        """Run a verb or an errand."""
        return run_errand(self.backend.run, what) if isinstance(what, Errand) else self.backend.run(what)

    def read(self, name: str | None = None) -> list[Schedule]:
        """Return one schedule, or all by name; of those that cannot be read, say so on stderr."""
        if name is not None:
            return [self.call(self.schedules.get(name))]
        records = self.call(self.backend.verbs.records(Kind.SCHEDULE))
        schedules, unreadable = read_schedules(records)
        for error in unreadable:
            say_failed(str(error))
        return schedules

    def last_fire(self, name: str) -> Fire | None:
        """Return what became of the last planned time of a schedule that has come."""
        fires = self.call(self.schedules.fires(name, 1, before=self.now + _A_MOMENT))
        return fires[0] if fires else None

    def counting_release(self, app: str) -> str | None:
        """Return the release of an app whose schedules count, if the store has seen one."""
        records = self.call(self.backend.verbs.records(Kind.RELEASE, (app,)))
        return read_releases(records).names[-1] if records else None

    def nobody_fires(self) -> bool:
        """Tell whether no worker is alive, so that nothing will be fired."""
        return not any(worker.is_live for worker in self.call(self.backend.verbs.workers()))


@contextmanager
def open_timetable(settings: Settings) -> Iterator[Timetable]:
    """Open the store, which must exist, and close it at the end."""
    with existing_store(settings) as backend:
        now = backend.run(ask_time(backend.verbs)).now
        ahead = timedelta(seconds=settings.look_ahead)
        yield Timetable(backend, Schedules(backend.verbs, ahead), ahead, now)
