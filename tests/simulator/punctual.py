"""Fair weather, in which nothing but people's comings and goings could make a job late.

One tree stays, well and with places free, while others are started, stopped and killed. So each delayed job has to
start at its time, wherever it was held before; but for those that a killed worker had, which its lease keeps.
"""

import asyncio
import math
from collections.abc import Callable, Iterable, Sequence
from datetime import timedelta

import msgspec

from simulator.fleet import KILLED, Tree
from simulator.world import World
from standfast.model.job import NewJob
from standfast.worker.timers import CHECK, PATIENCE, SHORT_PATIENCE

LASTS = 20.0
"""Seconds for which jobs come."""

ACQUAINTED = 6.0
"""Seconds after which the one that stays works, and all know of it."""

APART = 0.15
"""Seconds between two jobs, each of which lasts less: one place is enough for them all."""

LONG_JOBS = 2
"""For each tree that was there before: they keep workers that are stopping alive."""

DELAYS = (0.85, 0.95, 2.0, 4.0, 8.0, 14.0)
"""Seconds after which the first of some jobs is due: a time that is just learned, some turns, or beyond reach."""

LATE = 0.1
"""Seconds by which a job may be late that was not held in good time."""

IN_GOOD_TIME = 0.6
"""Seconds in which a worker that holds a job learns the store's time well."""

WELL_KNOWN = 0.02
"""Seconds by which a job may be late then."""

CATCHING_UP = 2.0
"""Seconds for which what a vanished worker had, and is found all at once, may take up every place."""

CHANGES_HANDS = 3
"""How often a job may have to be claimed anew just before its time."""


class FairWeather:
    """A while of it. `trees` are there already; `start_tree` starts one more. A worker has so many `places`."""

    def __init__(self, world: World, trees: Iterable[Tree], start_tree: Callable[[], Tree], *, places: int) -> None:
        self._world = world
        self._random = world.random
        self._start_tree = start_tree
        self._places = places
        self._goers = list(trees)
        self._busy_until = 0.0
        self._jobs: list[str] = []

    async def play(self) -> None:
        """Let jobs come, and workers come and go; then see that none was late."""
        await self._keep_busy()
        stays = self._start_tree()
        await asyncio.sleep(ACQUAINTED + self._world.land.launch)
        self._world.say(f"the weather is fair, and {stays.process.name} stays")
        ends_at = self._world.clock.boot() + LASTS
        await asyncio.gather(self._enqueue_jobs(ends_at), self._come_and_go(ends_at))
        await asyncio.sleep(max(self._busy_until - self._world.clock.boot(), 0) + 2)
        for job_id in self._jobs:
            self._check(job_id)

    # -- what happens ----------------------------------------------------------------------------------------

    async def _keep_busy(self) -> None:
        """Give those who are there something to do; what they have to give back is for nobody else."""
        number = LONG_JOBS * len(self._goers)
        await self._enqueue([_job(f"long-{place}", 0.0, 2 * LASTS, "long") for place in range(number)])
        await asyncio.sleep(1)
        await self._world.call(self._world.store.pause("long"))

    async def _enqueue_jobs(self, ends_at: float) -> None:
        while (now := self._world.clock.boot()) < ends_at:
            delay = max(self._random.choice(DELAYS), self._busy_until - now)
            jobs = [
                _job(f"fair-{len(self._jobs) + place:03}", delay + place * APART, self._random.choice((0.0, 0.1)))
                for place in range(self._random.choice((1, 2, 6, 12)))
            ]
            self._jobs += [job.id for job in jobs]
            self._busy_until = now + delay + len(jobs) * APART
            await self._enqueue(jobs)
            await asyncio.sleep(self._random.uniform(0.2, 4))

    async def _enqueue(self, jobs: Sequence[NewJob]) -> None:
        await self._world.call(self._world.store.enqueue(jobs))

    async def _come_and_go(self, ends_at: float) -> None:
        while self._world.clock.boot() < ends_at:
            await asyncio.sleep(self._random.uniform(1, 6))
            act = self._random.choice((self._come, self._stop_one, self._stop_all, self._kill_one))
            act() if self._goers else self._come()

    def _come(self) -> None:
        self._goers.append(self._start_tree())

    def _stop_all(self) -> None:
        while self._goers:
            self._stop_one()

    def _stop_one(self) -> None:
        tree = self._one_who_goes()
        self._world.say(f"SIGTERM to {tree.process.name}")
        tree.stop()

    def _one_who_goes(self) -> Tree:
        return self._goers.pop(self._random.randrange(len(self._goers)))

    def _kill_one(self) -> None:
        tree = self._one_who_goes()
        self._world.say(f"kill -9 of {tree.process.name} and its children")
        for process in (tree.process, *tree.children):
            process.end(KILLED)

    # -- what came of it -------------------------------------------------------------------------------------

    def _check(self, job_id: str) -> None:
        world, claims = self._world, self._world.store.claims.get(job_id, [])
        if any(world.worker_process[worker].was_killed for worker, _ in claims):
            return
        runs = world.ledger.starts.get(job_id)
        started_at = runs[0][0] if runs else math.inf
        due_at = world.store_clock.boot_at(world.store.look(job_id).run_at)
        if any(due_at - CATCHING_UP < found_at <= started_at for found_at in world.store.found_at):
            return
        held_for = due_at - claims[0][1] if claims else 0.0
        may_be_late = LATE + CHANGES_HANDS * world.land.disk
        if len(claims) == 1 and held_for > IN_GOOD_TIME + world.land.disk:
            may_be_late = WELL_KNOWN
        had_last_place = world.ledger.beside.get(job_id) == self._places - 1
        if had_last_place or world.store.found_no_place(job_id):
            was_due = any(claimed_at >= due_at for _, claimed_at in claims[:-1])
            may_be_late += (PATIENCE if was_due else SHORT_PATIENCE) + CHECK
        if started_at - due_at > may_be_late:
            world.violate(f"{job_id} was late by {started_at - due_at:.3f} s, claimed {held_for:.3f} s before")


def _job(job_id: str, delay: float, seconds: float, queue: str = "default") -> NewJob:
    payload = msgspec.json.encode({"v": 1, "args": {"kind": "ok", "seconds": seconds}})
    return NewJob(job_id, "work", payload, queue=queue, delay=timedelta(seconds=delay))
