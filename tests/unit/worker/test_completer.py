"""Endings reach the store: once in effect, however often they must be sent."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta
from random import Random

from msgspec.structs import replace

from simulator.loop import VirtualLoop
from simulator.wires import MemoryLog
from simulator.world import VirtualClock
from standfast.errors import StoreUnavailableError, ValueNotStoredError
from standfast.events import Event, Events, StoreAway, StoreBack
from standfast.model.job import ClaimRef, Ending, NewJob, Verdict
from standfast.model.states import Move, State
from standfast.observe.figures.counts import Tally
from standfast.stores.memory.store import MemoryBackend
from standfast.stores.values import ClaimRequest, WorkerInfo
from standfast.stores.verb import Verb
from standfast.worker.claim_log import ClaimLog, read_claim_log
from standfast.worker.completer import BACKLOG_LIMIT, Completer, Ended
from standfast.worker.storecalls import StoreCalls


class Unreliable(MemoryBackend):
    """A store that loses answers, is away, or cannot take the outcome of one job."""

    away = False
    lose_answers = 0
    calls = 0

    async def arun(self, verb: Verb[object]) -> object:
        self.calls += 1
        if self.away:
            raise StoreUnavailableError("away")
        answer = await super().arun(verb)
        if self.lose_answers:
            self.lose_answers -= 1
            raise StoreUnavailableError("committed, but the answer is lost")
        return answer


class Scene:
    """A completer with some claimed jobs."""

    def __init__(self, jobs: int = 3) -> None:
        clock = VirtualClock()
        self.backend = Unreliable(clock)
        verbs = self.backend.verbs
        self.backend.run(verbs.register(WorkerInfo("w", "s", "host", 1, timedelta(seconds=15))))
        self.backend.run(verbs.enqueue([NewJob(f"job-{number}", "task", b"{}") for number in range(jobs)]))
        claims = self.backend.run(verbs.claim(ClaimRequest("w", 1, jobs))).jobs
        self.claims = claims
        self.refs = [claim.ref for claim in claims]
        log = MemoryLog()
        notes = ClaimLog(log)
        notes.answered(1, self.refs)
        self.log = log
        self.heard: list[Event] = []
        events = Events()
        events.subscribe(self.heard.append)
        self.settled: list[tuple[ClaimRef, Verdict]] = []
        calls = StoreCalls(self.backend, clock, events, Random(1), timeout=5.0)
        self.crowded_when_relieved: list[bool] = []
        self.completer = Completer(
            calls,
            "w",
            notes,
            lambda ended, verdict: self.settled.append((ended.claim.ref, verdict)),
            lambda: self.crowded_when_relieved.append(self.completer.crowded),
            tally=Tally(clock),
        )
        self._running = asyncio.ensure_future(self.completer.run())

    def complete_all(self) -> None:
        for claim in self.claims:
            self.completer.add(Ended(claim, Ending(claim.ref, Move.COMPLETE, result=b"1")))

    def states(self) -> list[State]:
        jobs = [self.backend.run(self.backend.verbs.get(ref.job_id)) for ref in self.refs]
        return [job.state for job in jobs if job is not None]


def play(scenario: Callable[[], Awaitable[None]]) -> None:
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        runner.run(scenario())


def test_endings_that_come_together_go_together() -> None:
    """A burst is one call, and what the store took is out of hand."""

    async def scenario() -> None:
        scene = Scene(jobs=50)
        scene.complete_all()
        await scene.completer.flushed()
        assert scene.backend.calls == 1
        assert set(scene.states()) == {State.COMPLETED}
        assert read_claim_log(scene.log).held == frozenset()

    play(scenario)


def test_a_lost_answer_is_asked_for_again() -> None:
    """The outcome counts once, and the worker is told that it was accepted."""

    async def scenario() -> None:
        scene = Scene()
        scene.backend.lose_answers = 2
        scene.completer.add(Ended(scene.claims[0], Ending(scene.refs[0], Move.RETRY)))
        await scene.completer.flushed()
        assert scene.settled == [(scene.refs[0], Verdict.ACCEPTED)]
        job = scene.backend.run(scene.backend.verbs.get(scene.refs[0].job_id))
        assert job is not None
        assert job.attempt == 1

    play(scenario)


def test_an_outage_is_said_once_and_survived() -> None:
    """However long the store is away, endings wait; people hear of it twice, not at every try."""

    async def scenario() -> None:
        scene = Scene()
        scene.backend.away = True
        scene.complete_all()
        await asyncio.sleep(60)
        assert scene.settled == []
        assert read_claim_log(scene.log).held == set(scene.refs)
        scene.backend.away = False
        await scene.completer.flushed()
        assert set(scene.states()) == {State.COMPLETED}
        assert [type(event) for event in scene.heard] == [StoreAway, StoreBack]

    play(scenario)


def test_one_outcome_that_cannot_be_stored_holds_up_nobody() -> None:
    """The store refuses one ending for good: the others are taken, and that job is let go to run again."""

    async def scenario() -> None:
        scene = Scene()
        refused, finish = scene.refs[1], scene.backend.verbs.finish

        def picky(worker: str, endings: Sequence[Ending]) -> Verb[tuple[Verdict, ...]]:
            if any(ending.ref == refused for ending in endings):
                raise ValueNotStoredError("this value cannot be stored")
            return finish(worker, endings)

        scene.backend.verbs.finish = picky  # type: ignore[method-assign]
        scene.complete_all()
        await scene.completer.flushed()
        assert scene.states() == [State.COMPLETED, State.HELD, State.COMPLETED]
        assert read_claim_log(scene.log).held == frozenset()

    play(scenario)


def test_a_crowd_of_endings_stops_the_claims() -> None:
    """With too much waiting to be sent, no more jobs are taken."""

    async def scenario() -> None:
        scene = Scene()
        scene.backend.away = True
        assert not scene.completer.crowded
        for number in range(BACKLOG_LIMIT + 1_000):
            ref = ClaimRef(f"other-{number}", 1)
            scene.completer.add(Ended(replace(scene.claims[0], ref=ref), Ending(ref, Move.COMPLETE)))
        await asyncio.sleep(1)
        assert scene.completer.crowded
        scene.backend.away = False
        await scene.completer.flushed()
        assert not scene.crowded_when_relieved[-1], "nobody was told that there is room again"

    play(scenario)
