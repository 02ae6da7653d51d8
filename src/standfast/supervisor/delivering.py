"""The supervisor as a courier: sends what waits to be delivered, also when its children hang or serve others.

    something is due ─► registered ─► claim ─► sent in threads, beating ─► finished ─► buried as stopped
                                        └──── whenever there is a place free ◄──┘

It is a worker for as long as that takes. When the supervisor stops, what is being sent has some seconds to end;
programs that are not done by then are killed, and others try again. Should the supervisor be killed, its lease runs
out like any other, and somebody else sends what it had in hand, with the same ids.
"""

import asyncio
import logging
import os
import socket
from collections.abc import Callable
from datetime import datetime, timedelta
from functools import partial
from random import Random

from standfast.alerts.channels.command import Programs
from standfast.alerts.delivery import ARGUMENTS, DELIVER, POLICY, QUEUE, deliver_by
from standfast.alerts.watching import Watching
from standfast.clock import Clock
from standfast.core.crash import Death, DeathKind
from standfast.core.job import Claim, ClaimRef, Ending, KnownTask, Verdict
from standfast.errors import PayloadError, StandfastError, StoreError
from standfast.events import Events
from standfast.ids import new_worker_id
from standfast.store.protocol import ClaimRequest, WorkerBeat, WorkerInfo
from standfast.worker.announce import Announcer
from standfast.worker.completer import Ended
from standfast.worker.judge import Judge, describe
from standfast.worker.storecalls import StoreCalls
from standfast.worker.storeclock import StoreClock
from standfast.worker.threads import ThreadExecutor

log = logging.getLogger(__name__)

AT_ONCE = 8
"""How many are sent at a time."""

LAST_WORDS = 1.0
"""Seconds for what was cut off to be written down."""


class Courier:
    """Sends for one supervisor. `watching` tells which channels there are; `count` hears how each attempt ended."""

    def __init__(
        self,
        calls: StoreCalls,
        clock: Clock,
        events: Events,
        random: Random,
        *,
        supervisor: str,
        lease: timedelta,
        watching: Callable[[], Watching],
        count: Callable[[Ended, Verdict], None] = lambda _ended, _verdict: None,
    ) -> None:
        self._calls = calls
        self._clock = StoreClock(clock)
        self._announcer = Announcer(events)
        self._random = random
        self._supervisor = supervisor
        self._lease = lease
        self._watching = watching
        self._count = count
        self._programs = Programs()
        self._deliver = deliver_by(watching, self._clock.now, self._programs)
        self._closing = False
        self._home, self._more = asyncio.Event(), asyncio.Event()
        self._home.set()

    async def deliver_due(self) -> int:
        """Send all that is due, and return how many were tried; where that goes on already, have it look again."""
        self._more.set()
        if self._closing or not self._home.is_set() or not self._watching().channels:
            return 0
        self._home.clear()
        try:
            return await self._go()
        except StoreError as error:
            log.debug("deliveries could not be made, which is tried again: %s", error)
        except StandfastError:
            log.exception("deliveries could not be made; this is tried again")
        finally:
            self._home.set()
        return 0

    async def close(self, seconds: float, hurry: asyncio.Event) -> None:
        """Take no more, and wait for what is being sent; no longer than that, nor once there is need to hurry."""
        self._closing = True
        home, hurried = asyncio.ensure_future(self._home.wait()), asyncio.ensure_future(hurry.wait())
        await asyncio.wait((home, hurried), timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        self._programs.kill()
        await asyncio.wait((home,), timeout=LAST_WORDS)
        home.cancel()
        hurried.cancel()

    async def _go(self) -> int:
        trip = _Trip(new_worker_id(self._random))
        info = WorkerInfo(
            trip.worker, self._supervisor, socket.gethostname(), os.getpid(), self._lease, (QUEUE,), AT_ONCE
        )
        beating, threads = asyncio.create_task(self._beat(trip)), ThreadExecutor(AT_ONCE)
        try:
            await self._calls.once(self._calls.verbs.register(info))
            return await self._send_all(trip, threads)
        finally:
            threads.abandon()
            try:
                await self._leave(trip)
            finally:
                beating.cancel()

    async def _send_all(self, trip: "_Trip", threads: ThreadExecutor) -> int:
        """Send what is due, and what comes meanwhile: one receiver that takes long keeps none of the others."""
        sending, tried = set[asyncio.Task[None]](), 0
        try:
            while True:
                self._more.clear()
                room = 0 if self._closing else AT_ONCE - len(sending)
                claims = await self._claim(trip, room, idle=not sending) if room else ()
                sending |= {asyncio.create_task(self._send(trip, threads, claim)) for claim in claims}
                tried += len(claims)
                if not sending:
                    return tried
                if not claims:
                    await self._one_of(sending)
                for task in [task for task in sending if task.done()]:
                    sending.remove(task)
                    task.result()
        except asyncio.CancelledError:
            for task in sending:
                task.cancel()
            raise
        finally:
            await asyncio.gather(*sending, return_exceptions=True)  # before it is gone

    async def _one_of(self, sending: set[asyncio.Task[None]]) -> None:
        """Wait until one is sent, or there is more to send."""
        more = asyncio.ensure_future(self._more.wait())
        await asyncio.wait((*sending, more), return_when=asyncio.FIRST_COMPLETED)
        more.cancel()

    async def _leave(self, trip: "_Trip") -> None:
        """Be gone, as soon as the store can be told so: one that only falls silent is taken for a lost machine."""
        bury = partial(self._calls.verbs.bury, trip.worker, Death(DeathKind.STOPPED))
        await self._calls.until_answered(bury, passing=(StoreError,))

    async def _beat(self, trip: "_Trip") -> None:
        """Keep the lease while something is sent."""
        while True:
            await asyncio.sleep(self._lease.total_seconds() / 3)
            try:
                await self._calls.once(self._calls.verbs.beat([trip.beat()]))
            except StoreError:
                continue  # the next one may be answered in time

    async def _claim(self, trip: "_Trip", room: int, *, idle: bool) -> tuple[Claim, ...]:
        """Return some that are due; those that were in hand when somebody died last, one by one and last."""
        claims = await self._ask(trip, room)
        if claims or not idle:
            return claims
        answer = await self._calls.once(self._calls.verbs.beat([trip.beat()]))
        for group in sorted(each.group for each in answer.suspects if each.queue == QUEUE):
            if claims := await self._ask(trip, 1, group):
                return claims
        return ()

    async def _ask(self, trip: "_Trip", limit: int, group: int = 0) -> tuple[Claim, ...]:
        known = (KnownTask(DELIVER, POLICY.version),)
        request = ClaimRequest(trip.worker, trip.call + 1, limit, queues=(QUEUE,), adopt=known, group=group)
        asked_at = self._clock.boot()
        answer = await self._calls.once(self._calls.verbs.claim(request))
        self._clock.learn(asked_at, answer.now, self._clock.boot())
        trip.call, trip.claimed_at = request.call, answer.now
        trip.held |= {claim.ref for claim in answer.jobs}
        return answer.jobs

    async def _send(self, trip: "_Trip", threads: ThreadExecutor, claim: Claim) -> None:
        verbs, began_at = self._calls.verbs, self._clock.boot()
        [verdict] = await self._calls.once(verbs.start(trip.worker, [(claim.ref, trip.claimed_at)]))
        if verdict is Verdict.ACCEPTED:
            judge = Judge(claim, POLICY, trip.claimed_at, self._random)
            ended = Ended(claim, await self._judged(judge, threads), self._clock.boot() - began_at)
            finish = partial(verbs.finish, trip.worker, [ended.ending])
            [verdict] = await self._calls.until_answered(finish, passing=(StoreError,))
            self._count(ended, verdict)
            self._announcer.settled(ended, verdict)
        trip.held.discard(claim.ref)

    async def _judged(self, judge: Judge, threads: ThreadExecutor) -> Ending:
        try:
            arguments = ARGUMENTS.decode(judge.claim.payload)
        except PayloadError as error:
            return judge.dead(describe(error))
        call = threads.submit(partial(self._deliver, **arguments))
        try:
            async with asyncio.timeout(POLICY.timeout):
                returned = await call.done
        except TimeoutError:
            return judge.timed_out()
        return judge.returned(None) if returned.error is None else judge.raised(returned.error)


class _Trip:
    """One life as a worker: its claim calls so far, and what it has in hand."""

    def __init__(self, worker: str) -> None:
        self.worker = worker
        self.call = 0
        self.held: set[ClaimRef] = set()
        self.claimed_at: datetime

    def beat(self) -> WorkerBeat:
        """Return the word that it lives."""
        return WorkerBeat(self.worker, self.call, frozenset(self.held))
