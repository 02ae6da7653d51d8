"""What the beat carries between a child and the store about turns and time."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from random import Random

import pytest
from msgspec.structs import replace

from holdfast.core.job import NewJob
from holdfast.events import Events
from holdfast.settings import Settings
from holdfast.store.memory.backend import MemoryBackend
from holdfast.store.protocol import ClaimRequest, Turn, WorkerBeat, WorkerInfo
from holdfast.store.verb import Verb
from holdfast.supervisor.child import Child, ChildSpec, Phase
from holdfast.supervisor.heart import SWEEP_EVERY, Heart
from holdfast.testing.simulator.fleet import SimulatedChild
from holdfast.testing.simulator.loop import VirtualLoop
from holdfast.testing.simulator.process import Process
from holdfast.testing.simulator.wires import MemoryLog, WireEnd
from holdfast.testing.simulator.world import VirtualClock
from holdfast.worker.messages import Renewed, Told
from holdfast.worker.storecalls import StoreCalls

SETTINGS = Settings(url="memory://", lease=15.0)
LATENCY = 0.25


class SlowBackend(MemoryBackend):
    """A store that takes its time, and says what it was called."""

    def __init__(self, clock: VirtualClock) -> None:
        super().__init__(clock)
        self.called: list[str] = []

    async def arun(self, verb: Verb[object]) -> object:
        self.called.append(verb.name)
        await asyncio.sleep(LATENCY)
        answer = await super().arun(verb)
        await asyncio.sleep(LATENCY)
        return answer


class Scene:
    """A heart with the child `m`, and others in the store."""

    def __init__(self, settings: Settings = SETTINGS) -> None:
        self.clock = VirtualClock()
        self.backend = SlowBackend(self.clock)
        self.verbs = self.backend.verbs
        process, supervisor = Process(1, "child"), Process(2, "supervisor")
        near, self.far = WireEnd.pair(supervisor, process)
        self.child = Child(ChildSpec("m"), SimulatedChild(process, near, MemoryLog()), 0.0, Phase.WORKING)
        calls = StoreCalls(self.backend, self.clock, Events(), Random(1), timeout=5.0)
        self.heart = Heart(
            calls,
            self.clock,
            settings,
            Events(),
            children=lambda: [self.child],
            part_with=lambda _: None,
            suspects_wait=lambda _: None,
        )
        self.register("m")
        self._beating = asyncio.ensure_future(self.heart.run())

    def register(self, worker: str) -> None:
        self.backend.run(self.verbs.register(WorkerInfo(worker, "s", "host", 1, timedelta(seconds=15))))

    async def told(self) -> Told:
        """Return what the child hears with the next beat."""
        word = await self.far.receive()
        assert isinstance(word, Renewed)
        assert word.told is not None
        return word.told


def play(scenario: Callable[[Scene], Awaitable[None]], settings: Settings = SETTINGS) -> None:
    async def run() -> None:
        await scenario(Scene(settings))

    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        runner.run(run())


def test_a_child_hears_the_stores_time_and_when_it_was_told() -> None:
    async def scenario(scene: Scene) -> None:
        told = await scene.told()
        assert told.answered_at == pytest.approx(2 * LATENCY, abs=0.001)
        assert (told.now - scene.clock.now()).total_seconds() == pytest.approx(-LATENCY, abs=0.01)

    play(scenario)


def test_a_child_hears_its_place_and_others_hear_when_it_looked() -> None:
    async def scenario(scene: Scene) -> None:
        scene.register("a")
        scene.register("z")
        scene.child.polled_at = scene.clock.now()
        assert (await scene.told()).turn == Turn(1, 3, scene.child.polled_at)
        other = scene.backend.run(scene.verbs.beat([WorkerBeat("z")])).turns["z"]
        assert other == Turn(2, 3, scene.child.polled_at)

    play(scenario)


@pytest.mark.parametrize(("other", "sweeps"), [("a", False), ("z", True), (None, True)])
def test_only_the_first_of_all_sweeps(other: str | None, sweeps: bool) -> None:
    """What is done once for the whole fleet is not done more often in a larger one."""

    async def scenario(scene: Scene) -> None:
        if other is not None:
            scene.register(other)
        for _ in range(int(2 * SWEEP_EVERY)):
            await asyncio.sleep(1)
            if other is not None:
                scene.backend.run(scene.verbs.beat([WorkerBeat(other)]))
        assert ("sweep" in scene.backend.called) is sweeps

    play(scenario)


def test_when_the_first_is_gone_the_next_one_sweeps() -> None:
    async def scenario(scene: Scene) -> None:
        scene.register("a")
        await asyncio.sleep(SETTINGS.lease + 10)
        assert "sweep" in scene.backend.called

    play(scenario)


def test_after_a_burial_the_child_is_told_once_to_look() -> None:
    """What the buried worker had has come back, and there may be no bell to tell of it."""

    async def scenario(scene: Scene) -> None:
        scene.register("a")
        scene.backend.run(scene.verbs.enqueue([NewJob("job", "task", b"{}")]))
        scene.backend.run(scene.verbs.claim(ClaimRequest("a", 1, 1)))
        looks: list[float] = []
        while scene.clock.boot() < 60:
            if (await scene.told()).look:
                looks.append(scene.clock.boot())
        [at] = looks
        assert at <= SETTINGS.lease + SETTINGS.beat_every + 2

    play(scenario)


def test_a_supervisor_that_buried_its_own_child_has_another_look() -> None:
    async def scenario(scene: Scene) -> None:
        assert not (await scene.told()).look
        scene.heart.look_soon()
        assert (await scene.told()).look
        assert not (await scene.told()).look

    play(scenario)


@pytest.mark.parametrize("phase", [Phase.LEAVING])
def test_a_child_that_leaves_is_not_sent_to_look(phase: Phase) -> None:
    async def scenario(scene: Scene) -> None:
        scene.child.phase = phase
        scene.heart.look_soon()
        assert not (await scene.told()).look

    play(scenario)


def test_where_slots_are_long_all_beat_shortly_before_each() -> None:
    """So that they know each other when it begins; and no more often than they would have to anyway."""

    async def scenario(scene: Scene) -> None:
        beats = []
        while scene.clock.boot() < 100:
            await scene.told()
            beats.append(scene.clock.boot())
        gaps = [10 - beat % 10 for beat in beats]
        assert sum(gap < 1 for gap in gaps) >= 9
        assert len(beats) <= 34

    play(scenario, replace(SETTINGS, safety_poll=10.0))
