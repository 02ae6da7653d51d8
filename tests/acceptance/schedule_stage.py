"""A schedule on a fake clock and a store in memory, with runs that last as long as the test says."""

from datetime import UTC, datetime, timedelta

from holdfast.core.job import ClaimRef, Ending, Failure
from holdfast.core.record import Decision, Fire
from holdfast.core.states import Move, State
from holdfast.schedule import due, errands
from holdfast.schedule.plan import Schedule, Template
from holdfast.schedule.schedules import Schedules
from holdfast.store.errand import Errand, run_errand
from holdfast.store.memory.backend import MemoryBackend
from holdfast.store.protocol import ClaimRequest, WorkerInfo
from holdfast.testing.clock import FakeClock

NOON = datetime(2030, 6, 1, 12, tzinfo=UTC)
NAME = "tidy"
WORKER = "worker-1"


class Stage:
    """Time passes only when the test says so; a look fires what is due, and nothing else does."""

    def __init__(self, rule, *, ahead: float = 0.0, start: datetime = NOON) -> None:
        self.clock = FakeClock(start)
        self.backend = MemoryBackend(self.clock)
        self.ahead = timedelta(seconds=ahead)
        self.verbs = self.backend.verbs
        self.schedules = Schedules(self.verbs, self.ahead)
        self._calls = 0
        lease = timedelta(days=365)
        self.backend.run(self.verbs.register(WorkerInfo(WORKER, "parent", "host", 1, lease)))
        self.call(errands.create(self.verbs, NAME, rule, Template("tidy_up", b"{}"), self.ahead))

    def call(self, errand: Errand):
        return run_errand(self.backend.run, errand)

    @property
    def schedule(self) -> Schedule:
        return self.call(self.schedules.get(NAME))

    @property
    def now(self) -> datetime:
        return self.clock.now()

    def at(self, seconds: float) -> datetime:
        return NOON + timedelta(seconds=seconds)

    def sleep_until(self, seconds: float) -> None:
        """Let time pass, with nobody there."""
        self.clock.advance((self.at(seconds) - self.now).total_seconds())

    def live_until(self, seconds: float) -> None:
        """Let time pass with a supervisor that looks whenever the schedule is due."""
        self.look()
        while (due_at := self.schedule.due_at) is not None and due_at <= self.at(seconds):
            self.clock.advance(max((due_at - self.now).total_seconds(), 0.0))
            self.look()
        self.sleep_until(seconds)

    def look(self) -> tuple[Fire, ...]:
        return self.call(due.fire_due(self.verbs, self.ahead)).fires

    def start_all(self) -> list[ClaimRef]:
        """Let a worker take and start what is due; return the claims."""
        self._calls += 1
        answer = self.backend.run(self.verbs.claim(ClaimRequest(WORKER, self._calls, 500)))
        refs = [claim.ref for claim in answer.jobs]
        self.backend.run(self.verbs.start(WORKER, [(ref, self.now) for ref in refs]))
        return refs

    def end(self, refs: list[ClaimRef], move: Move = Move.COMPLETE) -> None:
        failure = Failure("ValueError", "no") if move is Move.DIE else None
        self.backend.run(self.verbs.finish(WORKER, [Ending(ref, move, failure=failure) for ref in refs]))

    def history(self) -> list[tuple[float, str]]:
        """Return (planned, decision) by time, in seconds since noon; several in a row with how many they are."""
        return [((fire.planned - NOON).total_seconds(), _word(fire)) for fire in reversed(self.fires())]

    def fires(self) -> tuple[Fire, ...]:
        return self.backend.run(self.verbs.fires(NAME, 1000))

    def state(self, fire: Fire) -> State:
        assert fire.job_id is not None
        return self.backend.run(self.verbs.glance([fire.job_id]))[fire.job_id].state

    def decided(self, decision: Decision) -> list[Fire]:
        return [fire for fire in reversed(self.fires()) if fire.decision is decision]


def _word(fire: Fire) -> str:
    return str(fire.decision) if fire.count == 1 else f"{fire.count} {fire.decision}"
