"""The supervisor as a whole, in a simulated world: its own loops may fail."""

import asyncio

from holdfast.supervisor.hangs import HangWatch
from holdfast.supervisor.heart import Heart
from holdfast.supervisor.recycler import Recycler
from holdfast.testing.simulator.fleet import Tree
from holdfast.testing.simulator.loop import VirtualLoop
from holdfast.testing.simulator.story import SETTINGS
from holdfast.testing.simulator.world import World
from holdfast.worker.tending import MOST_FAILURES


def play(story) -> None:
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        runner.run(story())


async def fail(_) -> None:
    raise ValueError("a bug")


def test_a_loop_that_fails_for_good_ends_the_supervisor_in_peace(monkeypatch, caplog) -> None:
    """It says why, after its children have left by themselves."""
    monkeypatch.setattr(HangWatch, "run", fail)

    async def story() -> None:
        world = World(1)
        tree = Tree(world, SETTINGS, 2)
        await asyncio.sleep(60)
        [broken] = world.trace.violations
        assert "the supervisor gives up: its watch over hangs failed: ValueError: a bug" in broken
        assert [process.exit.result() for process in tree.children] == [0, 0]

    play(story)
    assert caplog.text.count("a loop of the supervisor failed: watch over hangs") >= MOST_FAILURES


def test_a_loop_beside_the_work_may_fail_for_good(monkeypatch, caplog) -> None:
    """Children work without it: it is told, and nobody has to leave."""
    monkeypatch.setattr(Recycler, "run", fail)

    async def story() -> None:
        world = World(1)
        tree = Tree(world, SETTINGS, 2)
        await asyncio.sleep(60)
        assert world.trace.violations == []
        assert all(process.alive for process in tree.children)

    play(story)
    assert "goes on without what fails again and again: its replacing of children failed" in caplog.text


def test_a_loop_that_fails_now_and_then_costs_nothing(monkeypatch) -> None:
    """The beat begins anew before a lease is over: no child is lost."""
    beat, beats = Heart._beat, []

    async def stumble(self) -> float:
        beats.append(self)
        if len(beats) % 40 == 0:
            raise ValueError("a bug")
        return await beat(self)

    monkeypatch.setattr(Heart, "_beat", stumble)

    async def story() -> None:
        world = World(1)
        tree = Tree(world, SETTINGS, 2)
        await asyncio.sleep(400)
        assert world.trace.violations == []
        assert [process.alive for process in tree.children] == [True, True]
        assert len(beats) > 100
        tree.stop()
        await asyncio.sleep(30)
        assert [process.exit.result() for process in tree.children] == [0, 0]

    play(story)
