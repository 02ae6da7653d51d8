"""The schedules of a kit's app: declared when they should be, and fired when the test says so."""

from datetime import datetime, timedelta

from standfast.core.record import Fire, Kind
from standfast.schedule.declaring import Declarer, release_of, synchronise
from standfast.schedule.due import fire_due
from standfast.store.errand import run_errand
from standfast.supervisor.firing import events_of
from standfast.testing.runner import Ground

_AT_THEIR_TIME = timedelta()
"""Nothing is fired ahead: what a test does not let come does not happen."""


class Clockwork:
    """What the workers and supervisors of a kit would do about schedules."""

    def __init__(self, ground: Ground) -> None:
        self._app, self._backend, self._events = ground.app, ground.backend, ground.events
        self._declared = 0

    def declare(self) -> None:
        """Bring into the store what the app declares, unless that is done."""
        declared, windows = self._app.declarations, self._app.windows
        if len(declared) == self._declared:
            return
        self._declared = len(declared)
        settings = self._app.settings
        name, release = settings.name or "kit", settings.release or release_of(declared, windows)
        who = Declarer(name, release, worker="", ahead=_AT_THEIR_TIME, insists=True)
        run_errand(self._backend.run, synchronise(self._backend.verbs, who, declared, windows))

    def fire(self) -> list[Fire]:
        """Decide about all that is due; return what was decided."""
        self.declare()
        fires: list[Fire] = []
        while self._due():
            look = run_errand(self._backend.run, fire_due(self._backend.verbs, _AT_THEIR_TIME))
            fires += look.fires
            for event in events_of(look):
                self._events.emit(event)
        return fires

    def next_due_at(self) -> datetime | None:
        """Return when a schedule is due next."""
        records = self._backend.run(self._backend.verbs.records(Kind.SCHEDULE))
        return min((record.due_at for record in records if record.due_at is not None), default=None)

    def _due(self) -> bool:
        looked = self._backend.run(self._backend.verbs.due_records(Kind.SCHEDULE, timedelta(), 1))
        return bool(looked.records)
