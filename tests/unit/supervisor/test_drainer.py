"""Drained workers end what they run and leave, and nobody takes their place until somebody wants that."""

import asyncio
import dataclasses
from datetime import timedelta

import pytest
from household import Household
from msgspec.structs import replace

from simulator.fleet import KILLED, Tree
from simulator.land import PLAIN, Land
from simulator.loop import VirtualLoop
from simulator.process import Process
from simulator.story import SETTINGS
from simulator.wishes import make_wish
from simulator.world import World
from standfast.events import Events
from standfast.model.job import Job
from standfast.model.states import State
from standfast.stores.verb import arun_procedure
from standfast.supervisor import orders
from standfast.supervisor.child import ChildSlot
from standfast.supervisor.orders import RefusedError, give_order
from standfast.supervisor.recycler import Drainer

BEATEN = SETTINGS.beat_every + 1.5
"""Seconds until an order was taken."""

STARTED = 10.0


def play(story) -> None:
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        runner.run(story())


class Scene:
    """A supervisor with some children, and people who order things."""

    def __init__(self, processes: int = 2, land: Land = PLAIN, **settings) -> None:
        self.world = World(1, land)
        self.tree = Tree(self.world, replace(SETTINGS, **settings), processes)

    @property
    def alive(self) -> list[Process]:
        return [process for process in self.tree.children if process.alive]

    def worker(self, process: Process) -> str:
        return next(name for name, each in self.world.worker_process.items() if each is process)

    async def order(self, what: str, process: Process) -> None:
        await arun_procedure(self.world.call, give_order(self.world.store, what, self.worker(process)))
        await asyncio.sleep(BEATEN)

    async def drain(self, process: Process) -> None:
        await self.order(orders.DRAIN, process)

    async def enqueue(self, *seconds: float, kind: str = "fine") -> list[str]:
        """Enqueue jobs that take so long, and let them start."""
        ids = [f"{kind}-{self.world.clock.boot():g}-{number}" for number in range(len(seconds))]
        for job_id, length in zip(ids, seconds, strict=True):
            options = {"priority": 0, "queue": "default", "delay": timedelta(), "max_attempts": 20}
            wish = make_wish(kind, job_id, "work", {"kind": kind, "seconds": length}, **options)
            await self.world.call(self.world.store.enqueue((wish.job,)))
        await asyncio.sleep(1)
        return ids

    async def job(self, job_id: str) -> Job:
        job = await self.world.call(self.world.store.get(job_id))
        assert job is not None
        return job

    async def runner_of(self, job_id: str) -> Process:
        job = await self.job(job_id)
        assert job.worker is not None
        return self.world.worker_process[job.worker]

    def told(self, event: str) -> int:
        return sum(line.endswith(f" {event}") for line in self.world.trace.lines)

    async def end(self) -> None:
        """Nothing was broken on the way; and what is left comes to its end."""
        self.tree.stop()
        await asyncio.sleep(30)
        assert self.world.trace.violations == []
        assert not self.tree.process.alive
        for process in self.world.processes:
            process.haunt()


def test_it_ends_what_it_runs_and_its_place_stays_empty() -> None:
    """Nothing is given back or charged; the other goes on, and takes what comes."""

    async def story() -> None:
        scene = Scene(drain_limit=600.0)
        await asyncio.sleep(STARTED)
        [long] = await scene.enqueue(100)
        drained = await scene.runner_of(long)
        await scene.drain(drained)
        [other] = [process for process in scene.alive if process is not drained]
        short = await scene.enqueue(*[1] * 6)
        await asyncio.sleep(20)
        assert {(await scene.job(job)).state for job in short} == {State.COMPLETED}
        assert {await scene.runner_of(job) for job in short} == {other}
        assert (drained.alive, len(scene.tree.children)) == (True, 2)
        await asyncio.sleep(300)
        ended = await scene.job(long)
        assert (ended.state, ended.attempt, ended.crashes, ended.fence) == (State.COMPLETED, 0, 0, 1)
        assert await scene.runner_of(long) is drained
        assert drained.exit.result() == 0
        assert len(scene.tree.children) == 2
        assert (scene.told("WorkerDraining"), scene.told("WorkerDrained")) == (1, 1)
        await scene.end()

    play(story)


def test_at_the_limit_it_is_as_at_a_graceful_stop() -> None:
    """What still runs then goes back, uncharged, and another has it."""

    async def story() -> None:
        scene = Scene(drain_limit=10.0)
        await asyncio.sleep(STARTED)
        [long] = await scene.enqueue(60)
        drained = await scene.runner_of(long)
        await scene.drain(drained)
        assert drained.alive
        await asyncio.sleep(20)
        assert not drained.alive
        job = await scene.job(long)
        assert (job.state, job.attempt, job.crashes, job.fence) == (State.RUNNING, 0, 0, 2)
        await asyncio.sleep(60)
        await scene.end()

    play(story)


def test_when_all_places_are_drained_the_supervisor_ends() -> None:
    """In peace, when the last job has."""

    async def story() -> None:
        scene = Scene(drain_limit=600.0)
        await asyncio.sleep(STARTED)
        jobs = await scene.enqueue(*[50] * 6)
        for process in scene.alive:
            await scene.drain(process)
        await asyncio.sleep(20)
        assert scene.tree.process.alive
        await asyncio.sleep(60)
        assert not scene.tree.process.alive
        assert [process.exit.result() for process in scene.tree.children] == [0, 0]
        assert {(await scene.job(job)).state for job in jobs} == {State.COMPLETED}
        assert scene.told("WorkerDrained") == 2
        assert scene.world.trace.violations == []

    play(story)


@pytest.mark.parametrize("again", ["reload", "recycle"])
def test_a_reload_or_a_recycle_fills_the_place_again(again) -> None:
    async def story() -> None:
        scene = Scene()
        await asyncio.sleep(STARTED)
        drained, other = scene.alive
        await scene.drain(drained)
        await asyncio.sleep(30)
        assert scene.alive == [other]
        if again == "reload":
            scene.tree._supervisor.reload()
        else:
            await scene.order(orders.RECYCLE, other)
        await asyncio.sleep(30)
        assert len(scene.alive) == 2
        assert not {drained, other} & set(scene.alive)
        await scene.end()

    play(story)


def test_a_drained_place_is_not_recycled_by_age() -> None:
    """Nor is one that still ends what it runs: the other place is."""

    async def story() -> None:
        scene = Scene(drain_limit=600.0, recycle_age=30.0)
        await asyncio.sleep(STARTED)
        [long] = await scene.enqueue(100)
        drained = await scene.runner_of(long)
        await scene.drain(drained)
        await asyncio.sleep(80)
        assert drained.alive
        assert scene.told("WorkerRecycling") > 1
        await asyncio.sleep(80)
        assert not drained.alive
        assert (await scene.job(long)).state is State.COMPLETED
        assert len(scene.alive) == 1
        await scene.end()

    play(story)


@pytest.mark.parametrize("busy", [True, False])
def test_who_is_drained_while_it_is_replaced_takes_the_fresh_one_along(caplog, busy) -> None:
    """The fresh one only starts, or works already: neither stays, and nothing of that is a failure."""

    async def story() -> None:
        for wait in (0.0, 0.1, *((1.0, 8.0) if busy else ())):
            scene = Scene(drain_limit=600.0)
            await asyncio.sleep(STARTED)
            jobs = await scene.enqueue(*([40] if busy else []))
            drained = await scene.runner_of(jobs[0]) if busy else scene.alive[0]
            await arun_procedure(
                scene.world.call, give_order(scene.world.store, orders.RECYCLE, scene.worker(drained))
            )
            while len(scene.tree.children) < 3:  # noqa: ASYNC110 - no process tells of its start
                await asyncio.sleep(0.01)
            await asyncio.sleep(wait)
            scene.tree._supervisor._drainer.drain(scene.worker(drained), 600.0)
            await asyncio.sleep(100)
            assert len(scene.alive) == 1
            assert not {drained, scene.tree.children[2]} & set(scene.alive)
            assert {(await scene.job(job)).state for job in jobs} <= {State.COMPLETED}
            assert (scene.told("WorkerDrained"), scene.told("WorkerNotRecycled")) == (1, 0)
            await scene.end()

    play(story)
    assert "ended before" not in caplog.text


def test_one_that_is_just_being_started_in_a_drained_place_has_to_go() -> None:
    """The old one cannot go on, and still ends what it runs, when it is drained."""

    async def story() -> None:
        scene = Scene(drain_limit=600.0, grace=60.0, land=dataclasses.replace(PLAIN, launch=20.0))
        await asyncio.sleep(50)
        [long] = await scene.enqueue(40)
        drained = await scene.runner_of(long)
        supervisor = scene.tree._supervisor
        supervisor._children.ask_to_leave(supervisor._children.child(scene.worker(drained)))
        await asyncio.sleep(0.1)
        assert len(scene.tree.children) == 2
        supervisor._drainer.drain(scene.worker(drained), 600.0)
        await asyncio.sleep(100)
        assert len(scene.tree.children) == 3
        assert len(scene.alive) == 1
        assert (await scene.job(long)).state is State.COMPLETED
        await scene.end()

    play(story)


def test_one_that_dies_while_it_drains_is_not_replaced_either() -> None:
    """What it had is given back, and done elsewhere."""

    async def story() -> None:
        scene = Scene(drain_limit=600.0)
        await asyncio.sleep(STARTED)
        [long] = await scene.enqueue(20)
        drained = await scene.runner_of(long)
        await scene.drain(drained)
        drained.end(KILLED)
        await asyncio.sleep(60)
        assert (await scene.job(long)).state is State.COMPLETED
        assert drained not in scene.alive
        assert len(scene.alive) == 1
        assert scene.told("WorkerDrained") == 1
        await scene.end()

    play(story)


def test_where_all_are_drained_no_suspect_is_taken() -> None:
    """It would be a job more: others have it, or the supervisor when it is started again."""

    async def story() -> None:
        scene = Scene(drain_limit=600.0, concurrency=1)
        await asyncio.sleep(STARTED)
        [long] = await scene.enqueue(100)
        [deadly] = await scene.enqueue(20, kind="crash_once")
        for process in scene.alive:
            await scene.drain(process)
        await asyncio.sleep(60)
        assert (len(scene.alive), len(scene.tree.children)) == (1, 2)
        await asyncio.sleep(60)
        assert not scene.tree.process.alive
        assert (await scene.job(long)).state is State.COMPLETED
        assert (await scene.job(deadly)).state is State.READY
        await scene.end()

    play(story)


def test_a_stop_meanwhile_is_a_stop() -> None:
    """Within the grace, however long the drain might have lasted."""

    async def story() -> None:
        scene = Scene(drain_limit=600.0)
        await asyncio.sleep(STARTED)
        [long] = await scene.enqueue(300)
        await scene.drain(await scene.runner_of(long))
        scene.tree.stop()
        await asyncio.sleep(SETTINGS.grace + 5)
        assert not scene.tree.process.alive
        job = await scene.job(long)
        assert (job.state, job.attempt, job.crashes) == (State.READY, 0, 0)
        assert scene.world.trace.violations == []

    play(story)


class OneChild:
    """A crew that has the child of a household."""

    stopping = False

    def __init__(self, child) -> None:
        self.places = [ChildSlot()]
        self.child = child

    def living(self) -> list:
        return [self.child]


@pytest.mark.virtual_time
async def test_who_cannot_be_drained_says_so() -> None:
    """One that is there for a single job, and one whose process is not ours."""
    crew = OneChild(Household().child)
    orders = Drainer(crew, Events())
    with pytest.raises(RefusedError, match="leaves by itself"):
        orders.drain("ours", 1.0)
    crew.child.place = crew.places[0]
    crew.child.process.killable = False
    with pytest.raises(RefusedError, match="is stopped with its host"):
        orders.drain("ours", 1.0)
    assert not crew.places[0].drained
