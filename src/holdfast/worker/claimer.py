"""Fetches jobs: in batches, ahead of their time, never more than can be started soon.

    idle ──(bell, next due, safety poll)──► claim ──► more than asked for? claim again
     ▲                                        │
     └────────── enough in hand ◄─────────────┘

Claim calls are numbered and each is closed in the notes, answered or given up, before the next one is made: so the
beat can name what this worker holds, and anything else of a closed call is released by the store.

Where queues share the worker by weight, their turns recur. In odd calls the store lets those go first that have
waited for long (see `ClaimRequest`), so odd and even must not recur likewise, or some queue would never have an odd
call: the numbers skip one now and again.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Collection
from datetime import timedelta

from holdfast.core.job import Claim, KnownTask
from holdfast.errors import StoreError, WorkerBuriedError
from holdfast.settings import Settings
from holdfast.store.backend import Bell, Listener
from holdfast.store.protocol import ClaimAnswer, ClaimRequest
from holdfast.worker.fairness import FairShares, interleaved
from holdfast.worker.lease import Lease
from holdfast.worker.load import Load
from holdfast.worker.notes import Notes
from holdfast.worker.served import ServedQueues
from holdfast.worker.storecalls import StoreCalls
from holdfast.worker.storeclock import StoreClock

BATCH = 500
SHORTEST_NAP = 0.01

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
        load: Load,
        notes: Notes,
        take: Callable[[Collection[Claim]], None],
        buried: Callable[[], None],
    ) -> None:
        self._calls = calls
        self._bell = bell
        self._clock = clock
        self._settings = settings
        self._worker = worker
        self._queues = None if served is None else served.names
        self._fair = FairShares(served) if served is not None and served.weights is not None else None
        self._max_wait = None if settings.max_wait is None else timedelta(seconds=settings.max_wait)
        self._lease = lease
        self._load = load
        self._notes = notes
        self._take = take
        self._buried = buried
        self._call = 0
        self._calls_made = 0
        self._adopt: tuple[KnownTask, ...] = ()
        self._news = asyncio.Event()
        self._left_nothing = False
        self._stopped = False

    def wake(self) -> None:
        """Look again soon: the bell rang, or something else changed."""
        self._news.set()

    def slot_free(self) -> None:
        """Look again soon for more, unless the last look has left nothing: then the bell will tell of more."""
        if not self._left_nothing:
            self._news.set()

    def adopt(self, tasks: Collection[KnownTask]) -> None:
        """Take these blocked tasks, known here, with the next claim."""
        self._adopt = tuple(tasks)
        self.wake()

    def stop(self) -> None:
        """Claim no more. A call that is under way is still answered."""
        self._stopped = True
        self.wake()

    async def run(self) -> None:
        """Claim until stopped."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._heed_bell())
            await self._claim_forever()

    async def claim_alone(self) -> bool:
        """Take one suspect, in a child of its own; return whether there was any left."""
        pauses = self._calls.pauses()
        while not self._stopped:
            if not self._lease.fresh:
                await self._lease.renewal()
                continue
            call = self._next_call()
            try:
                answer = await self._ask(ClaimRequest(self._worker, call, limit=1, queues=self._queues, alone=True))
            except StoreError:
                await asyncio.sleep(pauses.next())
            else:
                return answer is not None and bool(answer.jobs)
        return False

    async def _heed_bell(self) -> None:
        listener = await self._listener()
        try:
            while True:
                if await listener.wait(self._settings.safety_poll):
                    self.wake()
        finally:
            listener.close()

    async def _listener(self) -> Listener:
        """Open the bell. It is a hint only: while it cannot be opened, the claims say what is wrong."""
        while True:
            try:
                return self._bell.listen()
            except StoreError:
                await asyncio.sleep(self._settings.safety_poll)

    async def _claim_forever(self) -> None:
        pauses = self._calls.pauses()
        while not self._stopped:
            if not self._lease.fresh:
                await self._lease.renewal()
                continue
            self._news.clear()
            request = self._request()
            if request is None:
                self._left_nothing = False  # a ring that comes now is answered with no look
                await self._rest(self._settings.safety_poll)
                continue
            try:
                answer = await self._ask(request)
            except StoreError:
                await asyncio.sleep(pauses.next())
                continue
            pauses.reset()
            if answer is None:
                return
            if self._fair is not None:
                self._fair.learn(Counter(claim.queue for claim in answer.jobs if claim.run_at <= answer.now))
            self._left_nothing = answer.next_due_at is None or answer.next_due_at > answer.now
            if len(answer.jobs) >= request.limit:
                self._adopt = self._adopt or request.adopt  # there may be more of them
            else:
                await self._rest(self._nap(answer))

    def _request(self) -> ClaimRequest | None:
        """Return what to ask for now, or None with enough in hand."""
        limit = min(self._load.wanted, BATCH)
        if limit <= 0:
            return None
        adopt, self._adopt = self._adopt, ()
        queues, shares = (self._queues, None) if self._fair is None else self._fair.divide(limit)
        return ClaimRequest(
            worker=self._worker,
            call=self._next_call(),
            limit=limit,
            queues=queues,
            shares=shares,
            max_wait=self._max_wait,
            look_ahead=timedelta(seconds=self._settings.look_ahead),
            ahead_limit=self._load.wanted_ahead,
            adopt=adopt,
        )

    def _next_call(self) -> int:
        self._call += 1
        self._calls_made += 1
        if self._fair is not None and self._call % 2 != int(self._calls_made * GOLDEN) % 2:
            self._call += 1
        return self._call

    async def _ask(self, request: ClaimRequest) -> ClaimAnswer | None:
        """Make one claim call and close it; None once this worker is buried."""
        sent_at = self._clock.boot()
        try:
            answer = await self._calls.once(self._calls.verbs.claim(request))
        except WorkerBuriedError:
            self._buried()
            return None
        except StoreError:
            self._notes.given_up(request.call)
            raise
        self._clock.learn(sent_at, answer.now, self._clock.boot())
        self._notes.answered(request.call, [claim.ref for claim in answer.jobs])
        self._take(answer.jobs if self._fair is None else interleaved(answer.jobs))
        return answer

    def _nap(self, answer: ClaimAnswer) -> float:
        """Return how long nothing new can be due, at most the safety poll."""
        longest = self._settings.safety_poll
        if answer.next_due_at is None:
            return longest
        due_in = (answer.next_due_at - answer.now).total_seconds()
        in_reach = due_in - self._settings.look_ahead
        return min(max(in_reach if in_reach > 0 else due_in, SHORTEST_NAP), longest)

    async def _rest(self, seconds: float) -> None:
        """Sleep until news, but no longer than this."""
        try:
            async with asyncio.timeout(seconds):
                await self._news.wait()
        except TimeoutError:
            return
