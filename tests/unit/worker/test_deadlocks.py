"""Handlers that wait for jobs which only their own worker could run, with no place left: told once, never else."""

import asyncio
from datetime import timedelta
from typing import Any

import pytest
from msgspec.structs import replace
from stage import SETTINGS, Stage, play, working

from standfast import Standfast
from standfast.events import Event, WorkerDeadlocked
from standfast.stores.values import ClaimRequest, Vitals, WorkerBeat, WorkerInfo
from standfast.worker.messages import Pulse

PLACES = 2
LONG = 120.0
"""Seconds of virtual time in which a warning would have come."""


class Kitchen:
    """An app whose dishes wait for their parts, and a worker with two places."""

    def __init__(self, **options: Any) -> None:
        self.app = Standfast("memory://")

        @self.app.task(**options)
        async def part() -> int:
            return 1

        @self.app.task
        async def dish(part_id: str = "", timeout: float | None = None) -> int:
            handle = part.handle(part_id) if part_id else await part.aenqueue()
            return await handle.aresult(timeout)

        self.part, self.dish = part, dish
        self.stage = Stage(self.app, replace(SETTINGS, concurrency=PLACES))
        self.app.clock = self.stage.clock

    def other(self, waiting: int, queues: tuple[str, ...] | None = None) -> None:
        """Let another worker be there, so many of whose two places wait as well."""
        verbs, span = self.stage.backend.verbs, timedelta(seconds=SETTINGS.lease)
        self.stage.backend.run(verbs.register(WorkerInfo("x", "s", "host", 2, span, queues, PLACES)))
        self.stage.backend.run(verbs.beat([WorkerBeat("x", vitals=Vitals(waiting=waiting, slots=PLACES))]))

    @property
    def warnings(self) -> list[Event]:
        return [event for event in self.stage.told if isinstance(event, WorkerDeadlocked)]


def test_a_worker_all_of_whose_places_wait_for_jobs_that_only_it_could_run_says_so_once() -> None:
    """Nothing would ever happen there again, and nobody would say so."""

    async def scenario() -> None:
        kitchen = Kitchen()
        async with working(kitchen.stage) as stage:
            for _ in range(3):
                kitchen.dish.enqueue()
            await stage.until(lambda: kitchen.warnings)
            await asyncio.sleep(LONG)
            [warning] = kitchen.warnings
            assert isinstance(warning, WorkerDeadlocked)
            assert (warning.task, warning.waits_for, warning.places) == ("dish", "part", PLACES)
            said = [word for word in stage.heard() if isinstance(word, Pulse)]
            assert said[-1].waiting == PLACES
        kitchen.app.close()

    play(scenario)


def test_workers_that_all_wait_for_each_other_are_deadlocked_too() -> None:
    """Each sees by the vitals of the others that none of them can run anything."""

    async def scenario() -> None:
        kitchen = Kitchen()
        kitchen.other(waiting=PLACES)
        async with working(kitchen.stage) as stage:
            for _ in range(PLACES):
                kitchen.dish.enqueue()
            await stage.until(lambda: kitchen.warnings)
        kitchen.app.close()

    play(scenario)


@pytest.mark.parametrize("but", ["place", "worker", "pause", "timeout", "running"])
def test_no_warning_where_the_jobs_will_be_run_or_wait_for_something_else(but: str) -> None:
    """A place is free, another worker will take them, their queue is paused, the wait ends, or one of them runs."""

    async def scenario() -> None:
        kitchen = Kitchen(**({"queue": "parts"} if but in {"pause", "running"} else {}))
        stage, asked = kitchen.stage, dict[str, Any]()
        if but == "worker":
            kitchen.other(waiting=PLACES - 1)
        elif but == "pause":
            stage.backend.run(stage.backend.verbs.pause("parts"))
        elif but == "timeout":
            asked["timeout"] = 3.0
        elif but == "running":
            kitchen.other(waiting=PLACES, queues=("parts",))
            asked["part_id"] = kitchen.part.enqueue().id
            stage.backend.run(stage.backend.verbs.claim(ClaimRequest("x", 1, 1)))
        async with working(stage):
            for _ in range(PLACES - (but == "place")):
                kitchen.dish.enqueue(**asked)
            await asyncio.sleep(LONG)
            assert kitchen.warnings == []
        kitchen.app.close()

    play(scenario)
