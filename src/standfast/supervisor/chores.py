"""What a beat brings to light and what is due now and again, put right beside the beats, one thing at a time.

All of it writes where jobs live and may have to wait for a lock. A beat waits for none of it.

    claims that nobody holds ─► given back        workers that stopped beating ─► buried
    about once a minute      ─► results, finished jobs and dead ones that are kept no longer go, and their files
    about once an hour       ─► locks that nobody has used for long are forgotten
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import timedelta

from standfast.clock import Clock
from standfast.core.crash import Death, DeathKind
from standfast.errors import ConfigurationError, StandfastError
from standfast.events import DeadRemoved, Events, WorkerFound
from standfast.settings import Settings
from standfast.store.files import lasting_shelf_of
from standfast.store.protocol import BeatAnswer, Worker, WorkerBeat
from standfast.supervisor.evidence.involved import jobs_of
from standfast.supervisor.filesweep import FileSweep
from standfast.supervisor.locksweep import LockSweep
from standfast.supervisor.obituary import find_dead, tell_dead
from standfast.supervisor.witness import Witness
from standfast.worker.storecalls import StoreCalls

log = logging.getLogger(__name__)

SWEEP_EVERY = 60.0
"""Seconds between two looks for results, and for finished jobs, whose time is over."""

SWEPT_AT_ONCE = 500
"""How many of each one call forgets."""

SWEEP_FOR = 1.0
"""Seconds for which one look goes on where there are more; the next beat continues, and may first have to bury."""

TAKEN_DOWN_WITHIN = 1.0
"""Seconds for each thing that is taken down about a lost worker."""

VANISHED = Death(DeathKind.VANISHED, evidence="its worker stopped beating: its machine or processes are gone")


async def nobody_minds(_lost: Worker) -> None:
    """Let a worker be lost."""


class Chores:
    """What one supervisor does for the store besides beating.

    `came_back` hears that jobs were given back, and `lost` of each worker that is about to be given up.
    """

    def __init__(
        self,
        calls: StoreCalls,
        clock: Clock,
        settings: Settings,
        events: Events,
        *,
        came_back: Callable[[], None],
        lost: Callable[[Worker], Awaitable[None]] = nobody_minds,
        witness: Witness | None = None,
    ) -> None:
        self._calls = calls
        self._clock = clock
        self._settings = settings
        self._events = events
        self._came_back = came_back
        self._lost = lost
        self._witness = witness
        self._sweep_at = clock.boot()
        self._files = FileSweep(calls, clock, lasting_shelf_of(settings))
        self._locks = LockSweep(calls, clock)
        self._at_work: asyncio.Task[None] | None = None

    def after(self, beats: Sequence[WorkerBeat], answer: BeatAnswer, *, may_bury: bool) -> None:
        """Begin what there is to do after an answered beat, unless what an earlier one began goes on."""
        self._files.go_on()
        if self._at_work is not None and not self._at_work.done():
            return
        unnamed = [beat for beat in beats if beat.worker in answer.unnamed]
        expired = answer.expired if may_bury else frozenset()
        sweep = self._clock.boot() >= self._sweep_at and _is_first(beats, answer)
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
                await self._calls.once(self._calls.verbs.reconcile(beat))
            if expired:
                await self._bury(expired)
            if sweep and not await self._sweep():
                self._sweep_at = self._clock.boot() + SWEEP_EVERY
            if sweep and self._locks.is_due:
                await self._locks.bite()
        except StandfastError as error:
            log.warning("what the beat found could not be put right yet: %s", error)

    async def _bury(self, expired: frozenset[str]) -> None:
        condemned = await self._calls.once(self._calls.verbs.condemn(expired))
        known = await self._known() if condemned else {}
        for worker in sorted(condemned):
            if worker in known:
                await self._take_down(known[worker])
            released = await self._calls.once(self._calls.verbs.bury(worker, VANISHED))
            if released:
                self._came_back()
            dead = await find_dead(self._calls, released)
            self._events.emit(WorkerFound(worker, 0, len(released) - len(dead)))
            tell_dead(self._events, dead, VANISHED.evidence)

    async def _known(self) -> Mapping[str, Worker]:
        """Return what the store knows of workers: nothing, where it is one that does not tell."""
        try:
            return {each.info.id: each for each in await self._calls.once(self._calls.verbs.workers())}
        except ConfigurationError as error:
            log.debug("nothing is taken down about lost workers: %s", error)
            return {}

    async def _take_down(self, lost: Worker) -> None:
        """Have what is known of a lost worker told, before its burial changes that; it is not waited for long."""
        for tell in (self._lost, self._bear_witness):
            try:
                async with asyncio.timeout(TAKEN_DOWN_WITHIN):
                    await tell(lost)
            except (StandfastError, TimeoutError) as error:
                why = str(error) or f"the store took over {TAKEN_DOWN_WITHIN:g} s"
                log.warning("not all could be taken down about lost worker %s: %s", lost.info.id, why)

    async def _bear_witness(self, lost: Worker) -> None:
        if self._witness is not None:
            self._witness.saw_loss(lost, await jobs_of(self._calls, lost.info.id))

    async def _sweep(self) -> bool:
        """Forget what is kept no longer; tell whether there may be more of it."""
        end_at = self._clock.boot() + SWEEP_FOR
        removed = dict.fromkeys(self._bounds_of_dead(), 0)
        try:
            while self._clock.boot() < end_at:
                most = 0
                if self._settings.keep_finished is not None:  # first, as it makes the most room where there is none
                    age = timedelta(seconds=self._settings.keep_finished)
                    most = await self._calls.once(self._calls.verbs.forget_jobs(age, SWEPT_AT_ONCE))
                for setting, keep in self._bounds_of_dead().items():
                    gone = await self._calls.once(self._calls.verbs.forget_dead(keep, SWEPT_AT_ONCE))
                    removed[setting] += gone
                    most = max(most, gone)
                swept = await self._calls.once(self._calls.verbs.forget_results(SWEPT_AT_ONCE))
                if max(most, swept) < SWEPT_AT_ONCE:
                    return False
            return True
        finally:
            for setting, jobs in removed.items():
                if jobs:
                    self._events.emit(DeadRemoved(jobs, setting, getattr(self._settings, setting)))

    def _bounds_of_dead(self) -> Mapping[str, timedelta | int]:
        """Return the settings that bound how many dead jobs there are, and for how long."""
        age, number = self._settings.keep_dead_for, self._settings.keep_dead
        bounds = {"keep_dead_for": None if age is None else timedelta(seconds=age), "keep_dead": number}
        return {setting: keep for setting, keep in bounds.items() if keep is not None}


def _is_first(beats: Sequence[WorkerBeat], answer: BeatAnswer) -> bool:
    """Tell whether one of these workers is the first of the living: what one does for all is up to it."""
    turns = [answer.turns[beat.worker] for beat in beats if beat.worker in answer.turns]
    return not turns or any(turn.rank == 0 for turn in turns)
