"""Polls the store and claims jobs: in batches, ahead of their time, never more than can start soon.

`PollPlanner` decides when to poll, and is pure. A worker polls when the bell rang or something else is new
(called), when it is its turn (by turn), shortly before something urgent that was left, to be sure that others took
what was left to them, and, where `look_ahead` is no longer than a slot, as the next job comes within reach.

Who leaves something urgent in its turn rings the bell: others may have a slot. A worker that has gone is counted
until the next beat of the others, or until its lease is over. So more than half of the workers, those with the next
turns, look to be sure; all do while they are unsure who is there, or have no bell.
"""

import asyncio
import math
from collections import Counter
from collections.abc import Callable, Collection
from dataclasses import KW_ONLY, dataclass
from datetime import datetime, timedelta
from enum import Enum
from operator import attrgetter

from msgspec.structs import replace

from standfast.errors import StoreError, WorkerBuriedError
from standfast.model.concurrency import Wakeup
from standfast.model.configuration import Settings
from standfast.model.crash import group_limit
from standfast.model.job import KnownTask
from standfast.stores.backend import Bell, Listener
from standfast.stores.values import ClaimAnswer, ClaimRequest, Turn
from standfast.worker.claim_log import ClaimLog
from standfast.worker.lease import TOLERANCE, Lease, PollTurns
from standfast.worker.limits import Gates
from standfast.worker.loops import HalfDoneError
from standfast.worker.options import FairShares, ServedQueues, interleaved
from standfast.worker.storecalls import StoreCalls, StoreClock
from standfast.worker.timers import Load, Timers
from standfast.worker.windows import Closures

SHORTEST_NAP = 0.01
LEAD = 0.5  # seconds before its time at which one looks again for a job that was left
ON_ITS_WAY = timedelta(seconds=0.1)
"""How long a claim may be on its way to the store, which looks ahead from when it comes."""

SLACK = 0.2
"""Seconds by which `look_ahead` must be longer than a slot, so that turns alone bring every job in on time."""

_fence_of = attrgetter("ref.fence")


class PlannedPoll(Enum):
    """A look at the store that is to be made now."""

    CALLED = "called"
    BY_TURN = "by turn"


@dataclass(frozen=True, slots=True)
class PollResult:
    """What came of one.

    `filled`: as many due jobs as were asked for, so that there may be more; `ring`: others should look for what was
    left; `report`: they should hear that there was a look.
    """

    filled: bool
    ring: bool = False
    report: bool = False


class PollPlanner:
    """The looks of one worker. Times are the store's."""

    def __init__(self, settings: Settings, load: Load, turns: PollTurns) -> None:
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

    def begin(self, now: datetime) -> PlannedPoll | None:
        """Return the look that is to be made now, if one is."""
        by_turn = self._turns.is_up(now.timestamp())
        if not by_turn and not self._called and now.timestamp() < min(self._look_at, self._look_if_unsure_at):
            return None
        self._called = False
        self._for_ring |= self._rung
        self._rung = False  # what rings from now on is for the next look to explain
        return PlannedPoll.BY_TURN if by_turn else PlannedPoll.CALLED

    def put_off(self, look: PlannedPoll, now: datetime) -> None:
        """Note that there is enough in hand, and no look after all."""
        if look is PlannedPoll.BY_TURN:
            self._turns.take(now.timestamp())
        self._look_at = self._look_if_unsure_at = math.inf
        self._heed_ring(now, news=False)
        self.wait_for_a_place()

    def wait_for_a_place(self) -> None:
        """Note that there may be something to find when a place is free."""
        self._left_nothing = False

    def wanted_ahead(self, look: PlannedPoll) -> int:
        """Return how many jobs to take ahead of their time."""
        if look is PlannedPoll.BY_TURN or not self._turns.has_others:
            return self._load.wanted_ahead
        return self._load.wanted_soon if self._left_urgent else self._load.wanted_together

    def reach(self, now: datetime) -> timedelta:
        """Return how far ahead to look: not as far as to what was given back, or it would be given again."""
        look_ahead = timedelta(seconds=self._settings.look_ahead)
        if self._reach_until is None or self._reach_until <= now:
            self._reach_until = None
            return look_ahead
        return min(max(self._reach_until - now - ON_ITS_WAY, timedelta()), look_ahead)

    def heed(
        self, look: PlannedPoll, request: ClaimRequest, answer: ClaimAnswer, *, due: int, crowded: bool
    ) -> PollResult:
        """Learn from an answer when to look again. So many of its jobs are due; `crowded`: some had to go back."""
        filled, ahead = 0 < request.limit <= due, len(answer.jobs) - due
        now = answer.now.timestamp()
        if look is PlannedPoll.BY_TURN:
            self._turns.take(now)
        next_due_at = math.inf if answer.next_due_at is None else answer.next_due_at.timestamp()
        in_reach = next_due_at <= now + self._settings.look_ahead
        if self._for_ring:
            all_new = max(map(_fence_of, answer.jobs), default=0) == 1  # jobs, and none that somebody had before
            self._heed_ring(answer.now, news=not self._left_within_reach and all_new)
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
        if look is not PlannedPoll.BY_TURN:
            return PollResult(filled)
        return PollResult(
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


# Claim calls are numbered, and each is closed in the claim log before the next: so the beat can name what this
# worker holds, and the store releases anything else of a closed call. For the same reason the loop may be restarted
# after a failure, unless claims are logged and not held. A stopped claimer still polls in its turns: others count
# on them.
#
# Weighted queues recur in a fixed order, and in odd calls the store lets those go first that have waited for long
# (see `ClaimRequest`). So that a queue meets both kinds of call, the numbers skip one now and again.

BATCH = 500
KNOWN_AFTER = 2  # turns after which all know of a job that is due
GOLDEN = 1.618033988749895  # the whole parts of its multiples are odd and even without any period


@dataclass(eq=False)
class Claimer:
    """The only place where a worker takes jobs."""

    _: KW_ONLY
    calls: StoreCalls
    bell: Bell
    clock: StoreClock
    settings: Settings
    worker: str
    served: ServedQueues | None
    lease: Lease
    timers: Timers
    load: Load
    turns: PollTurns
    claim_log: ClaimLog
    closures: Closures
    gates: Gates | None
    report_look: Callable[[], None]
    buried: Callable[[], None]

    def __post_init__(self) -> None:
        self._queues = None if self.served is None else self.served.names
        self._fair: FairShares | None = None
        if self.served is not None and self.served.weights is not None:
            self._fair = FairShares(dict(zip(self.served.names, self.served.weights, strict=True)))
        self._max_wait = None if self.settings.max_wait is None else timedelta(seconds=self.settings.max_wait)
        self._looks = PollPlanner(self.settings, self.load, self.turns)
        self._call = 0
        self._calls_made = 0
        self._adopt: tuple[KnownTask, ...] = ()
        self._unknown: dict[str, KnownTask] = {}
        self._wakeup = Wakeup()
        self._stopped = False

    def wake(self) -> None:
        """Look again soon: the bell rang, or something else changed."""
        self._looks.call()
        self._wakeup.call()

    def slot_free(self) -> None:
        """Look again soon for more, unless the last look has left nothing: then the bell will tell of more."""
        if self._looks.place_free():
            self._wakeup.call()

    def take_turns(self, turn: Turn | None, told_at: datetime, *, at_once: bool) -> None:
        """Hear from a beat, answered then, of one's place among those who take turns; `at_once`: take one now."""
        self._looks.take_turns(turn, told_at, self.clock.now(), at_once=at_once)
        self._wakeup.call()

    def adopt(self, tasks: Collection[KnownTask]) -> None:
        """Take these blocked tasks, known here, with the next claim."""
        self._adopt = tuple(tasks)
        self.wake()

    def pass_over(self, unknown: KnownTask) -> None:
        """Have the store put aside, with the next claim, the jobs of a task that is not known here."""
        self._unknown[unknown.name] = unknown

    def overbooked(self) -> None:
        """Hear that due jobs went back for want of a place: look for them when there is one, if nobody else did."""
        self._looks.wait_for_a_place()
        self.look_after_held()

    def look_after_held(self) -> bool:
        """Let others have what would find no place here at its time, if they hear of it before; tell whether so."""
        heard_at = self._looks.heard_at(self.clock.now())
        if heard_at is None:
            return False
        crowded = self.timers.give_back_crowded(heard_at, self.load.lasts)
        if crowded:
            self.load.too_many_ahead()
            self._looks.gave_back(min(claim.run_at for claim in crowded))
        else:
            self.load.not_too_many_ahead()
        return bool(crowded)

    def stop(self) -> None:
        """Claim no more, but go on to look in its turns for others. A call that is under way is still answered."""
        self._stopped = True
        self.wake()

    async def run(self) -> None:
        """Claim until stopped, and take turns until cancelled; begun again after a failure, look at once."""
        if self._calls_made:
            self._looks.call()
        await self.take_its_turns()

    async def claim_group(self, group: int) -> bool:
        """Take suspects that may run together, in a child of their own; return whether there were any."""
        limit = min(group_limit(group), self.settings.concurrency)
        pauses = self.calls.pauses()
        while not self._stopped:
            if not self.lease.fresh:
                await self.lease.renewal()
                continue
            call = self._next_call()
            try:
                answer = await self._ask(ClaimRequest(self.worker, call, limit, self._queues, group=group))
            except StoreError:
                await asyncio.sleep(pauses.next())
            else:
                return answer is not None and bool(answer.jobs)
        return False

    async def heed_bell(self) -> None:
        """Look whenever the bell rings."""
        listener = await self._listener()
        try:
            while True:
                if await listener.wait(self.settings.safety_poll):
                    self._looks.call(rung=True)
                    self._wakeup.call()
        finally:
            listener.close()

    async def _listener(self) -> Listener:
        """Open the bell. It is a hint only: while it cannot be opened, the claims say what is wrong."""
        while True:
            try:
                return self.bell.listen()
            except StoreError:
                await asyncio.sleep(self.settings.safety_poll)

    async def take_its_turns(self) -> None:
        """Look by turn and when there is another reason; once stopped by turn alone, and take nothing."""
        pauses = self.calls.pauses()
        while True:
            if not self.lease.fresh:
                await self.lease.renewal()
                continue
            look = self._looks.begin(self.clock.now())
            request = None if look is None else self._request(look)
            if look is None or request is None:
                await self._wakeup.rest(self._looks.rest_for(self.clock.now()))
                continue
            began = self.clock.boot()
            try:
                answer = await self._ask(request)
                took = self.clock.boot() - began
                left = await self._leaves_to_others(look, request)
            except StoreError:
                self._looks.call()
                self._adopt = self._adopt or request.adopt
                await asyncio.sleep(pauses.next())
                continue
            pauses.reset()
            if answer is None:
                return
            self._heed(look, request, answer, left=left)
            if self.gates is not None:
                await asyncio.sleep(self.gates.rest_after(request, took))

    def _request(self, look: PlannedPoll) -> ClaimRequest | None:
        """Return what to ask for now, or None with enough in hand, or while all its queues are closed."""
        limit = ahead_limit = 0
        if not self._stopped and not (self.gates is not None and self.gates.closes(self._queues)):
            limit, ahead_limit = min(self.load.wanted, BATCH), self._looks.wanted_ahead(look)
            limit = limit if self.gates is None else self.gates.most(limit)
        by_turn, slow = look is PlannedPoll.BY_TURN, self.turns.slow
        if not self.closures.all_closed(self._queues):
            if limit > 0 or (by_turn and slow and ahead_limit > 0):
                return self._whole_request(limit, min(ahead_limit, BATCH))
            if by_turn and not slow:
                return self._empty_request()
        self._looks.put_off(look, self.clock.now())
        return None

    def _whole_request(self, limit: int, ahead_limit: int) -> ClaimRequest:
        adopt, self._adopt = self._adopt, ()
        unknown, self._unknown = self._unknown, {}
        queues, shares = (self._queues, None) if self._fair is None else self._fair.divide(limit)
        request = ClaimRequest(
            worker=self.worker,
            call=self._next_call(),
            limit=limit,
            queues=queues,
            shares=shares,
            max_wait=self._max_wait,
            look_ahead=self._looks.reach(self.clock.now()),
            ahead_limit=ahead_limit,
            adopt=adopt,
            unknown=tuple(unknown.values()),
        )
        return request if self.gates is None else self.gates.narrow(request)

    def _empty_request(self) -> ClaimRequest:
        """Return how to see what is there without taking any of it, on behalf of those who could.

        It takes no number of its own, or queues that go first in turn by those numbers would lose turns to it.
        """
        return ClaimRequest(self.worker, self._call or self._next_call(), limit=0, queues=self._queues)

    def _next_call(self) -> int:
        self._call += 1
        self._calls_made += 1
        if self._fair is not None and self._call % 2 != int(self._calls_made * GOLDEN) % 2:
            self._call += 1
        return self._call

    async def _ask(self, request: ClaimRequest) -> ClaimAnswer | None:
        """Make one claim call and close it; None once this worker is buried."""
        if closed := self.closures.closed_queues():
            request = replace(request, closed=(*request.closed, *closed))
        sent_at = self.clock.boot()
        try:
            answer = await self.calls.once(self.calls.verbs.claim(request))
        except WorkerBuriedError:
            self.buried()
            return None
        except Exception:
            self.claim_log.given_up(request.call)
            raise
        self.clock.learn(sent_at, answer.now, self.clock.boot())
        self.claim_log.answered(request.call, [claim.ref for claim in answer.jobs])
        try:
            self.lease.came_by(sent_at)
            self.timers.hold(answer.jobs if self._fair is None else interleaved(answer.jobs))
        except Exception as error:
            raise HalfDoneError("jobs were claimed, and not all of them are held") from error
        return answer

    async def _leaves_to_others(self, look: PlannedPoll, request: ClaimRequest) -> bool:
        """Tell whether a look by turn passed over what others should look for: gates are of one process.

        What has been due for some turns was not taken by any of them: those who get room for it look by themselves.
        So all are called to it once in a round, by the first of them, and not in each turn.
        """
        if (
            look is not PlannedPoll.BY_TURN
            or not (request.closed or request.closed_tasks)
            or not self.turns.has_others
        ):
            return False
        answer = await self._ask(self._empty_request())
        if answer is None or answer.next_due_at is None:
            return False
        due_at, now = answer.next_due_at.timestamp(), answer.now.timestamp()
        if due_at < now - KNOWN_AFTER * self.settings.safety_poll and not self.turns.is_first:
            return False
        return not self.turns.somebody_looks_before(due_at, now)

    def _heed(self, look: PlannedPoll, request: ClaimRequest, answer: ClaimAnswer, *, left: bool) -> None:
        """Learn from an answer, and do what it asks for; `left`: it passed over something."""
        due = [claim for claim in answer.jobs if claim.run_at <= answer.now]
        if self._fair is not None and request.shares is not None:
            self._fair.learn(Counter(claim.queue for claim in due))
        crowded = len(due) < len(answer.jobs) and self.look_after_held()
        found = self._looks.heed(look, request, answer, due=len(due), crowded=crowded or left)
        if self.gates is not None:
            self.gates.learn(request, due, filled=found.filled)
        if found.filled and {task.name for task in request.adopt} & {claim.task for claim in answer.jobs}:
            self._adopt = self._adopt or request.adopt  # there may be more of them
        if found.ring or left:
            self.bell.ring()
        if found.report:
            self.report_look()
