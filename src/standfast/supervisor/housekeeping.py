"""Work beside the beats: burying lost workers, forgetting old jobs and locks, removing files of forgotten jobs."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from datetime import timedelta
from itertools import islice
from pathlib import Path

from standfast.durable.files import FileStore, lasting_file_store_of
from standfast.durable.lockstate import forget_unused
from standfast.errors import ConfigurationError, StandfastError, StoreError
from standfast.events import DeadRemoved, Events, JobDied, WorkerFound
from standfast.model.clock import Clock
from standfast.model.configuration import Settings
from standfast.model.crash import Death, DeathKind
from standfast.model.display import counted
from standfast.model.job import ClaimRef, Failure, Job
from standfast.model.states import State
from standfast.stores.backend import KnownStore
from standfast.stores.values import BeatAnswer, Worker, WorkerBeat
from standfast.stores.verb import arun_procedure
from standfast.supervisor.incidents.detector import IncidentDetector
from standfast.supervisor.incidents.snapshot import jobs_of
from standfast.worker.storecalls import StoreCalls


async def find_dead(calls: StoreCalls, buried: Iterable[ClaimRef]) -> list[Job]:
    """Return those of the claims given back whose job is a dead letter now; none where the store is away again."""
    try:
        seen = await calls.once(calls.verbs.glance([ref.job_id for ref in buried]))
        dead = [job_id for job_id, glance in seen.items() if glance.state is State.DEAD]
        jobs = [await calls.once(calls.verbs.get(job_id)) for job_id in dead]
    except StoreError:
        return []
    return [job for job in jobs if job is not None]


def tell_dead(events: Events, jobs: Iterable[Job], evidence: str) -> None:
    """Say of each job that it died, and of what."""
    for job in jobs:
        failure = Failure("Crash", evidence)
        events.emit(JobDied(job.id, job.task, job.queue, job.attempt, job.max_attempts, failure))


LOCKS_AT_ONCE = 500  # locks that are forgotten in one call
LOCKS_EVERY = 3600.0  # seconds between two looks at all locks, unless there was more to forget than one bite


class LockSweep:
    """One supervisor of all does it."""

    def __init__(self, calls: StoreCalls, clock: Clock) -> None:
        self._calls = calls
        self._clock = clock
        self._next_at = clock.boot() + LOCKS_EVERY

    @property
    def is_due(self) -> bool:
        """Whether it is time to look."""
        return self._clock.boot() >= self._next_at

    async def bite(self) -> None:
        """Forget the first of those that there are."""
        if await arun_procedure(self._calls.once, forget_unused(self._calls.verbs, LOCKS_AT_ONCE)) < LOCKS_AT_ONCE:
            self._next_at = self._clock.boot() + LOCKS_EVERY


log = logging.getLogger(__name__)
FILES_AT_ONCE = 500  # jobs that the store is asked about in one call
FILES_AT_ONCE_EVERY = 60.0  # seconds between two bites, unless all jobs of a bite were forgotten ones
FILES_EVERY = 600.0  # seconds between the end of a round through all folders and the next
YOUNG = 60.0  # seconds for which a folder is left alone after something came into it, whatever the store says


class FileSweep:
    """Every supervisor looks through the folder that it sees: machines may share one, or each have their own.

    It looks at the files of its own store alone, known by the id in it: one that was emptied knows no job.

    It looks through it beside all else, in threads: a folder of another machine may keep whoever does so waiting.
    Without a shelf there is nothing to look through.
    """

    def __init__(self, calls: StoreCalls, clock: Clock, shelf: FileStore | None) -> None:
        self._calls = calls
        self._clock = clock
        self._shelf = shelf
        self._next_at = clock.boot()
        self._store = KnownStore(calls.once, calls.verbs)
        self._others = set[Path]()
        self._round: Iterator[str] | None = None
        self._at_work: asyncio.Task[None] | None = None

    @property
    def is_due(self) -> bool:
        """Whether it is time to look through a folder, if there is one."""
        return self._shelf is not None and self._clock.boot() >= self._next_at

    def go_on(self) -> None:
        """Take the next bite if it is due, and the last one is over."""
        if (self._at_work is None or self._at_work.done()) and self.is_due:
            self._at_work = asyncio.ensure_future(self._try())

    def stop(self) -> None:
        """Leave the rest to others."""
        if self._at_work is not None:
            self._at_work.cancel()

    async def _try(self) -> None:
        try:
            await self.bite()
        except StandfastError as error:
            log.warning("the files of jobs cannot be looked through yet: %s", error)

    async def bite(self) -> None:
        """Look at the next jobs that have files; of those that the store does not know, remove them."""
        if self._shelf is None:
            return
        if self._round is None and not await self._begin(self._shelf):
            self._rest()
            return
        assert self._round is not None  # it has begun
        try:
            jobs = await asyncio.to_thread(list, islice(self._round, FILES_AT_ONCE))
        except OSError as error:  # the next round begins anew
            log.warning("the files of jobs cannot be looked through: %s", error)
            jobs = []
        known = await self._calls.once(self._calls.verbs.glance(jobs)) if jobs else {}
        forgotten = [job for job in jobs if job not in known]
        if forgotten and await self._store.is_another():  # so it does not know whose files these are
            log.warning("no files of jobs are removed: the store is another one than before, or was emptied")
            self._rest()
            return
        await asyncio.to_thread(_forget, self._shelf, forgotten)
        if forgotten:
            gone = counted(len(forgotten), "job")
            log.info("removed the saved files of %s that the store does not know any more", gone)
        if len(jobs) < FILES_AT_ONCE:
            self._rest()
        elif known:
            self._next_at = self._clock.boot() + FILES_AT_ONCE_EVERY

    async def _begin(self, shelf: FileStore) -> bool:
        """Begin a round through the files of this very store; tell whether there may be any."""
        if not await asyncio.to_thread(shelf.is_there):
            return False
        shelf.bind(await self._store.meet())
        others = await asyncio.to_thread(shelf.parts_of_others)
        if set(others) - self._others:
            names = ", ".join(map(str, others))
            log.info("leaves alone what another store of this name has saved: %s", names)
        self._others.update(others)
        self._round = shelf.jobs(older_than=YOUNG)
        return True

    def _rest(self) -> None:
        self._round = None
        self._next_at = self._clock.boot() + FILES_EVERY


def _forget(shelf: FileStore, jobs: list[str]) -> None:
    for job in jobs:
        shelf.forget(job)


# This work writes where jobs live and may wait for a lock; a beat waits for none of it.

SWEEP_EVERY = 60.0  # seconds between two looks for results, and for finished jobs, whose time is over
SWEPT_AT_ONCE = 500  # how many of each one call forgets
SWEEP_FOR = 1.0
"""Seconds for which one look goes on where there are more; the next beat continues, and may first have to bury."""

TAKEN_DOWN_WITHIN = 1.0  # seconds for each thing that is taken down about a lost worker
VANISHED = Death(DeathKind.VANISHED, evidence="its worker stopped beating: its machine or processes are gone")


async def nobody_minds(_lost: Worker) -> None:
    """Let a worker be lost."""


@dataclass(eq=False)
class Housekeeping:
    """What one supervisor does for the store besides beating.

    `came_back` hears that jobs were given back, and `lost` of each worker that is about to be given up.
    """

    calls: StoreCalls
    clock: Clock
    settings: Settings
    events: Events
    _: KW_ONLY
    came_back: Callable[[], None]
    lost: Callable[[Worker], Awaitable[None]] = nobody_minds
    detector: IncidentDetector | None = None

    def __post_init__(self) -> None:
        self._sweep_at = self.clock.boot()
        self._files = FileSweep(self.calls, self.clock, lasting_file_store_of(self.settings))
        self._locks = LockSweep(self.calls, self.clock)
        self._at_work: asyncio.Task[None] | None = None

    def after(self, beats: Sequence[WorkerBeat], answer: BeatAnswer, *, may_bury: bool) -> None:
        """Begin what there is to do after an answered beat, unless what an earlier one began goes on."""
        self._files.go_on()
        if self._at_work is not None and not self._at_work.done():
            return
        unnamed = [beat for beat in beats if beat.worker in answer.unnamed]
        expired = answer.expired if may_bury else frozenset()
        sweep = self.clock.boot() >= self._sweep_at and _is_first(beats, answer)
        if unnamed or expired or sweep:
            self._at_work = asyncio.ensure_future(self._work(unnamed, expired, sweep=sweep))

    def stop(self) -> None:
        """Leave the rest undone: the beats of others find it again."""
        self._files.stop()
        if self._at_work is not None:
            self._at_work.cancel()

    async def _work(self, unnamed: Sequence[WorkerBeat], expired: frozenset[str], *, sweep: bool) -> None:
        try:
            for beat in unnamed:
                await self.calls.once(self.calls.verbs.reconcile(beat))
            if expired:
                await self._bury(expired)
            if sweep and not await self._sweep():
                self._sweep_at = self.clock.boot() + SWEEP_EVERY
            if sweep and self._locks.is_due:
                await self._locks.bite()
        except StandfastError as error:
            log.warning("what the beat found could not be put right yet: %s", error)

    async def _bury(self, expired: frozenset[str]) -> None:
        condemned = await self.calls.once(self.calls.verbs.condemn(expired))
        known = await self._known() if condemned else {}
        for worker in sorted(condemned):
            if worker in known:
                await self._take_down(known[worker])
            released = await self.calls.once(self.calls.verbs.bury(worker, VANISHED))
            if released:
                self.came_back()
            dead = await find_dead(self.calls, released)
            self.events.emit(WorkerFound(worker, 0, len(released) - len(dead)))
            tell_dead(self.events, dead, VANISHED.evidence)

    async def _known(self) -> Mapping[str, Worker]:
        """Return what the store knows of workers: nothing, where it is one that does not tell."""
        try:
            return {each.info.id: each for each in await self.calls.once(self.calls.verbs.workers())}
        except ConfigurationError as error:
            log.debug("nothing is taken down about lost workers: %s", error)
            return {}

    async def _take_down(self, lost: Worker) -> None:
        """Have what is known of a lost worker told, before its burial changes that; it is not waited for long."""
        for tell in (self.lost, self._report_loss):
            try:
                async with asyncio.timeout(TAKEN_DOWN_WITHIN):
                    await tell(lost)
            except (StandfastError, TimeoutError) as error:
                why = str(error) or f"the store took over {TAKEN_DOWN_WITHIN:g} s"
                log.warning("not all could be taken down about lost worker %s: %s", lost.info.id, why)

    async def _report_loss(self, lost: Worker) -> None:
        if self.detector is not None:
            self.detector.saw_loss(lost, await jobs_of(self.calls, lost.info.id))

    async def _sweep(self) -> bool:
        """Forget what is kept no longer; tell whether there may be more of it."""
        end_at = self.clock.boot() + SWEEP_FOR
        removed = dict.fromkeys(self._bounds_of_dead(), 0)
        try:
            while self.clock.boot() < end_at:
                most = 0
                if self.settings.keep_finished is not None:  # first, as it makes the most room where there is none
                    age = timedelta(seconds=self.settings.keep_finished)
                    most = await self.calls.once(self.calls.verbs.forget_jobs(age, SWEPT_AT_ONCE))
                for setting, keep in self._bounds_of_dead().items():
                    gone = await self.calls.once(self.calls.verbs.forget_dead(keep, SWEPT_AT_ONCE))
                    removed[setting] += gone
                    most = max(most, gone)
                swept = await self.calls.once(self.calls.verbs.forget_results(SWEPT_AT_ONCE))
                if max(most, swept) < SWEPT_AT_ONCE:
                    return False
            return True
        finally:
            for setting, jobs in removed.items():
                if jobs:
                    self.events.emit(DeadRemoved(jobs, setting, getattr(self.settings, setting)))

    def _bounds_of_dead(self) -> Mapping[str, timedelta | int]:
        """Return the settings that bound how many dead jobs there are, and for how long."""
        age, number = self.settings.keep_dead_for, self.settings.keep_dead
        bounds = {"keep_dead_for": None if age is None else timedelta(seconds=age), "keep_dead": number}
        return {setting: keep for setting, keep in bounds.items() if keep is not None}


def _is_first(beats: Sequence[WorkerBeat], answer: BeatAnswer) -> bool:
    """Tell whether one of these workers is the first of the living: what one does for all is up to it."""
    turns = [answer.turns[beat.worker] for beat in beats if beat.worker in answer.turns]
    return not turns or any(turn.rank == 0 for turn in turns)
