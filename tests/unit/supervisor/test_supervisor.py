"""The supervisor as a whole, in a simulated world: its own loops may fail."""

import asyncio

from simulator.fleet import IMPORT_TIME, KILLED, Tree
from simulator.loop import VirtualLoop
from simulator.process import Process
from simulator.story import SETTINGS
from simulator.world import World
from standfast.errors import StoreUnavailableError
from standfast.supervisor.children import EARLY_DEATHS_LIMIT, LONGEST_RESPAWN_PAUSE
from standfast.supervisor.hangs import HangWatch
from standfast.supervisor.heartbeat import Heartbeat
from standfast.supervisor.plan import Plan
from standfast.supervisor.recycler import Recycler
from standfast.supervisor.supervisor import Supervisor
from standfast.worker.loops import MOST_FAILURES


def play(story) -> None:
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        runner.run(story())


class Fragile(Tree):
    """A tree whose children die at their start while its code is broken, or hang there."""

    broken = hanging = False

    async def _child(self, process, *rest) -> None:
        if self.hanging:
            await asyncio.Event().wait()
        elif self.broken:
            await asyncio.sleep(IMPORT_TIME)
            process.end(1)
        else:
            await super()._child(process, *rest)

    def alive(self) -> list[Process]:
        return [process for process in self.children if process.alive]

    async def cleared_away(self) -> None:
        """Let what killed processes left behind come to its end."""
        for process in (self.process, *self.children):
            process.haunt()
        left = asyncio.all_tasks() - {asyncio.current_task()}
        for task in left:
            task.cancel()
        await asyncio.wait(left, timeout=1.0)


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
    beat, beats = Heartbeat._beat, []

    async def stumble(self) -> float:
        beats.append(self)
        if len(beats) % 40 == 0:
            raise ValueError("a bug")
        return await beat(self)

    monkeypatch.setattr(Heartbeat, "_beat", stumble)

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


def test_while_one_child_works_broken_code_does_not_end_the_supervisor(caplog) -> None:
    """It is said each time, tried at leisure, and over when the code is mended."""

    async def story() -> None:
        world = World(1)
        tree = Fragile(world, SETTINGS, 2)
        await asyncio.sleep(20)
        healthy, other = tree.alive()
        tree.broken = True
        other.end(KILLED)
        await asyncio.sleep(300)
        assert healthy.alive
        assert world.trace.violations == []
        assert 2 * EARLY_DEATHS_LIMIT < len(tree.children) < 300 / LONGEST_RESPAWN_PAUSE + EARLY_DEATHS_LIMIT
        assert caplog.text.count("ended before they could work: its process exited with status 1") > 10
        tree.broken = False
        await asyncio.sleep(20)
        assert len(tree.alive()) == 2
        await tree.cleared_away()

    play(story)


def test_where_no_child_works_any_more_broken_code_ends_the_supervisor() -> None:
    """There is nobody left for whose sake it could go on."""

    async def story() -> None:
        world = World(1)
        tree = Fragile(world, SETTINGS, 2)
        await asyncio.sleep(20)
        tree.broken = True
        for process in tree.alive():
            process.end(KILLED)
        await asyncio.sleep(60)
        [broken] = world.trace.violations
        assert f"{EARLY_DEATHS_LIMIT} children in a row ended before they could work" in broken
        assert tree.alive() == []
        await tree.cleared_away()

    play(story)


def test_children_that_hang_before_any_has_worked_are_ended_and_told_of() -> None:
    """No child has said yet where the store is, nor what the limit is: the hang counts as a death at the start."""

    async def story() -> None:
        world = World(1)
        tree = Fragile(world, SETTINGS, 1)
        tree.hanging = True
        limit = Plan().hang_limit
        await asyncio.sleep(limit + 5)
        assert [process.alive for process in tree.children] == [False, True]
        await asyncio.sleep(EARLY_DEATHS_LIMIT * limit)
        [broken] = world.trace.violations
        assert f"{EARLY_DEATHS_LIMIT} children in a row ended before they could work: it gave no sign of" in broken
        assert tree.alive() == []
        await tree.cleared_away()

    play(story)


def test_children_that_the_store_does_not_register_are_not_said_to_hang(monkeypatch, caplog) -> None:
    """As where it has no connection to spare: that is told, nobody is ended, and they work once it takes them."""

    async def refuse(_: object) -> None:
        raise StoreUnavailableError("it has no connection to spare")

    async def story() -> None:
        world = World(1)
        with monkeypatch.context() as patched:
            patched.setattr(world, "call", refuse)
            tree = Fragile(world, SETTINGS, 2)
            await asyncio.sleep(3 * Plan().hang_limit)
        assert [process.alive for process in tree.children] == [True, True]
        assert caplog.text.count("for the store to register it: it has no connection to spare") == 2
        assert "imported the app" not in caplog.text
        await asyncio.sleep(30)
        tree.stop()
        await asyncio.sleep(30)
        assert [process.exit.result() for process in tree.children] == [0, 0]
        assert world.trace.violations == []

    play(story)


def test_a_child_that_cannot_be_understood_is_replaced_and_no_other(monkeypatch) -> None:
    hear, garbled = Supervisor._hear, []

    async def mishear(self, child) -> None:
        if garbled:
            return await hear(self, child)
        garbled.append(child.worker)
        async with asyncio.timeout(10):
            return await hear(self, child)

    monkeypatch.setattr(Supervisor, "_hear", mishear)

    async def story() -> None:
        world = World(1)
        tree = Tree(world, SETTINGS, 2)
        await asyncio.sleep(60)
        assert world.trace.violations == []
        assert tree.process.alive
        ended = [process for process in tree.children if not process.alive]
        assert [process.exit.result() for process in ended] == [KILLED]
        assert len(tree.children) == 3
        for process in world.processes:
            process.haunt()

    play(story)
