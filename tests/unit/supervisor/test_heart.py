"""The beat: what it brings to the children, and when it earns the right to bury."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from random import Random

from msgspec.structs import replace

from holdfast.core.job import ClaimRef, Ending, NewJob, OnConflict
from holdfast.core.states import Move, State
from holdfast.errors import StoreUnavailableError
from holdfast.events import Events
from holdfast.settings import Settings
from holdfast.store.memory.backend import MemoryBackend
from holdfast.store.protocol import BeatAnswer, ClaimRequest, WorkerInfo
from holdfast.store.verb import Verb
from holdfast.supervisor.child import Child, ChildSpec, Phase
from holdfast.supervisor.heart import SWEEP_EVERY, SWEPT_AT_ONCE, Heart
from holdfast.testing.simulator.fleet import SimulatedChild
from holdfast.testing.simulator.loop import VirtualLoop
from holdfast.testing.simulator.process import Process
from holdfast.testing.simulator.wires import MemoryLog, WireEnd
from holdfast.testing.simulator.world import VirtualClock
from holdfast.worker.messages import Adopt, Message, Renewed, Revoke
from holdfast.worker.notes import Notes
from holdfast.worker.storecalls import StoreCalls

SETTINGS = Settings(url="memory://", lease=15.0, keep_finished=100.0)


class Scene:
    """A heart with one child `ours`, and a store in which another worker may be registered."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.backend = Moody(self.clock)
        self.verbs = self.backend.verbs
        process, supervisor = Process(1, "child"), Process(2, "supervisor")
        near, self.far = WireEnd.pair(supervisor, process)
        self.log = MemoryLog()
        self.notes = Notes(self.log)
        self.child = Child(ChildSpec("ours"), SimulatedChild(process, near, self.log), 0.0, Phase.WORKING)
        self.parted: list[str] = []
        self.suspects = 0
        calls = StoreCalls(self.backend, self.clock, Events(), Random(1), timeout=5.0)
        self.heart = Heart(
            calls,
            self.clock,
            SETTINGS,
            Events(),
            children=lambda: [self.child],
            part_with=lambda child: self.parted.append(child.worker),
            suspects_wait=self._count_suspects,
        )
        self.register("ours")
        self._beating = asyncio.ensure_future(self.heart.run())

    def _count_suspects(self, _queues: frozenset[str]) -> None:
        self.suspects += 1

    def register(self, worker: str) -> None:
        self.backend.run(self.verbs.register(WorkerInfo(worker, "s", "host", 1, timedelta(seconds=15))))

    def claim(self, worker: str) -> None:
        self.backend.run(self.verbs.enqueue([NewJob("job", "task", b"{}")]))
        answer = self.backend.run(self.verbs.claim(ClaimRequest(worker, 1, 1)))
        self.notes.answered(1, [claim.ref for claim in answer.jobs])

    def state(self) -> State:
        job = self.backend.run(self.verbs.get("job"))
        assert job is not None
        return job.state

    async def next_words(self) -> list[Message | None]:
        """Return all that the child hears of the next beat."""
        words = [await self.far.receive()]
        while not isinstance(words[-1], Renewed):
            words.append(await self.far.receive())
        return words


class Moody(MemoryBackend):
    """A store that can be away, and whose clock can be set forward, so that it finds everybody else's beat old."""

    away = False
    ahead = timedelta()
    condemned_at: float | None = None

    async def arun(self, verb: Verb[object]) -> object:
        if self.away:
            raise StoreUnavailableError("away")
        answer = await super().arun(verb)
        if verb.name == "condemn" and self.condemned_at is None:
            self.condemned_at = asyncio.get_running_loop().time()
        if isinstance(answer, BeatAnswer) and self.ahead:
            return replace(answer, now=answer.now + self.ahead, expired=frozenset({"other"}))
        return answer


def play(scenario: Callable[[Scene], Awaitable[None]]) -> None:
    async def run() -> None:
        await scenario(Scene())

    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        runner.run(run())


def test_a_revocation_is_heard_before_the_renewal() -> None:
    """The renewal lets held jobs start, so what is wanted back must be said first."""

    async def scenario(scene: Scene) -> None:
        scene.claim("ours")
        scene.backend.run(scene.verbs.cancel("job"))
        scene.backend.run(scene.verbs.pause("mail"))
        await scene.next_words()
        revoke, renewed = await scene.next_words()
        assert revoke == Revoke((("job", 1),), ("mail",))
        assert isinstance(renewed, Renewed)

    play(scenario)


def test_what_is_to_give_way_is_heard_before_the_renewal() -> None:
    """A claim whose job has a replacement is named apart from those whose cancellation was asked for."""

    async def scenario(scene: Scene) -> None:
        scene.backend.run(scene.verbs.enqueue([NewJob("old", "task", b"{}", key="k")]))
        answer = scene.backend.run(scene.verbs.claim(ClaimRequest("ours", 1, 1)))
        scene.notes.answered(1, [claim.ref for claim in answer.jobs])
        replacement = NewJob("new", "task", b"{}", key="k", on_conflict=OnConflict.REPLACE)
        scene.backend.run(scene.verbs.enqueue([replacement]))
        await scene.next_words()
        revoke, renewed = await scene.next_words()
        assert revoke == Revoke((), (), (("old", 1),))
        assert isinstance(renewed, Renewed)

    play(scenario)


def test_results_whose_time_is_over_are_swept_now_and_again() -> None:
    """About once a minute, all of them, though one call takes some only."""

    async def scenario(scene: Scene) -> None:
        rows = SWEPT_AT_ONCE + 1
        jobs = [NewJob(f"job-{number}", "task", b"{}") for number in range(rows)]
        scene.backend.run(scene.verbs.enqueue(jobs))
        claims = scene.backend.run(scene.verbs.claim(ClaimRequest("ours", 1, rows))).jobs
        span = timedelta(seconds=1)
        endings = [Ending(claim.ref, Move.COMPLETE, result=b"1", keep_result=span) for claim in claims]
        scene.backend.run(scene.verbs.finish("ours", endings))

        def left() -> int:
            return sum(row.result is not None for row in scene.backend.verbs._jobs.values())

        beat = SETTINGS.beat_every
        await asyncio.sleep(SWEEP_EVERY - beat / 2)
        assert left() == rows
        await asyncio.sleep(beat)
        assert left() == 0

    play(scenario)


def test_finished_jobs_whose_time_is_over_are_retired() -> None:
    """At a look after `keep_finished`, and not at one before."""

    async def scenario(scene: Scene) -> None:
        scene.claim("ours")
        scene.backend.run(scene.verbs.finish("ours", [Ending(ClaimRef("job", 1), Move.COMPLETE)]))
        await asyncio.sleep(SETTINGS.keep_finished - 1)
        assert scene.state() is State.COMPLETED
        await asyncio.sleep(SWEEP_EVERY)
        assert scene.backend.run(scene.verbs.get("job")) is None

    play(scenario)


def test_nobody_is_buried_before_a_whole_lease_of_unbroken_beats() -> None:
    """A supervisor that just started, or just came back from an outage, gives the others time to beat."""

    async def scenario(scene: Scene) -> None:
        scene.register("gone")
        await asyncio.sleep(14.0)
        scene.backend.away = True
        await asyncio.sleep(20.0)
        scene.backend.away = False
        await asyncio.sleep(14.0)
        assert [worker.info.id for worker in scene.backend.run(scene.verbs.workers())] == ["ours", "gone"]
        await asyncio.sleep(3.0)
        assert [worker.info.id for worker in scene.backend.run(scene.verbs.workers())] == ["ours"]

    play(scenario)


def test_nobody_is_condemned_because_the_clock_of_the_store_was_set() -> None:
    """After such a step every lease looks expired; for a whole lease the others have time to beat again."""

    async def scenario(scene: Scene) -> None:
        await asyncio.sleep(41.0)
        set_at = asyncio.get_running_loop().time()
        scene.backend.ahead = timedelta(hours=1)
        await asyncio.sleep(30.0)
        assert scene.backend.condemned_at is not None
        assert scene.backend.condemned_at - set_at >= SETTINGS.lease

    play(scenario)


def test_the_vanished_are_buried_soon_after_their_lease() -> None:
    """The beat's answer says when the next lease runs out; burial does not wait for the next regular beat."""

    async def scenario(scene: Scene) -> None:
        await asyncio.sleep(41.0)
        scene.register("gone")
        scene.claim("gone")
        await asyncio.sleep(15.0)
        assert scene.state() is State.HELD
        await asyncio.sleep(0.2)
        assert scene.state() is State.READY

    play(scenario)


def test_a_claim_that_nobody_noted_is_released() -> None:
    """The answer of a claim call got lost: what the store gave away then comes back at the next beats."""

    async def scenario(scene: Scene) -> None:
        scene.backend.run(scene.verbs.enqueue([NewJob("job", "task", b"{}")]))
        scene.backend.run(scene.verbs.claim(ClaimRequest("ours", 1, 1)))
        await asyncio.sleep(20.0)
        assert scene.state() is State.HELD
        scene.notes.given_up(1)
        await asyncio.sleep(6.0)
        assert scene.state() is State.READY

    play(scenario)


def test_a_refused_beat_parts_with_the_child() -> None:
    """Who was buried by others is told so, and gets no renewal."""

    async def scenario(scene: Scene) -> None:
        await scene.next_words()
        scene.register("other")
        await asyncio.sleep(0)
        scene.backend.verbs._workers["ours"].condemned = True
        await asyncio.sleep(6.0)
        assert scene.parted[:1] == ["ours"]

    play(scenario)


def test_blocked_tasks_and_suspects_are_passed_on() -> None:
    """A worker hears which tasks wait for one that knows them; a supervisor, that suspects wait for a child."""

    async def scenario(scene: Scene) -> None:
        scene.claim("ours")
        row = scene.backend.verbs._jobs["job"]
        row.block("no_worker")
        await scene.next_words()
        await scene.next_words()
        assert await scene.far.receive() == Adopt((("task", 1),))
        row.wait(scene.clock.now())
        row.alone = True
        await asyncio.sleep(6.0)
        assert scene.suspects > 0

    play(scenario)
