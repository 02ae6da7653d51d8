"""Ends children that hang: a handler may hold the interpreter for good, or a call of the store may never return."""

import asyncio
from collections.abc import Callable, Sequence

from holdfast.clock import Clock
from holdfast.errors import StoreError
from holdfast.events import Events, WorkerHung
from holdfast.supervisor.child import Child, Phase
from holdfast.supervisor.evidence.portrait import take_portrait
from holdfast.worker.storecalls import StoreCalls

LOOK_EVERY = 1.0

START_LIMIT = 60.0
"""Seconds that a child has at least to import the app: its event loop does not turn meanwhile."""


class HangWatch:
    """Looks after the children of one supervisor; `limit` is for how many seconds one may give no sign of life."""

    def __init__(
        self,
        calls: StoreCalls,
        clock: Clock,
        events: Events,
        limit: float,
        children: Callable[[], Sequence[Child]],
    ) -> None:
        self._calls = calls
        self._clock = clock
        self._events = events
        self._limit = limit
        self._children = children
        self._ending = set[str]()

    async def run(self) -> None:
        """Look at the children, again and again. To end one takes a while, in which the others are watched."""
        looked_at = self._clock.boot()
        async with asyncio.TaskGroup() as group:
            while True:
                await asyncio.sleep(LOOK_EVERY)
                slept = self._clock.boot() - looked_at
                looked_at += slept
                for child in self._children():
                    if slept > 2 * LOOK_EVERY:  # we were stopped ourselves, and could not hear
                        child.pulse_at = looked_at
                    elif child.worker not in self._ending and await self._hangs(child, looked_at):
                        self._ending.add(child.worker)
                        group.create_task(self._end(child, max(looked_at - child.pulse_at, child.unanswered_for)))

    async def _hangs(self, child: Child, now: float) -> bool:
        """Tell whether a child gives no sign of life, or gets no answer from a store that does answer us."""
        limit = max(self._limit, START_LIMIT) if child.phase is Phase.STARTING else self._limit
        if now - child.pulse_at > limit:
            return True
        if child.unanswered_for <= self._limit:
            return False
        try:
            await self._calls.once(self._calls.verbs.reconcile(child.beat()))  # a write like those of the child
        except StoreError:
            return False
        return True

    async def _end(self, child: Child, silent: float) -> None:
        portrait = await take_portrait(child)
        child.verdict = f"it gave no sign of life for {silent:.0f} s, here:\n{portrait.get('stacks', '')}"
        child.portrait = portrait
        self._events.emit(WorkerHung(child.worker, child.process.pid, silent))
        child.process.kill()
        self._ending.discard(child.worker)
