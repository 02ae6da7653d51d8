"""Ends children that hang: a handler may hold the interpreter for good, or a call of the store may never return."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from standfast.errors import StoreError
from standfast.events import Events, WorkerHung
from standfast.model.clock import Clock
from standfast.supervisor.child import Child, Phase
from standfast.supervisor.incidents.snapshot import take_portrait, where_it_hangs
from standfast.worker.storecalls import StoreCalls

log = logging.getLogger(__name__)

LOOK_EVERY = 1.0
START_LIMIT = 60.0  # seconds that a child has at least to import the app: its event loop does not turn meanwhile


@dataclass(eq=False)
class HangWatch:
    """Looks after the children of one supervisor; `limit` is for how many seconds one may give no sign of life.

    `end` ends one of them.

    Before a child could say where the store is, and what the app sets, there are `calls` to none.
    """

    clock: Clock
    events: Events
    limit: float
    children: Callable[[], Sequence[Child]]
    end: Callable[[Child], Awaitable[None]] | None = None

    def __post_init__(self) -> None:
        self._end_child = self.end or _kill
        self._calls: StoreCalls | None = None
        self._ending = set[str]()
        self._told = set[str]()

    def learn(self, calls: StoreCalls, limit: float) -> None:
        """Learn how the store is asked, and what limit the app sets."""
        self._calls, self.limit = calls, limit

    async def run(self) -> None:
        """Look at the children, again and again. To end one takes a while, in which the others are watched."""
        looked_at = self.clock.boot()
        async with asyncio.TaskGroup() as group:
            while True:
                await asyncio.sleep(LOOK_EVERY)
                slept = self.clock.boot() - looked_at
                looked_at += slept
                for child in self.children():
                    if slept > 2 * LOOK_EVERY:  # we were stopped ourselves, and could not hear
                        child.pulse_at = looked_at
                    elif child.dropped:
                        continue  # what it does is of no interest any more, but for its end
                    elif child.worker not in self._ending and await self._hangs(child, looked_at):
                        self._ending.add(child.worker)
                        group.create_task(self._end(child, max(looked_at - child.pulse_at, child.unanswered_for)))

    async def _hangs(self, child: Child, now: float) -> bool:
        """Tell whether a child gives no sign of life, or gets no answer from a store that does answer us.

        One that waits to be registered is not listened to, and has nothing to do.
        """
        silent, limit = now - child.pulse_at, self.limit
        if child.phase is Phase.STARTING:
            limit = max(limit, START_LIMIT)
            self._tell_if_slow(child, silent, limit)
            if child.greeted:
                return False
        if silent > limit:
            return True
        if self._calls is None or child.unanswered_for <= self.limit:
            return False
        try:
            await self._calls.once(self._calls.verbs.reconcile(child.beat()))  # a write like those of the child
        except StoreError:
            return False
        await asyncio.sleep(LOOK_EVERY)  # an outage may just have ended: its next pulse tells
        return child.unanswered_for > self.limit

    def _tell_if_slow(self, child: Child, silent: float, limit: float) -> None:
        if silent <= START_LIMIT or child.worker in self._told:
            return
        if child.greeted:
            self._told.add(child.worker)
            why = self._calls.trouble if self._calls is not None else ""
            log.warning(
                "child %d is ready, and has waited %.0f s for the store to register it: %s",
                child.process.pid,
                silent,
                why or "no answer yet",
            )
        elif silent <= limit:
            self._told.add(child.worker)
            log.warning(
                "child %d has imported the app for %.0f s, or hangs there: it is ended after %.0f s",
                child.process.pid,
                silent,
                limit,
            )

    async def _end(self, child: Child, silent: float) -> None:
        portrait = await take_portrait(child)
        starting = ""
        if child.phase is Phase.STARTING:
            starting = " while it imported the app (if that takes long, set STANDFAST_HANG_LIMIT)"
        loop_stands = child.unanswered_for <= self.limit  # else it waits for the store, and no handler is to blame
        child.where = where_it_hangs(portrait.get("stacks", "")) if loop_stands else ""
        at = f", at {child.where}" if child.where else ""
        child.verdict = f"it gave no sign of life for {silent:.0f} s{starting}{at}"
        child.portrait = portrait
        self.events.emit(WorkerHung(child.worker, child.process.pid, silent, child.process.killable))
        await self._end_child(child)
        self._ending.discard(child.worker)


async def _kill(child: Child) -> None:
    child.kill()
