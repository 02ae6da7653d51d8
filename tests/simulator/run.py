"""Plays one seed from beginning to end."""

import asyncio
import hashlib
from dataclasses import dataclass

from simulator.land import draw_land
from simulator.loop import VirtualLoop
from simulator.story import Story
from simulator.world import World
from standfast.model.states import State

CRASHES_ALONE = 3


@dataclass(frozen=True, slots=True)
class Report:
    """What a seed showed. Two runs of one seed have the same digest."""

    seed: int
    violations: tuple[str, ...]
    trace: tuple[str, ...]
    virtual_seconds: float
    jobs: int

    @property
    def digest(self) -> str:
        """A fingerprint of everything that happened."""
        return hashlib.sha256("\n".join(self.trace).encode()).hexdigest()


def run_seed(seed: int) -> Report:
    """Play the world of this seed and return what the checker found."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(_play(seed))


async def _play(seed: int) -> Report:
    world = World(seed, draw_land(seed))
    story = Story(world)
    await story.play()
    _judge(world, story)
    trace, seconds = world.trace, world.clock.boot()
    report = Report(seed, tuple(trace.violations), tuple(trace.lines), seconds, len(story.wishes))
    await _sweep(world)
    return report


def _judge(world: World, story: Story) -> None:
    """Look at where every job ended, and at why."""
    for job_id, wish in story.wishes.items():
        seen = world.store.look(job_id)
        history = world.store.history_of(job_id)
        crashed_alone = sum(how == "crashed" for how in history)
        gave_up = seen.attempt >= seen.max_attempts or crashed_alone >= CRASHES_ALONE
        if seen.state is State.CANCELLED and job_id not in world.cancelled:
            world.violate(f"{job_id} is cancelled though nobody asked")
        if seen.state is State.DEAD and not gave_up:
            world.violate(f"{job_id} is dead after {seen.attempt} attempts: {history}")
        if seen.state is State.COMPLETED and wish.kind in ("poison", "fail", "unknown"):
            world.violate(f"{job_id} ({wish.kind}) completed")
        if seen.state is State.COMPLETED and job_id not in world.ledger.starts:
            world.violate(f"{job_id} completed without having run")
        if seen.state is State.COMPLETED and "items" in wish.arguments:
            world.trail.check_items(job_id, wish.arguments["items"])
        if seen.state is State.COMPLETED and wish.signals and wish.arguments["timeout"] is None:
            world.trail.check_signals(job_id, story.sent[job_id])


async def _sweep(world: World) -> None:
    """Let the tasks that killed processes left behind end properly, now that nobody looks any more."""
    for process in world.processes:
        process.haunt()
    while left := asyncio.all_tasks() - {asyncio.current_task()}:
        for task in left:
            task.cancel()
        await asyncio.wait(left, timeout=1.0)
