"""Beats for the children, and buries workers of others that have stopped beating.

A beat must never wait for anything but the store's answer to it: reconciling and burying, which write where jobs
live and may have to wait for a lock, run beside it, one at a time.

Burying is earned. After an outage of the store every lease in the fleet looks expired; so nobody buries before its
own beats have succeeded, unbroken, for a whole lease: by then the living have beaten too. The same holds when the
store's clock was set, by which a server measures leases.

Now and then the heart also lets the store forget what is kept no longer: results, and finished jobs.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta

from holdfast.clock import Clock
from holdfast.core.crash import Death, DeathKind
from holdfast.core.job import ClaimRef
from holdfast.errors import HoldfastError, StoreError
from holdfast.events import Events, WorkerFound
from holdfast.settings import Settings
from holdfast.store.protocol import BeatAnswer, WorkerBeat
from holdfast.supervisor.child import Child, Phase
from holdfast.supervisor.obituary import find_dead, tell_dead
from holdfast.worker.messages import Adopt, Renewed, Revoke, Told
from holdfast.worker.storecalls import StoreCalls
from holdfast.worker.turns import until_agreed

log = logging.getLogger(__name__)

SWEEP_EVERY = 60.0
"""Seconds between two looks for results, and for finished jobs, whose time is over."""

SWEPT_AT_ONCE = 500
"""How many of each one call forgets."""

SWEEP_FOR = 1.0
"""Seconds for which one look goes on where there are more; the next beat continues, and may first have to bury."""

AFTER_EXPIRY = 0.05
"""Seconds to wait beyond someone's lease before looking whether it has beaten."""

VANISHED = Death(DeathKind.VANISHED, evidence="its worker stopped beating: its machine or processes are gone")


class Heart:
    """The beat of one supervisor."""

    def __init__(
        self,
        calls: StoreCalls,
        clock: Clock,
        settings: Settings,
        events: Events,
        *,
        children: Callable[[], Sequence[Child]],
        part_with: Callable[[Child], None],
        suspects_wait: Callable[[frozenset[str]], None],
        heed: Callable[[BeatAnswer], None] = lambda _: None,
    ) -> None:
        self._calls = calls
        self._clock = clock
        self._settings = settings
        self._events = events
        self._children = children
        self._part_with = part_with
        self._suspects_wait = suspects_wait
        self._heed = heed
        self._pauses = calls.pauses(longest=min(1.0, settings.beat_every))
        self._unbroken_since: float | None = None
        self._last_sent = 0.0
        self._clock_offset = 0.0
        self._sweep_at = clock.boot()
        self._look = False
        self._news = asyncio.Event()
        self._chores: set[asyncio.Task[None]] = set()

    def beat_now(self) -> None:
        """Beat without waiting for the next turn."""
        self._news.set()

    def look_soon(self) -> None:
        """Let one of the children look for jobs with the next beat: some may have come back."""
        self._look = True

    async def run(self) -> None:
        """Beat for as long as the supervisor lives."""
        try:
            while True:
                self._news.clear()
                pause = await self._beat()
                try:
                    async with asyncio.timeout(pause):
                        await self._news.wait()
                except TimeoutError:
                    continue
        finally:
            for chore in self._chores:
                chore.cancel()

    async def _beat(self) -> float:
        """Beat once; return how long to wait before the next time."""
        children = [child for child in self._children() if child.phase is not Phase.STARTING and not child.lost]
        beats = [child.beat() for child in children]
        sent_at = self._clock.boot()
        try:
            answer = await self._calls.once(self._calls.verbs.beat(beats))
        except StoreError:
            self._unbroken_since = None
            return self._pauses.next()
        self._pauses.reset()
        self._note_success(sent_at, answer.now)
        for child in children:
            self._pass_on(child, answer, sent_at)
        self._heed(answer)
        self._do_chores(beats, answer, sent_at)
        return self._pause(answer, sent_at)

    def _note_success(self, sent_at: float, store_now: datetime) -> None:
        """Note an answered beat. A gap before it, or a store whose clock was set, breaks the row of them."""
        offset = store_now.timestamp() - sent_at
        broken = self._unbroken_since is None or sent_at - self._last_sent > self._settings.lease
        if broken or abs(offset - self._clock_offset) > self._settings.beat_every:
            self._unbroken_since = sent_at
        self._last_sent, self._clock_offset = sent_at, offset

    def _pass_on(self, child: Child, answer: BeatAnswer, sent_at: float) -> None:
        channel = child.process.channel
        if child.worker not in answer.accepted:
            self._part_with(child)
            return
        revoked = _said(answer.revoked.get(child.worker, ()))
        replaced = _said(answer.replaced.get(child.worker, ()))
        if revoked or replaced or answer.paused:
            channel.send(Revoke(revoked, tuple(sorted(answer.paused)), replaced))
        look = self._look and child.phase is Phase.WORKING and not child.spec.alone
        self._look = self._look and not look
        told = Told(answer.now, self._clock.boot(), answer.turns.get(child.worker), look)
        channel.send(Renewed(sent_at, told))  # last: it lets held jobs start, unless the word before took them back
        if answer.blocked:
            channel.send(Adopt(tuple(sorted((task.name, task.version) for task in answer.blocked))))

    def _do_chores(self, beats: Sequence[WorkerBeat], answer: BeatAnswer, sent_at: float) -> None:
        if answer.suspects:
            self._suspects_wait(answer.suspects)
        if self._chores:
            return
        unnamed = [beat for beat in beats if beat.worker in answer.unnamed]
        expired = answer.expired if self._may_bury(sent_at) else frozenset()
        sweep = sent_at >= self._sweep_at and _is_first(beats, answer)
        if unnamed or expired or sweep:
            chore = asyncio.ensure_future(self._chore(unnamed, expired, sweep=sweep))
            self._chores.add(chore)
            chore.add_done_callback(self._chores.discard)

    def _may_bury(self, sent_at: float) -> bool:
        return self._unbroken_since is not None and sent_at - self._unbroken_since >= self._settings.lease

    async def _chore(self, unnamed: Sequence[WorkerBeat], expired: frozenset[str], *, sweep: bool) -> None:
        try:
            for beat in unnamed:
                await self._calls.once(self._calls.verbs.reconcile(beat))
            if expired:
                condemned = await self._calls.once(self._calls.verbs.condemn(expired))
                for worker in sorted(condemned):
                    released = await self._calls.once(self._calls.verbs.bury(worker, VANISHED))
                    self._look |= bool(released)
                    dead = await find_dead(self._calls, released)
                    self._events.emit(WorkerFound(worker, 0, len(released) - len(dead)))
                    tell_dead(self._events, dead, VANISHED.evidence)
            if sweep and not await self._sweep():
                self._sweep_at = self._clock.boot() + SWEEP_EVERY
        except HoldfastError as error:
            log.warning("what the beat found could not be put right yet: %s", error)

    async def _sweep(self) -> bool:
        """Forget what is kept no longer; tell whether there may be more of it."""
        end_at = self._clock.boot() + SWEEP_FOR
        while self._clock.boot() < end_at:
            retired = 0
            if self._settings.keep_finished is not None:  # first, as it makes the most room where there is none
                age = timedelta(seconds=self._settings.keep_finished)
                retired = await self._calls.once(self._calls.verbs.retire(age, SWEPT_AT_ONCE))
            swept = await self._calls.once(self._calls.verbs.sweep(SWEPT_AT_ONCE))
            if max(retired, swept) < SWEPT_AT_ONCE:
                return False
        return True

    def _pause(self, answer: BeatAnswer, sent_at: float) -> float:
        """Return when to beat again: at the next turn, or as soon as there may be someone to bury."""
        pause = self._settings.beat_every
        slot = self._settings.safety_poll
        if slot >= pause:
            now = self._clock.boot() + self._clock_offset
            pause = min([pause, *(until_agreed(slot, turn, now) for turn in answer.turns.values())])
        if answer.next_expiry is not None:
            pause = min(pause, answer.next_expiry.total_seconds() + AFTER_EXPIRY)
        if answer.expired and self._unbroken_since is not None and not self._may_bury(sent_at):
            earned_in = self._unbroken_since + self._settings.lease - sent_at
            pause = min(pause, earned_in + AFTER_EXPIRY)
        return pause


def _is_first(beats: Sequence[WorkerBeat], answer: BeatAnswer) -> bool:
    """Tell whether one of these workers is the first of the living: what one does for all is up to it."""
    turns = [answer.turns[beat.worker] for beat in beats if beat.worker in answer.turns]
    return not turns or any(turn.rank == 0 for turn in turns)


def _said(refs: Sequence[ClaimRef]) -> tuple[tuple[str, int], ...]:
    return tuple((ref.job_id, ref.fence) for ref in refs)
