"""How long this worker may trust its claims, by the boot clock alone; and whose turn it is to poll.

renewed ──(2 beats, or lease − margin)──► stale: starts nothing ──(lease − margin)──► lost: handlers are told
▲                                                                                     │
└──────────────── the next accepted beat ◄────────────────────────────────────────────┘     buried: for good
"""

import asyncio
import math
from datetime import datetime

from standfast.model.clock import Clock
from standfast.stores.values import Turn


class Lease:
    """The worker's view of its own lease. Ends are counted from when a beat was *sent*, never from its answer."""

    def __init__(self, clock: Clock, lease: float, margin: float, beat_every: float) -> None:
        self._clock = clock
        self._trusted_for = lease - margin
        self._fresh_for = min(2 * beat_every, self._trusted_for)
        self._sent_at = self._fresh_until = self._distrusted_at = -math.inf
        self._renewal = asyncio.Event()
        self.buried = False

    def renewed(self, sent_at: float) -> None:
        """Take note of an accepted beat."""
        self._sent_at = max(self._sent_at, sent_at)
        if self._sent_at >= self._distrusted_at:
            self._fresh_until = self._sent_at + self._fresh_for
            self._renewal.set()

    def came_by(self, sent_at: float) -> None:
        """Take note of claims that were asked for then.

        If that is long ago, because this process stood still, beats may have brought word about them before they
        were known here: nothing starts before one that is sent from now on has said it again.
        """
        now = self._clock.boot()
        if now - sent_at >= self._fresh_for:
            self._distrusted_at, self._fresh_until = now, -math.inf

    def bury(self) -> None:
        """Take note that the store gave this worker up."""
        self.buried = True
        self._renewal.set()

    @property
    def fresh(self) -> bool:
        """Whether a job may start: a revocation made three beats ago has arrived, and the claim is ours."""
        return self._clock.boot() < self._fresh_until and not self.buried

    @property
    def lost(self) -> bool:
        """Whether others may have been given our jobs. Withdrawn when the next beat is accepted."""
        return self.buried or self._clock.boot() >= self._sent_at + self._trusted_for

    @property
    def remaining(self) -> float:
        """Seconds until the lease can no longer be trusted; at least 0."""
        return max(0.0, self._sent_at + self._trusted_for - self._clock.boot())

    async def renewal(self) -> None:
        """Wait for the next accepted beat, or for burial."""
        self._renewal.clear()
        await self._renewal.wait()


# A wake-up can get lost, and jobs come due by the mere passing of time: so workers of the same queues poll in turn,
# by the store's time. With three workers and a slot of S seconds, rank 0 polls at 0, rank 1 at S, rank 2 at 2·S,
# rank 0 at 3·S.
#
# The beat tells each worker its rank among how many; a stopping worker keeps its turns. While the fleet changes
# size two may poll in one slot, or nobody: with slots much shorter than `look_ahead` that does no harm. Where slots
# are as long as the beat's interval, all beat shortly before each slot, so that they agree; who has polled beats at
# once, and whoever learns that nobody has polled for too long does so itself.

ALONE = Turn(0, 1)
TOLERANCE = 1.0  # seconds after which a look that was due counts as missed
AGREED_BEFORE = (0.3, 0.7)  # seconds before a slot within which all beat, the last of them first
FEW = 3  # so many workers at least look in time for what all have left: two of them may be gone
_ROUNDING = 1e-6  # the part of a round by which the time may seem to be before a slot that has come


class PollTurns:
    """The turns of one worker. Times are the store's, in seconds."""

    def __init__(self, every: float, beat_every: float) -> None:
        self._every = every
        self.slow = every >= beat_every
        """Whether slots are so long that one missed would be missed by jobs: then beats tell who has looked."""
        self.polled_at: datetime | None = None  # when this worker last looked and left nothing within reach
        self._turn = ALONE
        self._slot: float | None = None
        self._looked_at = -math.inf
        self._at_once = not self.slow

    @property
    def has_others(self) -> bool:
        """Whether somebody else lives who could take what this worker leaves."""
        return self._turn.of > 1

    @property
    def is_first(self) -> bool:
        """Whether a round begins with this worker."""
        return self._turn.rank == 0

    def learn(self, turn: Turn | None, now: float) -> bool:
        """Hear of one's place, none if alone, and of the last look of all; tell whether the place is the same."""
        before, self._turn = self._turn, turn or ALONE
        same_place = (self._turn.rank, self._turn.of) == (before.rank, before.of)
        if not same_place and now < self._slot_from(now, before):
            self._slot = None
        came_back = self._turn.of < before.of and self._turn.rank == 0
        if came_back or (self.slow and self._is_missed(now)):
            self._at_once = True
        return same_place

    def look_at_once(self) -> None:
        """Take the next turn now: jobs may have come back of which no bell tells."""
        self._at_once = True

    def is_up(self, now: float) -> bool:
        """Tell whether it is this worker's turn."""
        return self._at_once or now >= self._slot_from(now, self._turn)

    def due_in(self, now: float) -> float:
        """Return the seconds until it is."""
        return 0.0 if self._at_once else max(0.0, self._slot_from(now, self._turn) - now)

    def somebody_looks_before(self, at: float, now: float) -> bool:
        """Tell whether it is somebody else's turn before this time."""
        return self.has_others and self._every * (math.floor(now / self._every) + 1) + TOLERANCE / 10 < at

    def is_among_next(self, now: float) -> bool:
        """Tell whether one of the next turns is this worker's own, of those of more than half of the workers."""
        few = max(FEW, self._turn.of // 2 + 1)
        return self._slot_from(now, self._turn) < self._every * (math.floor(now / self._every) + few + 0.5)

    def looked(self, at: datetime, *, left: bool) -> None:
        """Note a look, by turn or not; `left`: it left something within reach."""
        self._looked_at = at.timestamp()
        if not left:
            self.polled_at = at

    def take(self, now: float) -> None:
        """Take the turn that has come, or let it go by."""
        self._at_once = False
        if now >= self._slot_from(now, self._turn):
            self._slot = self._slot_after(now, self._turn)

    def _is_missed(self, now: float) -> bool:
        told = self._turn.polled_at
        polled_at = -math.inf if told is None else told.timestamp()
        if polled_at > now + TOLERANCE:  # the store's clock was set back
            polled_at = -math.inf
        return now - max(polled_at, self._looked_at) > self._every + TOLERANCE

    def _slot_from(self, now: float, turn: Turn) -> float:
        """Return the slot that was planned; a new one where there is none, or the store's clock was set back."""
        if self._slot is None or self._slot - now > turn.of * self._every:
            self._slot = self._slot_after(now, turn)
        return self._slot

    def _slot_after(self, now: float, turn: Turn) -> float:
        a_round = turn.of * self._every
        first = turn.rank * self._every
        return first + a_round * (math.floor((now - first) / a_round + _ROUNDING) + 1)


def until_agreed(every: float, turn: Turn, now: float) -> float:
    """Return the seconds until one has to beat, so as to know the others as they are when the next slot begins."""
    latest, earliest = AGREED_BEFORE
    return every - (now + latest + (earliest - latest) * turn.rank / turn.of) % every
