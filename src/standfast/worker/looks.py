"""When a worker looks for jobs, and how many it takes ahead of their time. Pure: told the time, it only decides.

    called       the bell rang, or something else is new: all look, and each takes what it could start at once
    by turn      nobody else looks now: it takes all that comes within reach and finds a place here (turns.py)
    urgent       what was left and is due before anybody's next turn, shortly before its time
    to be sure   what was left to the turns of others, shortly before its time, in case that they take none
    by oneself   the next job as it comes within reach, where `look_ahead` is no longer than a slot

Who leaves something urgent in its turn rings the bell, for others may have a place for it. So the turn of a busy
worker is not lost; and what is not urgent waits for the turns of the others. Who stops, or runs a suspect alone, is
counted for as long as it lives, and so takes its turns like a busy worker.

But who has gone is counted until the next beat of those who stay, and who was killed until its lease is over. So
those look to be sure who have the next turns, more than half of all: one of them that is there is enough. And all
do while they are unsure who is there: the bell also rings when somebody has gone, and a ring without news of jobs
may be that one, until a beat tells. Without a bell nothing tells, and all look to be sure.
"""

import math
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum
from operator import attrgetter

from standfast.settings import Settings
from standfast.store.protocol import ClaimAnswer, ClaimRequest, Turn
from standfast.worker.load import Load
from standfast.worker.turns import TOLERANCE, Turns

SHORTEST_NAP = 0.01

LEAD = 0.5
"""Seconds before its time at which one looks again for a job that was left."""

ON_ITS_WAY = timedelta(seconds=0.1)
"""How long a claim may be on its way to the store, which looks ahead from when it comes."""

SLACK = 0.2
"""Seconds by which `look_ahead` must be longer than a slot, so that turns alone bring every job in on time."""

_fence_of = attrgetter("ref.fence")


class Look(Enum):
    """A look at the store that is to be made now."""

    CALLED = "called"
    BY_TURN = "by turn"


@dataclass(frozen=True, slots=True)
class Found:
    """What came of one.

    `filled`: as many due jobs as were asked for, so that there may be more; `ring`: others should look for what was
    left; `report`: they should hear that there was a look.
    """

    filled: bool
    ring: bool = False
    report: bool = False


class Looks:
    """The looks of one worker. Times are the store's."""

    def __init__(self, settings: Settings, load: Load, turns: Turns) -> None:
        self._settings = settings
        self._load = load
        self._turns = turns
        self._called = False
        self._rung = False
        self._for_ring = False
        self._left_nothing = False
        self._left_within_reach = False
        self._left_urgent = False
        self._look_at = math.inf
        self._unsure_since: datetime | None = None
        self._look_if_unsure_at = math.inf
        self._reach_until: datetime | None = None

    def call(self, *, rung: bool = False) -> None:
        """Look soon; `rung`: because the bell rang."""
        self._called = True
        self._rung |= rung

    def place_free(self) -> bool:
        """Look soon for more, unless the last look has left nothing; tell whether to."""
        self._called |= not self._left_nothing
        return self._called

    def take_turns(self, turn: Turn | None, told_at: datetime, now: datetime, *, at_once: bool) -> None:
        """Hear from a beat, answered then, of one's place among those who take turns; `at_once`: take one now."""
        same_place = self._turns.learn(turn, now.timestamp())
        if self._unsure_since is not None and self._unsure_since < told_at:
            self._unsure_since = None
            if same_place:  # else somebody may have gone whose turn would have come meanwhile
                self._look_if_unsure_at = math.inf
        if at_once:
            self._turns.look_at_once()

    def begin(self, now: datetime) -> Look | None:
        """Return the look that is to be made now, if one is."""
        by_turn = self._turns.is_up(now.timestamp())
        if not by_turn and not self._called and now.timestamp() < min(self._look_at, self._look_if_unsure_at):
            return None
        self._called = False
        self._for_ring |= self._rung
        self._rung = False  # what rings from now on is for the next look to explain
        return Look.BY_TURN if by_turn else Look.CALLED

    def put_off(self, look: Look, now: datetime) -> None:
        """Note that there is enough in hand, and no look after all."""
        if look is Look.BY_TURN:
            self._turns.take(now.timestamp())
        self._look_at = self._look_if_unsure_at = math.inf
        self._heed_ring(now, news=False)
        self.wait_for_a_place()

    def wait_for_a_place(self) -> None:
        """Note that there may be something to find when a place is free."""
        self._left_nothing = False

    def wanted_ahead(self, look: Look) -> int:
        """Return how many jobs to take ahead of their time."""
        if look is Look.BY_TURN or not self._turns.has_others:
            return self._load.wanted_ahead
        return self._load.wanted_soon if self._left_urgent else self._load.wanted_together

    def reach(self, now: datetime) -> timedelta:
        """Return how far ahead to look: not as far as to what was given back, or it would be given again."""
        look_ahead = timedelta(seconds=self._settings.look_ahead)
        if self._reach_until is None or self._reach_until <= now:
            self._reach_until = None
            return look_ahead
        return min(max(self._reach_until - now - ON_ITS_WAY, timedelta()), look_ahead)

    def heed(self, look: Look, request: ClaimRequest, answer: ClaimAnswer, *, due: int, crowded: bool) -> Found:
        """Learn from an answer when to look again. So many of its jobs are due; `crowded`: some had to go back."""
        filled, ahead = 0 < request.limit <= due, len(answer.jobs) - due
        now = answer.now.timestamp()
        if look is Look.BY_TURN:
            self._turns.take(now)
        next_due_at = math.inf if answer.next_due_at is None else answer.next_due_at.timestamp()
        in_reach = next_due_at <= now + self._settings.look_ahead
        if self._for_ring:
            self._heed_ring(answer.now, news=not self._left_within_reach and _all_new(answer))
        self._called |= filled
        self._left_nothing = next_due_at > now and max(request.limit, request.ahead_limit) > 0
        self._left_within_reach = in_reach
        self._left_urgent = in_reach and not self._turns.somebody_looks_before(next_due_at, now)
        has_room = request.ahead_limit <= ahead and request.ahead_limit < self._load.wanted_soon
        self._look_at = self._next_look(now, next_due_at, has_room=has_room)
        self._look_if_unsure_at = math.inf
        if in_reach and not self._left_urgent:
            self._be_sure(now, next_due_at)
        if self._reach_until is not None:
            self._look_at = min(self._look_at, self._reach_until.timestamp())
        self._turns.looked(answer.now, left=in_reach or crowded)
        if look is not Look.BY_TURN:
            return Found(filled)
        return Found(
            filled,
            ring=self._left_urgent and not filled and self._turns.has_others,
            report=self._turns.slow and not in_reach and not crowded,
        )

    def heard_at(self, now: datetime) -> datetime | None:
        """Return when others will have heard of what is given back now, if there are others."""
        if not self._turns.has_others:
            return None
        return now + timedelta(seconds=self._settings.beat_every + TOLERANCE) if self._turns.slow else now

    def gave_back(self, soonest: datetime) -> None:
        """Note that jobs went back for want of a place at their time, the soonest of them due then."""
        self._reach_until = soonest  # sooner than before, or it had not been reached
        self._look_at = min(self._look_at, soonest.timestamp())

    def rest_for(self, now: datetime) -> float:
        """Return the seconds until the next look, if nobody calls before."""
        seconds = now.timestamp()
        return min(self._turns.due_in(seconds), max(0.0, min(self._look_at, self._look_if_unsure_at) - seconds))

    def _next_look(self, now: float, next_due_at: float, *, has_room: bool) -> float:
        """Return when to look even if nobody calls and it is not one's turn."""
        look_ahead = self._settings.look_ahead
        if next_due_at <= now:
            return now + SHORTEST_NAP  # somebody else is about to take it
        shortly_before = _shortly_before(next_due_at, now)
        if self._left_urgent:
            return now if has_room else shortly_before
        if look_ahead < self._settings.safety_poll + SLACK:
            return shortly_before if next_due_at <= now + look_ahead else next_due_at - look_ahead
        return math.inf

    def _be_sure(self, now: float, next_due_at: float) -> None:
        """Plan to look for what was left to the turns of others, in case that they take none."""
        shortly_before = _shortly_before(next_due_at, now)
        if self._turns.slow or self._turns.is_among_next(now):
            self._look_at = min(self._look_at, shortly_before)
        elif self._unsure_since is not None:
            self._look_if_unsure_at = shortly_before

    def _heed_ring(self, now: datetime, *, news: bool) -> None:
        """Note what the ring was about, if there was one: without `news` of jobs, somebody may have gone."""
        if self._for_ring and not news:
            self._unsure_since = now
        self._for_ring = False


def _shortly_before(due_at: float, now: float) -> float:
    """Return when to look again for what is due then, and may be so before long."""
    return due_at - LEAD if now < due_at - LEAD else due_at


def _all_new(answer: ClaimAnswer) -> bool:
    """Tell whether it brought jobs, and none that somebody else had before."""
    return max(map(_fence_of, answer.jobs), default=0) == 1
