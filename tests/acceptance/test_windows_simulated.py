"""Windows in seeded worlds where processes die, replies are lost, the store goes away and clocks are set.

Whatever happens, nothing starts inside a window, and all that had to wait comes to its end.
"""

import asyncio
import os
from collections.abc import Iterable
from datetime import timedelta

import pytest

from simulator.fleet import Tree
from simulator.land import draw_land
from simulator.loop import VirtualLoop
from simulator.replacing import replaced
from simulator.run import _judge, _sweep
from simulator.story import SETTINGS, Story
from simulator.watching import Seen
from simulator.world import World
from standfast.model.job import NewJob
from standfast.model.states import Move, State
from standfast.schedules.closed_hours import About, ClosedHours, declare_hours
from standfast.schedules.windows import Window
from standfast.worker.windows import Closures

SEEDS = range(400 if os.environ.get("STANDFAST_PROVE") else 6)
MINUTES = range(10)


def each_minute(begin: int, end: int) -> tuple[Window, ...]:
    return tuple(Window(f"00:{minute:02}:{begin:02}", f"00:{minute:02}:{end:02}", notice=3) for minute in MINUTES)


WINDOWS = (
    declare_hours(About.QUEUE, "mail", each_minute(10, 25)),
    declare_hours(About.TASK, "work", each_minute(35, 45)),
)


class NightlyStory(Story):
    """A story in which a queue, and a task, are closed for a part of each minute."""

    clock_steps = (-5, 5)  # less than would lead out of the minutes that have windows

    async def _probe(self) -> None:
        """Expect nothing at once: a window may be on."""

    async def _be_punctual(self) -> None:
        """Expect nothing on time either."""


def play(seed: int) -> tuple[World, Story]:
    async def whole() -> tuple[World, Story]:
        world = World(seed, draw_land(seed))
        world.windows = WINDOWS
        story = NightlyStory(world)
        await story.play()
        _judge(world, story)
        await _sweep(world)
        return world, story

    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(whole())


@pytest.mark.parametrize("seed", SEEDS)
def test_nothing_starts_inside_a_window_and_all_of_it_ends(seed: int) -> None:
    """No kill, stall, outage, lost reply or clock step lets a job in, or keeps one out for good."""
    world, _ = play(seed)
    assert world.trace.violations == []


def test_windows_put_jobs_off_in_these_worlds() -> None:
    """They have what they are for: jobs that a window, and not their handler, has put off."""
    put_off = 0
    for seed in range(6):
        world, story = play(seed)
        own = [job_id for job_id, wish in story.wishes.items() if wish.kind == "ok"]
        put_off += any(Move.SNOOZE in world.store.history_of(job_id) for job_id in own)
    assert put_off >= 2, "in as many worlds"


def test_a_worker_that_does_not_look_before_a_start_is_caught() -> None:
    """The test can fail: without the closures at a start, what was claimed before a window starts inside."""

    def open_to_all(self: Closures, claim: object) -> None:  # noqa: ARG001 - as the original
        return None

    with replaced(Closures, "refusal", open_to_all), replaced(Closures, "closed_for", open_to_all):
        assert _caught(range(10))


def test_a_worker_that_asks_for_what_is_closed_is_caught() -> None:
    """The test can fail: a worker without windows at all starts what it finds."""

    def none(self: Closures, hours: Iterable[ClosedHours], clock: object) -> None:  # noqa: ARG001 - as the original
        self._queues, self._tasks = {}, {}

    with replaced(Closures, "__init__", none):
        assert _caught(range(10))


def test_a_suspect_of_a_closed_queue_gets_no_process_until_it_opens() -> None:
    """A job that crashed right before a window waits; nobody is started in vain to run it alone."""

    world: World
    seen: list[Seen] = []

    async def whole() -> None:
        nonlocal world
        world = World(1)
        world.windows = (declare_hours(About.QUEUE, "mail", Window("00:00:10", "00:01:40", notice=0)),)
        job = NewJob("suspect", "work", CRASHES_ONCE, queue="mail", delay=timedelta(seconds=9.5), max_attempts=5)
        await world.call(world.store.enqueue((job,)))
        Tree(world, SETTINGS, 1)
        await asyncio.sleep(99)
        seen.append(world.store.look("suspect"))
        world.say("the window ends soon")
        await asyncio.sleep(10)
        seen.append(world.store.look("suspect"))
        await _sweep(world)

    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        runner.run(whole())
    assert [(each.state, each.crashes) for each in seen] == [(State.SCHEDULED, 1), (State.COMPLETED, 1)]
    before, _, after = "\n".join(world.trace.lines).partition("the window ends soon")
    assert (before.count("launches suspects"), after.count("launches suspects")) == (0, 1)
    assert world.trace.violations == []


CRASHES_ONCE = b'{"v":1,"args":{"kind":"crash_once","seconds":1.0}}'


def _caught(seeds: Iterable[int]) -> bool:
    return any("inside a window" in word for seed in seeds for word in play(seed)[0].trace.violations)
