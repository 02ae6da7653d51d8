"""Schedules on a fake clock and a store in memory: nothing is fired but by a look, which a test asks for."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from standfast.model.job import ClaimRef
from standfast.model.records import Change, Fire, Kind
from standfast.model.states import State
from standfast.schedules import fires as due
from standfast.schedules import fires as procedures
from standfast.schedules.operations import Schedules
from standfast.schedules.schedule import Schedule, Template
from standfast.stores.memory.store import MemoryBackend
from standfast.stores.values import ClaimRequest, WorkerInfo
from standfast.stores.verb import Procedure, run_procedure
from standfast.testing.clock import FakeClock

NOON = datetime(2030, 6, 1, 12, tzinfo=UTC)
NAME = "tidy"
JOB = Template(NAME, b"{}")
WORKER = "worker-1"


class Stage:
    """One worker, and one schedule if a rule is given."""

    def __init__(self, rule=None, *, ahead: float = 10.0) -> None:
        self.clock = FakeClock(NOON)
        self.backend = MemoryBackend(self.clock)
        self.verbs = self.backend.verbs
        self.ahead = timedelta(seconds=ahead)
        self.schedules = Schedules(self.verbs, self.ahead)
        self._calls = 0
        self.backend.run(self.verbs.register(WorkerInfo(WORKER, "parent", "host", 1, timedelta(days=365))))
        if rule is not None:
            self.create(NAME, rule)

    def call(self, procedure: Procedure):
        return run_procedure(self.backend.run, procedure)

    def create(self, name: str, rule) -> None:
        self.call(procedures.create(self.verbs, name, rule, JOB, self.ahead))

    def spoil(self, name: str, body: bytes) -> None:
        """Let a schedule be there that nobody can read."""
        change = Change(Kind.SCHEDULE, name, 0, f"spoil {name}", body, self.clock.now())
        assert self.backend.run(self.verbs.change_records([change])) == (True,)

    @property
    def schedule(self) -> Schedule:
        return self.call(self.schedules.get(NAME))

    def look(self) -> due.Fired:
        return self.call(due.fire_due(self.verbs, self.ahead))

    def claim(self, look_ahead: timedelta | None = None) -> list[ClaimRef]:
        """Let the worker take what is due, or soon will be."""
        self._calls += 1
        reach = self.ahead if look_ahead is None else look_ahead
        request = ClaimRequest(WORKER, self._calls, 500, ahead_limit=500, look_ahead=reach)
        return [claim.ref for claim in self.backend.run(self.verbs.claim(request)).jobs]

    def start(self, refs: Sequence[ClaimRef]) -> None:
        self.backend.run(self.verbs.start(WORKER, [(ref, self.clock.now()) for ref in refs]))

    def fires(self) -> list[Fire]:
        """Return its fires, the oldest first."""
        return list(reversed(self.backend.run(self.verbs.fires(NAME, 1000))))

    def live(self) -> list[State]:
        """Return the states of all jobs of its fires that are not cancelled."""
        ids = [fire.job_id for fire in self.fires() if fire.job_id is not None]
        states = [glance.state for glance in self.backend.run(self.verbs.glance(ids)).values()]
        return [state for state in states if state is not State.CANCELLED]
