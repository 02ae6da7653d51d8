"""Fetches jobs: in batches, ahead of their time, never more than can be started soon.

    idle ──(when: looks.py)──► claim ──► more than asked for? claim again
     ▲                           │
     └───── enough in hand ◄─────┘

Once stopped it takes none, and goes on to look in its turns: others count on them for as long as it is registered.

Claim calls are numbered and each is closed in the notes, answered or given up, before the next one is made: so the
beat can name what this worker holds, and anything else of a closed call is released by the store. For the same
reason the loop may be begun again after a failure, unless it fails with claims that are noted and not held.

Where queues share the worker by weight, their turns recur. In odd calls the store lets those go first that have
waited for long (see `ClaimRequest`), so odd and even must not recur likewise, or some queue would never have an odd
call: the numbers skip one now and again.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Collection
from datetime import datetime, timedelta

from msgspec.structs import replace

from standfast.core.crash import group_limit
from standfast.core.job import KnownTask
from standfast.errors import StoreError, WorkerBuriedError
from standfast.settings import Settings
from standfast.store.backend import Bell, Listener
from standfast.store.protocol import ClaimAnswer, ClaimRequest, Turn
from standfast.wakeup import Wakeup
from standfast.worker.closures import Closures
from standfast.worker.fairness import FairShares, interleaved
from standfast.worker.gates import Gates
from standfast.worker.lease import Lease
from standfast.worker.load import Load
from standfast.worker.looks import Look, Looks
from standfast.worker.notes import Notes
from standfast.worker.served import ServedQueues
from standfast.worker.storecalls import StoreCalls
from standfast.worker.storeclock import StoreClock
from standfast.worker.tending import HalfDoneError
from standfast.worker.timers import Timers
from standfast.worker.turns import Turns

BATCH = 500

KNOWN_AFTER = 2
"""Turns after which all know of a job that is due."""

GOLDEN = 1.618033988749895
"""The whole parts of its multiples are odd and even without any period."""


class Claimer:
    """The only place where a worker takes jobs."""

    def __init__(
        self,
        *,
        calls: StoreCalls,
        bell: Bell,
        clock: StoreClock,
        settings: Settings,
        worker: str,
        served: ServedQueues | None,
        lease: Lease,
        timers: Timers,
        load: Load,
        turns: Turns,
        notes: Notes,
        closures: Closures,
        gates: Gates | None,
        report_look: Callable[[], None],
        buried: Callable[[], None],
    ) -> None:
        self._calls = calls
        self._bell = bell
        self._clock = clock
        self._settings = settings
        self._worker = worker
        self._queues = None if served is None else served.names
        self._fair: FairShares | None = None
        if served is not None and served.weights is not None:
            self._fair = FairShares(dict(zip(served.names, served.weights, strict=True)))
        self._max_wait = None if settings.max_wait is None else timedelta(seconds=settings.max_wait)
        self._lease = lease
        self._timers = timers
        self._load = load
        self._turns = turns
        self._notes = notes
        self._closures = closures
        self._gates = gates
        self._report_look = report_look
        self._buried = buried
        self._looks = Looks(settings, load, turns)
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
        self._looks.take_turns(turn, told_at, self._clock.now(), at_once=at_once)
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
        heard_at = self._looks.heard_at(self._clock.now())
        if heard_at is None:
            return False
        crowded = self._timers.give_back_crowded(heard_at, self._load.lasts)
        if crowded:
            self._load.too_many_ahead()
            self._looks.gave_back(min(claim.run_at for claim in crowded))
        else:
            self._load.not_too_many_ahead()
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
        limit = min(group_limit(group), self._settings.concurrency)
        pauses = self._calls.pauses()
        while not self._stopped:
            if not self._lease.fresh:
                await self._lease.renewal()
                continue
            call = self._next_call()
            try:
                answer = await self._ask(ClaimRequest(self._worker, call, limit, self._queues, group=group))
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
                if await listener.wait(self._settings.safety_poll):
                    self._looks.call(rung=True)
                    self._wakeup.call()
        finally:
            listener.close()

    async def _listener(self) -> Listener:
        """Open the bell. It is a hint only: while it cannot be opened, the claims say what is wrong."""
        while True:
            try:
                return self._bell.listen()
            except StoreError:
                await asyncio.sleep(self._settings.safety_poll)

    async def take_its_turns(self) -> None:
        """Look by turn and when there is another reason; once stopped by turn alone, and take nothing."""
        pauses = self._calls.pauses()
        while True:
            if not self._lease.fresh:
                await self._lease.renewal()
                continue
            look = self._looks.begin(self._clock.now())
            request = None if look is None else self._request(look)
            if look is None or request is None:
                await self._wakeup.rest(self._looks.rest_for(self._clock.now()))
                continue
            began = self._clock.boot()
            try:
                answer = await self._ask(request)
                took = self._clock.boot() - began
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
            if self._gates is not None:
                await asyncio.sleep(self._gates.rest_after(request, took))

    def _request(self, look: Look) -> ClaimRequest | None:
        """Return what to ask for now, or None with enough in hand, or while all its queues are closed."""
        limit = ahead_limit = 0
        if not self._stopped and not (self._gates is not None and self._gates.closes(self._queues)):
            limit, ahead_limit = min(self._load.wanted, BATCH), self._looks.wanted_ahead(look)
            limit = limit if self._gates is None else self._gates.most(limit)
        by_turn, slow = look is Look.BY_TURN, self._turns.slow
        if not self._closures.all_closed(self._queues):
            if limit > 0 or (by_turn and slow and ahead_limit > 0):
                return self._whole_request(limit, min(ahead_limit, BATCH))
            if by_turn and not slow:
                return self._empty_request()
        self._looks.put_off(look, self._clock.now())
        return None

    def _whole_request(self, limit: int, ahead_limit: int) -> ClaimRequest:
        adopt, self._adopt = self._adopt, ()
        unknown, self._unknown = self._unknown, {}
        queues, shares = (self._queues, None) if self._fair is None else self._fair.divide(limit)
        request = ClaimRequest(
            worker=self._worker,
            call=self._next_call(),
            limit=limit,
            queues=queues,
            shares=shares,
            max_wait=self._max_wait,
            look_ahead=self._looks.reach(self._clock.now()),
            ahead_limit=ahead_limit,
            adopt=adopt,
            unknown=tuple(unknown.values()),
        )
        return request if self._gates is None else self._gates.narrow(request)

    def _empty_request(self) -> ClaimRequest:
        """Return how to see what is there without taking any of it, on behalf of those who could.

        It takes no number of its own, or queues that go first in turn by those numbers would lose turns to it.
        """
        return ClaimRequest(self._worker, self._call or self._next_call(), limit=0, queues=self._queues)

    def _next_call(self) -> int:
        self._call += 1
        self._calls_made += 1
        if self._fair is not None and self._call % 2 != int(self._calls_made * GOLDEN) % 2:
            self._call += 1
        return self._call

    async def _ask(self, request: ClaimRequest) -> ClaimAnswer | None:
        """Make one claim call and close it; None once this worker is buried."""
        if closed := self._closures.closed_queues():
            request = replace(request, closed=(*request.closed, *closed))
        sent_at = self._clock.boot()
        try:
            answer = await self._calls.once(self._calls.verbs.claim(request))
        except WorkerBuriedError:
            self._buried()
            return None
        except Exception:
            self._notes.given_up(request.call)
            raise
        self._clock.learn(sent_at, answer.now, self._clock.boot())
        self._notes.answered(request.call, [claim.ref for claim in answer.jobs])
        try:
            self._lease.came_by(sent_at)
            self._timers.hold(answer.jobs if self._fair is None else interleaved(answer.jobs))
        except Exception as error:
            raise HalfDoneError("jobs were claimed, and not all of them are held") from error
        return answer

    async def _leaves_to_others(self, look: Look, request: ClaimRequest) -> bool:
        """Tell whether a look by turn passed over what others should look for: gates are of one process.

        What has been due for some turns was not taken by any of them: those who get room for it look by themselves.
        So all are called to it once in a round, by the first of them, and not in each turn.
        """
        if look is not Look.BY_TURN or not (request.closed or request.closed_tasks) or not self._turns.has_others:
            return False
        answer = await self._ask(self._empty_request())
        if answer is None or answer.next_due_at is None:
            return False
        due_at, now = answer.next_due_at.timestamp(), answer.now.timestamp()
        if due_at < now - KNOWN_AFTER * self._settings.safety_poll and not self._turns.is_first:
            return False
        return not self._turns.somebody_looks_before(due_at, now)

    def _heed(self, look: Look, request: ClaimRequest, answer: ClaimAnswer, *, left: bool) -> None:
        """Learn from an answer, and do what it asks for; `left`: it passed over something."""
        due = [claim for claim in answer.jobs if claim.run_at <= answer.now]
        if self._fair is not None and request.shares is not None:
            self._fair.learn(Counter(claim.queue for claim in due))
        crowded = len(due) < len(answer.jobs) and self.look_after_held()
        found = self._looks.heed(look, request, answer, due=len(due), crowded=crowded or left)
        if self._gates is not None:
            self._gates.learn(request, due, filled=found.filled)
        if found.filled and {task.name for task in request.adopt} & {claim.task for claim in answer.jobs}:
            self._adopt = self._adopt or request.adopt  # there may be more of them
        if found.ring or left:
            self._bell.ring()
        if found.report:
            self._report_look()
