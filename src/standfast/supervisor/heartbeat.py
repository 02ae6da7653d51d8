"""Beats for the children: it tells the store what they hold, and passes on what the answer says.

A beat waits for nothing but the store's answer to it. `Housekeeping` puts right what it brings to light.

Burying is earned. After an outage of the store every lease in the fleet looks expired; so nobody buries before its
own beats have succeeded, unbroken, for a whole lease: by then the living have beaten too. The same holds when the
store's clock was set, by which a server measures leases.
"""

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from datetime import datetime, timedelta

from standfast.errors import StoreError
from standfast.events import Events, WorkerLost
from standfast.model.clock import Clock
from standfast.model.concurrency import Wakeup
from standfast.model.configuration import Settings
from standfast.model.display import span
from standfast.model.job import ClaimRef
from standfast.stores.values import BeatAnswer, DueSuspects, Worker
from standfast.supervisor.child import Child, Phase
from standfast.supervisor.housekeeping import Housekeeping, nobody_minds
from standfast.supervisor.incidents.detector import IncidentDetector
from standfast.worker.lease import until_agreed
from standfast.worker.messages import Adopt, Renewed, Revoke, Told
from standfast.worker.storecalls import StoreCalls

log = logging.getLogger(__name__)
AFTER_EXPIRY = 0.05  # seconds to wait beyond someone's lease before looking whether it has beaten


@dataclass(eq=False)
class Heartbeat:
    """The beat of one supervisor. `suspects_wait` hears which suspects are due; `heed` hears every answer.

    `lost` hears of each worker that is about to be given up, `disowned` of each child that the store does not know.
    `memory` tells the resident bytes of processes, and is asked at every beat.
    """

    calls: StoreCalls
    clock: Clock
    settings: Settings
    events: Events
    _: KW_ONLY
    children: Callable[[], Sequence[Child]]
    suspects_wait: Callable[[frozenset[DueSuspects]], None]
    heed: Callable[[BeatAnswer], None] = lambda _: None
    lost: Callable[[Worker], Awaitable[None]] = nobody_minds
    detector: IncidentDetector | None = None
    memory: Callable[[Sequence[int]], Mapping[int, int]] = lambda _: {}
    disowned: Callable[[Child], None] = lambda _: None

    def __post_init__(self) -> None:
        self._housekeeping = Housekeeping(
            self.calls,
            self.clock,
            self.settings,
            self.events,
            came_back=self.look_soon,
            lost=self.lost,
            detector=self.detector,
        )
        self._pauses = self.calls.pauses(longest=min(1.0, self.settings.beat_every))
        self._unbroken_since: float | None = None
        self._last_sent = 0.0
        self._clock_offset = 0.0
        self._awake_at = self.clock.boot()
        self._look = False
        self._wakeup = Wakeup()

    def beat_now(self) -> None:
        """Beat without waiting for the next turn."""
        self._wakeup.call()

    def look_soon(self) -> None:
        """Let one of the children look for jobs with the next beat: some may have come back."""
        self._look = True

    def part_with(self, child: Child) -> None:
        """Replace a child that the store does not know any more, if that was not done yet."""
        if not child.lost:
            child.part_with(self.settings.grace)
            self.events.emit(WorkerLost(child.worker, child.process.pid))
            self.disowned(child)

    async def run(self) -> None:
        """Beat for as long as the supervisor lives."""
        pause = 0.0
        self._awake_at = self.clock.boot()
        try:
            while True:
                await self._wakeup.rest(pause)
                self._notice_standstill()
                pause = await self._beat()
                self._notice_standstill()
        finally:
            self._housekeeping.stop()

    def _notice_standstill(self) -> None:
        """Say so if this process has just stood still: stopped, or asleep with its machine. An outage is none."""
        boot = self.clock.boot()
        stood_still, self._awake_at = boot - self._awake_at, boot
        if stood_still > max(self.settings.lease, self.settings.store_timeout + self.settings.beat_every):
            log.warning(
                "stood still for %s: this supervisor gave no sign of life, and others may have its jobs by now;"
                " people are told of that only if another was there to notice",
                span(timedelta(seconds=stood_still)),
            )

    async def _beat(self) -> float:
        """Beat once; return how long to wait before the next time."""
        children = [child for child in self.children() if child.beaten_for]
        memory = self.memory([child.process.pid for child in children])
        sent_at = self.clock.boot()
        beats = [child.beat(memory.get(child.process.pid), sent_at) for child in children]
        try:
            answer = await self.calls.once(self.calls.verbs.beat(beats))
        except StoreError:
            self._unbroken_since = None
            return self._pauses.next()
        self._pauses.reset()
        self._note_success(sent_at, answer.now)
        still_here = {child.worker for child in self.children()}
        for child in children:
            if child.worker in still_here:  # else it has ended meanwhile, and we have buried it ourselves
                self._pass_on(child, answer, sent_at)
        self.heed(answer)
        if answer.suspects:
            self.suspects_wait(answer.suspects)
        self._housekeeping.after(beats, answer, may_bury=self._may_bury(sent_at))
        return self._pause(answer, sent_at)

    def _note_success(self, sent_at: float, store_now: datetime) -> None:
        """Note an answered beat. A gap before it, or a store whose clock was set, breaks the row of them."""
        offset = store_now.timestamp() - sent_at
        broken = self._unbroken_since is None or sent_at - self._last_sent > self.settings.lease
        if broken or abs(offset - self._clock_offset) > self.settings.beat_every:
            self._unbroken_since = sent_at
        self._last_sent, self._clock_offset = sent_at, offset

    def _may_bury(self, sent_at: float) -> bool:
        return self._unbroken_since is not None and sent_at - self._unbroken_since >= self.settings.lease

    def _pass_on(self, child: Child, answer: BeatAnswer, sent_at: float) -> None:
        if child.worker not in answer.accepted:
            self.part_with(child)
            return
        channel = child.process.channel
        cancelled = answer.revoked.get(child.worker, ())
        child.tell_cancelled(cancelled, sent_at)
        revoked = _said(cancelled)
        replaced = _said(answer.replaced.get(child.worker, ()))
        if revoked or replaced or answer.paused:
            channel.send(Revoke(revoked, tuple(sorted(answer.paused)), replaced))
        look = self._look and child.phase is Phase.WORKING and not child.spec.group
        self._look = self._look and not look
        told = Told(answer.now, self.clock.boot(), answer.turns.get(child.worker), look)
        channel.send(Renewed(sent_at, told))  # last: it lets held jobs start, unless the word before took them back
        if answer.blocked:
            channel.send(Adopt(tuple(sorted((task.name, task.version) for task in answer.blocked))))
        child.warm.set()

    def _pause(self, answer: BeatAnswer, sent_at: float) -> float:
        """Return when to beat again: at the next turn, or as soon as there may be someone to bury."""
        pause = self.settings.beat_every
        slot = self.settings.safety_poll
        if slot >= pause:
            now = self.clock.boot() + self._clock_offset
            pause = min([pause, *(until_agreed(slot, turn, now) for turn in answer.turns.values())])
        if answer.next_expiry is not None:
            pause = min(pause, answer.next_expiry.total_seconds() + AFTER_EXPIRY)
        if answer.expired and self._unbroken_since is not None and not self._may_bury(sent_at):
            earned_in = self._unbroken_since + self.settings.lease - sent_at
            pause = min(pause, earned_in + AFTER_EXPIRY)
        return pause


def _said(refs: Sequence[ClaimRef]) -> tuple[tuple[str, int], ...]:
    return tuple((ref.job_id, ref.fence) for ref in refs)
