"""A schedule whose runs last as long as the test says."""

from datetime import datetime, timedelta

from schedule_stage import NOON, WORKER, Stage
from standfast.model.job import ClaimRef, Ending, Failure
from standfast.model.records import Decision, Fire
from standfast.model.states import Move, State


class PolicyStage(Stage):
    """Time passes only when the test says so; a look fires what is due, and nothing else does."""

    def __init__(self, rule, *, ahead: float = 0.0) -> None:
        super().__init__(rule, ahead=ahead)

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

    def start_all(self) -> list[ClaimRef]:
        """Let a worker take and start what is due; return the claims."""
        refs = self.claim(look_ahead=timedelta())
        self.start(refs)
        return refs

    def end(self, refs: list[ClaimRef], move: Move = Move.COMPLETE) -> None:
        failure = Failure("ValueError", "no") if move is Move.DIE else None
        self.backend.run(self.verbs.finish(WORKER, [Ending(ref, move, failure=failure) for ref in refs]))

    def history(self) -> list[tuple[float, str]]:
        """Return (planned, decision) by time, in seconds since noon; several in a row with how many they are."""
        return [((fire.planned - NOON).total_seconds(), _word(fire)) for fire in self.fires()]

    def state(self, fire: Fire) -> State:
        assert fire.job_id is not None
        return self.backend.run(self.verbs.glance([fire.job_id]))[fire.job_id].state

    def decided(self, decision: Decision) -> list[Fire]:
        return [fire for fire in self.fires() if fire.decision is decision]


def _word(fire: Fire) -> str:
    return str(fire.decision) if fire.count == 1 else f"{fire.count} {fire.decision}"
