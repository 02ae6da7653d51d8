"""Replaces children by overlap: the fresh one works before the old one is asked to leave.

    due ─► permit ─► fresh child starts ─► it works ─► still permitted ─► the old one drains ─► gone
                            └─ it dies ─► the old one stays; tried again later, or given up if somebody asked for it

What is due is decided in `recycling.py`. One child at a time; on a reload the next one follows as soon as a fresh
one works, however long the old one still drains.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from standfast.codec.redaction import redact_text
from standfast.events import WorkerNotRecycled, WorkerRecycling
from standfast.schedule.spread import share
from standfast.supervisor.child import Child, Phase
from standfast.supervisor.memory import memory_of
from standfast.supervisor.orders import Order, RefusedError
from standfast.supervisor.permit import Permit
from standfast.supervisor.plan import Ports
from standfast.supervisor.recycling import ROOM, Due, Limits, Urgency, Wear, Wish
from standfast.wakeup import Wakeup
from standfast.words import in_bytes, moment, one_line

log = logging.getLogger(__name__)

LOOK_EVERY = 1.0

ASK_AGAIN = 2.0
"""Seconds, and up to twice as many, until a permit that others have is asked for again."""

LONGEST_PAUSE = 60.0
"""Seconds between two tries at most, where fresh children die."""

QUICKLY = 1.5
"""Seconds that a child has to finish when its code was changed under the eyes of its developer."""

_SHARES = 1000
_LONGEST_REASON = 500

ASKED_FOR = (Urgency.COMMAND, Urgency.RELOAD, Urgency.FILE_CHANGED)
"""Who asked is told that it failed, and may ask again; every other reason stays, and is tried again."""

NOT_WAITED_FOR = (Urgency.RELOAD, Urgency.FILE_CHANGED)
"""After these the next child need not wait until the one before is gone."""


class Crew(Protocol):
    """The children of a supervisor, as far as they can be replaced."""

    @property
    def stopping(self) -> bool:
        """Whether all are to leave."""
        ...

    def children(self) -> Sequence[Child]:
        """Return all of them."""
        ...

    async def relieve(self, old: Child) -> Child | None:
        """Start a child that is to take the place of another; None where that cannot be, or is not needed."""
        ...

    def let_go(self, child: Child, within: float) -> None:
        """Ask a child to leave, and let it finish within this many seconds."""
        ...


class Recycler:
    """Replaces the children of one supervisor."""

    def __init__(
        self,
        crew: Crew,
        limits: Limits,
        permit: Permit,
        ports: Ports,
        *,
        memory: Callable[[Sequence[int]], Mapping[int, int]] = memory_of,
    ) -> None:
        self.limits = limits
        """As the newest child has told them."""
        self._crew = crew
        self._permit = permit
        self._clock = ports.clock
        self._random = ports.random
        self._events = ports.events
        self._memory = memory
        self._wishes: dict[str, Wish] = {}
        self._failures = 0
        self._try_again_at = 0.0
        self._ask_again_at = 0.0
        self._told = False
        self._hurried = set[str]()
        self._why_not = ""
        self._wakeup = Wakeup()

    # -- what people want ------------------------------------------------------------------------------------

    def replace_all(self, urgency: Urgency, words: str) -> bool:
        """Have all children replaced, one after the other; those that are just starting too, once they work.

        Tell whether there are any: of each of them it is said why it is replaced.
        """
        now, force = self._clock.now(), urgency is Urgency.FILE_CHANGED
        meant = [
            child for child in self._crew.children() if not child.spec.group and child.phase is not Phase.LEAVING
        ]
        self._wishes |= {child.worker: Wish(urgency, words, force=force) for child in meant}
        until = self.limits.rules.forbidden_until(now)
        if until is not None and not force:
            log.warning(
                "%s: the window that forbids it ends at %s, and so it is put off", words, moment(until, now)
            )
        self._wakeup.call()
        return bool(meant)

    async def carry_out(self, order: Order) -> None:
        """Have a child replaced because somebody ordered it; return when it leaves. Raises RefusedError."""
        child = next((each for each in self._crew.children() if each.worker == order.worker), None)
        if child is None or child.spec.group:
            return
        wish = self._wishes[child.worker] = Wish(Urgency.COMMAND, "it was ordered", force="force" in order.details)
        self._wakeup.call()
        while self._wishes.get(child.worker) is wish and not child.replace.is_set():
            await _first_of(child.replace, within=LOOK_EVERY)
        given_up = child.worker not in self._wishes and not child.replace.is_set()
        if given_up and not self._crew.stopping and child in self._crew.children():
            raise RefusedError(
                f"no other could take its place: {one_line(redact_text(self._why_not), _LONGEST_REASON)}"
            )

    # -- the loop --------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Look after the children, again and again."""
        while True:
            await self._wakeup.rest(LOOK_EVERY)
            if not self._crew.stopping:
                self._hurry_on()
                await self._look()

    def _hurry_on(self) -> None:
        """Wait no longer than the grace for children that leave, and only go on with jobs that were cancelled."""
        for child in self._crew.children():
            if child.phase is Phase.LEAVING and child.worker not in self._hurried and child.runs_cancelled_only:
                self._hurried.add(child.worker)
                told_for = self._clock.boot() - max(child.told.values())
                child.ask_to_leave(max(0.0, self.limits.settings.grace - told_for))

    async def _look(self) -> None:
        for child, due in self._due():
            waits = self._clock.boot() < self._try_again_at and due.urgency not in ASKED_FOR
            if not waits and await self._replace_if_permitted(child, due):
                return

    def _due(self) -> list[tuple[Child, Due]]:
        children = {child.worker: child for child in self._crew.children()}
        self._wishes = {worker: wish for worker, wish in self._wishes.items() if worker in children}
        self._hurried &= children.keys()
        vitals = self._wear_of([child for child in children.values() if _can_be_replaced(child)])
        due = self.limits.due(vitals, self._wishes, self._clock.now())
        return [(children[each.worker], each) for each in due]

    async def _replace_if_permitted(self, old: Child, due: Due) -> bool:
        """Replace a child, unless another machine is about it; tell whether that was tried."""
        if not due.alone:
            await self._replace(old, due)
            return True
        if self._clock.boot() < self._ask_again_at:
            return False
        async with self._permit.held() as permitted:
            if permitted:
                await self._replace(old, due)
            else:
                self._ask_again_at = self._clock.boot() + ASK_AGAIN * self._random.uniform(1, 2)
            return permitted

    async def _replace(self, old: Child, due: Due) -> None:
        fresh, wishes = None, self._wishes.copy()
        if not self._crew.stopping and not old.replace.is_set():
            fresh = await self._crew.relieve(old)
        if fresh is not None:
            self._events.emit(WorkerRecycling(old.worker, old.process.pid, due.words, fresh.worker))
            await _first_of(fresh.warm, fresh.gone)
            await self._until_permitted(old, fresh, due)
        if self._crew.stopping or old.replace.is_set():
            return  # it has ended, or was asked to leave, meanwhile: the fresh one has its place, if it lives
        if fresh is None or fresh.gone.is_set():
            if due.urgency in ASKED_FOR:
                self._give_up(due.urgency, wishes)
            self._failed(old, due, "no process could be started" if fresh is None else fresh.verdict)
            return
        self._failures, self._try_again_at = 0, 0.0
        quickly = due.urgency is Urgency.FILE_CHANGED
        self._crew.let_go(old, QUICKLY if quickly else self.limits.settings.drain_limit)
        if due.urgency not in NOT_WAITED_FOR:
            await self._until_gone(old)

    async def _until_permitted(self, old: Child, fresh: Child, due: Due) -> None:
        """Wait until the permit is ours again if it was lost meanwhile: others may replace theirs by it."""
        told = False
        while not (
            self._may_let_go(old, due) or self._crew.stopping or old.replace.is_set() or fresh.gone.is_set()
        ):
            if not told:
                told = True
                log.warning(
                    "the permit to replace worker %s was lost: it goes on until it is had again", old.worker
                )
            await _first_of(old.replace, fresh.gone, within=LOOK_EVERY)

    def _may_let_go(self, old: Child, due: Due) -> bool:
        return (
            not due.alone
            or self._permit.ours
            or any(child is old and not each.alone for child, each in self._due())
        )

    async def _until_gone(self, old: Child) -> None:
        """Wait until a child is gone; what cannot wait so long, goes on meanwhile."""
        while not (old.gone.is_set() or self._crew.stopping):
            await _first_of(old.gone, within=LOOK_EVERY)
            self._hurry_on()
            if any(wish.urgency is Urgency.RELOAD for wish in self._wishes.values()):
                return
            for child, due in self._due():
                if not due.alone:
                    await self._replace(child, due)

    def _give_up(self, urgency: Urgency, wishes: Mapping[str, Wish]) -> None:
        """Drop what was wished before a start that failed, of all children: it would fail again.

        What was wished since then stays: the code may have been put right meanwhile.
        """
        self._wishes = {
            worker: wish
            for worker, wish in self._wishes.items()
            if wish.urgency is not urgency or wishes.get(worker) is not wish
        }

    def _failed(self, old: Child, due: Due, why: str) -> None:
        """Let the old one stay; what nobody asked for is tried again later."""
        old.successor = None
        pause = None
        if due.urgency not in ASKED_FOR:
            pause = min(2.0**self._failures, LONGEST_PAUSE)
            self._failures += 1
            self._try_again_at = self._clock.boot() + pause
        self._why_not = why or "a fresh child died at once"
        self._events.emit(WorkerNotRecycled(old.worker, old.process.pid, self._why_not, pause))

    def _wear_of(self, children: Sequence[Child]) -> list[Wear]:
        limit = self.limits.settings.recycle_memory
        memory = {} if limit is None else self._memory([child.process.pid for child in children])
        for child in children:
            if child.began_with is None:
                child.began_with = memory.get(child.process.pid)
                self._tell_if_too_much(child.began_with, limit)
        return [
            Wear(
                child.worker,
                age=self._clock.boot() - child.started_boot,
                started_at=child.started_at,
                ended=child.ended_attempts,
                memory=memory.get(child.process.pid),
                began_with=child.began_with,
                spread=share(_SHARES, "recycle", child.worker) / _SHARES,
            )
            for child in children
        ]

    def _tell_if_too_much(self, began_with: int | None, limit: int | None) -> None:
        if began_with is not None and limit is not None and began_with > limit and not self._told:
            self._told = True
            log.warning(
                "recycle_memory is %s, but a fresh child takes %s before its first job; it is replaced when it"
                " takes %s: raise the limit",
                in_bytes(limit),
                in_bytes(began_with),
                in_bytes(int(ROOM * began_with)),
            )


def _can_be_replaced(child: Child) -> bool:
    return child.phase is Phase.WORKING and child.warm.is_set() and not child.spec.group


async def _first_of(*events: asyncio.Event, within: float | None = None) -> None:
    """Wait until one of them is set, but no longer than this."""
    waiting = [asyncio.ensure_future(event.wait()) for event in events]
    try:
        await asyncio.wait(waiting, timeout=within, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for each in waiting:
            each.cancel()
