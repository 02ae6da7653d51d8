"""Plays one game with one strategy, in real time: jobs are created, instances come and go."""

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress

import msgspec

from game.contender import Contender, Due
from game.counted.journal import read_calls
from game.evidence import Evidence, Stint
from game.instance import Instance
from game.ledger import Ends, read_runs
from game.place import Place
from game.rules import PREPARE, REAL_DURATION
from game.timetable import Mode, Shift, make_timetable
from game.workload import LIVE_AHEAD, Workload, make_workload

PUBLISHED_HATEST = 5
"""Instances of the published games in which they come and go."""

GLANCE = 1.0
"""Seconds between two words about how far the game is."""


class Game(msgspec.Struct, frozen=True):
    """What is played. `duration` is in seconds, and so is the `period` of strategies that poll."""

    mode: Mode
    instances: int
    duration: float
    seed: int
    period: float = PREPARE

    @property
    def is_real(self) -> bool:
        """Whether it is the game as published: scores of others mean nothing beside the published ones."""
        published = self.mode is not Mode.HATEST or self.instances == PUBLISHED_HATEST
        return self.duration == REAL_DURATION and published and self.mode is not Mode.RELIABILITY


class Moment(msgspec.Struct, frozen=True):
    """How far a game is: of its seconds, and of its jobs."""

    elapsed: float
    seconds: float
    run: int
    jobs: int


Tell = Callable[[Moment], None]


async def play(game: Game, contender: Contender, place: Place, tell: Tell) -> Evidence:
    """Play to the end and return what happened. Whatever happens, no process is left behind."""
    return await _Match(game, contender, place, tell).play()


class _Match:
    def __init__(self, game: Game, contender: Contender, place: Place, tell: Tell) -> None:
        self._game = game
        self._contender = contender
        self._place = place
        self._tell = tell
        self._work: Workload = make_workload(game.duration, game.seed)
        self._began = 0.0
        self._began_at = 0.0
        self._stints: list[Stint] = []
        self._over = asyncio.Event()

    async def play(self) -> Evidence:
        self._began, self._began_at = time.monotonic(), time.time()
        planned = [Due(number, self._began_at + due) for number, due in enumerate(self._work.planned)]
        await self._contender.create(planned)
        shifts = make_timetable(self._game.mode, self._game.instances, self._work, self._game.seed)
        async with asyncio.TaskGroup() as group:
            group.create_task(self._create_live())
            group.create_task(self._report())
            for number, of_one in enumerate(shifts, 1):
                group.create_task(self._keep(number, of_one))
        return Evidence(
            started_at=self._began_at,
            jobs=await self._contender.played(),
            runs=read_runs(self._place.ledger),
            stints=sorted(self._stints, key=lambda stint: stint.started_at),
            calls={stint.instance: read_calls(self._place.calls(stint.instance)) for stint in self._stints},
        )

    async def _until(self, at: float) -> None:
        """Wait for a second of the game, or for the end of all its jobs."""
        with suppress(TimeoutError):
            async with asyncio.timeout(self._began + at - time.monotonic()):
                await self._over.wait()

    async def _create_live(self) -> None:
        for number, at in enumerate(self._work.live, len(self._work.planned)):
            await self._until(at)
            await self._contender.create([Due(number, time.time() + LIVE_AHEAD)])

    async def _keep(self, number: int, shifts: tuple[Shift, ...]) -> None:
        """Have one instance work its shifts, in one life each."""
        for life, shift in enumerate(shifts, 1):
            await self._until(shift.start)
            if not self._over.is_set():
                await self._live(f"{number}.{life}", shift)

    async def _live(self, name: str, shift: Shift) -> None:
        instance = await Instance.start(name, self._contender.launch(name), self._place.log(name))
        started_at = time.time()
        try:
            await instance.watch(self._until(shift.end))
            ended_at = time.time()
            killed = shift.killed and not self._over.is_set()
            if not killed:
                await instance.stop()
                ended_at = time.time()
        finally:
            await asyncio.shield(instance.kill())
        self._stints.append(Stint(name, started_at, ended_at, killed))

    async def _report(self) -> None:
        """Say every second how far the game is. Only the real one goes on after all jobs are completed."""
        ends = Ends(self._place.ledger)
        while not self._over.is_set() and (elapsed := time.monotonic() - self._began) < self._work.end:
            run = ends.count()
            self._tell(Moment(elapsed, self._work.end, run, self._work.jobs))
            if not self._game.is_real and run >= self._work.jobs and await self._all_completed():
                self._over.set()
            await self._until(min(elapsed + GLANCE, self._work.end))

    async def _all_completed(self) -> bool:
        played = await self._contender.played()
        return len(played) == self._work.jobs and all(job.completed for job in played)
