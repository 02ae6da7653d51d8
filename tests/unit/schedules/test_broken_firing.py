"""What once made fires late: a supervisor that forgot all schedules but those it had just looked at."""

import asyncio
from datetime import timedelta
from random import Random

from simulator.loop import VirtualLoop
from simulator.world import VirtualClock
from standfast import Every
from standfast.events import Events
from standfast.schedules import fires
from standfast.schedules.schedule import Template
from standfast.stores.memory.store import MemoryBackend
from standfast.stores.values import BeatAnswer, Turn
from standfast.stores.verb import run_procedure
from standfast.supervisor.scheduler import Firing
from standfast.worker.storecalls import StoreCalls


def test_one_schedule_after_the_other_is_fired_on_the_moment() -> None:
    """Between two beats several come: each at its own time, not at the next beat."""

    async def story() -> list[tuple[str, int]]:
        clock = VirtualClock()
        backend = MemoryBackend(clock)
        events, fired = Events(), list[tuple[str, int]]()
        events.subscribe(lambda event: fired.append((event.schedule, round(clock.boot() - began))))
        firing = Firing(StoreCalls(backend, clock, events, Random(1), 5.0), clock, events, timedelta())
        began = clock.boot()
        for name in ("first", "second", "third"):
            made = fires.create(backend.verbs, name, Every(30), Template("tidy", b"{}"), timedelta())
            run_procedure(backend.run, made)
            await asyncio.sleep(1)
        loop = asyncio.create_task(firing.run())
        due_at = backend.run(backend.verbs.beat([])).record_due_at
        firing.heed(BeatAnswer(frozenset({"w"}), clock.now(), turns={"w": Turn(0, 1)}, record_due_at=due_at))
        await asyncio.sleep(32)
        loop.cancel()
        return fired

    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        assert runner.run(story()) == [("first", 30), ("second", 31), ("third", 32)]
