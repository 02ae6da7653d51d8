"""Replaces children that have lived long enough or whose code has changed, and drains those that are to leave.

`Limits` decides, and is pure: one at a time, the most urgent first, of those the oldest. Children of one supervisor
are as old and have done as much as each other, so each gets its own share of `SPREAD` on top of the limits.
"""

import asyncio
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import IntEnum

from standfast.events import Events, WorkerDrained, WorkerDraining, WorkerNotRecycled, WorkerRecycling
from standfast.model.concurrency import Wakeup
from standfast.model.configuration import Settings
from standfast.model.display import in_bytes, moment, one_line
from standfast.model.redaction import redact_text
from standfast.schedules.closed_hours import NO_RULES, RecycleRules
from standfast.schedules.rules import share
from standfast.supervisor.child import Child, ChildSlot, Phase
from standfast.supervisor.children import Children
from standfast.supervisor.locks import Permit
from standfast.supervisor.orders import Order, RefusedError
from standfast.supervisor.plan import Ports
from standfast.supervisor.process import memory_of

SPREAD = 0.1
"""By how much of the limit children of one age, or with as many jobs behind them, may differ when they go."""

TOO_MUCH = 1.5  # so many times its limit of memory, and a child is replaced whatever other machines do
ROOM = 1.5
"""One that takes more than its limit from the start is replaced when it takes so many times what it began with."""


class Urgency(IntEnum):
    """Why a child is to be replaced, the most urgent first."""

    FILE_CHANGED = 0
    MEMORY = 1
    COMMAND = 2
    RELOAD = 3
    TIME = 4
    JOBS = 5
    AGE = 6


@dataclass(frozen=True, slots=True)
class Wear:
    """How worn a working child is. `memory`, and what it `began_with`, are bytes, None where nobody looks.

    `spread` is its own, from 0 to 1.
    """

    worker: str
    age: float
    started_at: datetime
    ended: int = 0
    memory: int | None = None
    began_with: int | None = None
    spread: float = 0.0


@dataclass(frozen=True, slots=True)
class Wish:
    """Somebody wants a child replaced; `force`: also inside a window that forbids it."""

    urgency: Urgency
    words: str
    force: bool = False


@dataclass(frozen=True, slots=True)
class Due:
    """A child that is to be replaced; `alone`: only if no other machine is about it."""

    worker: str
    urgency: Urgency
    words: str
    alone: bool = True


@dataclass(frozen=True, slots=True)
class Limits:
    """When a child has lived long enough."""

    settings: Settings
    rules: RecycleRules = NO_RULES

    def due(self, children: Sequence[Wear], wishes: Mapping[str, Wish], now: datetime) -> list[Due]:
        """Return who is to be replaced, the most urgent first; in a forbidden window only who has to by force."""
        found: list[tuple[Urgency, float, Due]] = []
        forbidden = self.rules.forbidden_until(now) is not None
        for child in children:
            wish = wishes.get(child.worker)
            if forbidden and (wish is None or not wish.force):
                continue
            reasons = list(self._reasons(child, now))
            if wish is not None:
                alone = wish.urgency is not Urgency.FILE_CHANGED
                reasons.append(Due(child.worker, wish.urgency, wish.words, alone=alone))
            if reasons:
                first = min(reasons, key=lambda due: due.urgency)
                found.append((first.urgency, -child.age, first))
        return [due for *_, due in sorted(found, key=lambda each: each[:2])]

    def _reasons(self, child: Wear, now: datetime) -> Iterator[Due]:
        settings, more = self.settings, 1 + SPREAD * child.spread
        memory = self.memory_for(child)
        if memory is not None and child.memory is not None and child.memory > memory:
            words = f"{in_bytes(child.memory)} of memory exceed recycle_memory, which is {in_bytes(memory)}"
            yield Due(child.worker, Urgency.MEMORY, words, alone=child.memory <= TOO_MUCH * memory)
        if self.rules.due(child.started_at, now):
            yield Due(child.worker, Urgency.TIME, "the time for it has come")
        if settings.recycle_jobs is not None and child.ended >= settings.recycle_jobs * more:
            words = f"it has ended {child.ended:,} attempts, and recycle_jobs is {settings.recycle_jobs:,}"
            yield Due(child.worker, Urgency.JOBS, words)
        if settings.recycle_age is not None and child.age >= settings.recycle_age * more:
            words = f"it is {child.age:.0f} s old, and recycle_age is {settings.recycle_age:g} s"
            yield Due(child.worker, Urgency.AGE, words)

    def memory_for(self, child: Wear) -> int | None:
        """Return how much memory a child may take, if there is a limit."""
        limit = self.settings.recycle_memory
        if limit is None or child.began_with is None or child.began_with <= limit:
            return limit
        return int(ROOM * child.began_with)


#     due ─► permit ─► fresh child starts ─► it works ─► still permitted ─► the old one drains ─► gone
# One child at a time; on a reload the next follows as soon as a fresh one works. If the fresh one dies, the old one
# stays.

log = logging.getLogger(__name__)

LOOK_EVERY = 1.0
ASK_AGAIN = 2.0  # seconds, and up to twice as many, until a permit that others have is asked for again
LONGEST_PAUSE = 60.0  # seconds between two tries at most, where fresh children die
QUICKLY = 1.5  # seconds that a child has to finish when its code was changed under the eyes of its developer
_SHARES = 1000
_LONGEST_REASON = 500

ASKED_FOR = (Urgency.COMMAND, Urgency.RELOAD, Urgency.FILE_CHANGED)
"""Who asked is told that it failed, and may ask again; every other reason stays, and is tried again."""

NOT_WAITED_FOR = (Urgency.RELOAD, Urgency.FILE_CHANGED)
"""After these the next child need not wait until the one before is gone."""


class Recycler:
    """Replaces the children of one supervisor."""

    def __init__(
        self,
        children: Children,
        limits: Limits,
        permit: Permit,
        ports: Ports,
        *,
        memory: Callable[[Sequence[int]], Mapping[int, int]] = memory_of,
    ) -> None:
        self.limits = limits  # as the newest child has told them
        self._children = children
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
            child for child in self._children.living() if not child.spec.group and child.phase is not Phase.LEAVING
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
        child = next((each for each in self._children.living() if each.worker == order.worker), None)
        if child is None or child.spec.group:
            return
        wish = self._wishes[child.worker] = Wish(Urgency.COMMAND, "it was ordered", force="force" in order.details)
        self._wakeup.call()
        while self._wishes.get(child.worker) is wish and not child.replace.is_set():
            await _first_of(child.replace, within=LOOK_EVERY)
        given_up = child.worker not in self._wishes and not child.replace.is_set()
        if given_up and not self._children.stopping and child in self._children.living():
            raise RefusedError(
                f"no other could take its place: {one_line(redact_text(self._why_not), _LONGEST_REASON)}"
            )

    # -- the loop --------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Look after the children, again and again."""
        while True:
            await self._wakeup.rest(LOOK_EVERY)
            if not self._children.stopping:
                self._hurry_on()
                await self._look()

    def _hurry_on(self) -> None:
        """Wait no longer than the grace for children that leave, and only go on with jobs that were cancelled."""
        for child in self._children.living():
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
        children = {child.worker: child for child in self._children.living()}
        self._wishes = {worker: wish for worker, wish in self._wishes.items() if worker in children}
        self._hurried &= children.keys()
        working = [child for child in children.values() if child.phase is Phase.WORKING and child.warm.is_set()]
        vitals = self._wear_of([child for child in working if not child.spec.group])
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
        if not self._children.stopping and not old.replace.is_set():
            fresh = await self._children.relieve(old)
        if fresh is not None:
            self._events.emit(WorkerRecycling(old.worker, old.process.pid, due.words, fresh.worker))
            await _first_of(fresh.warm, fresh.gone)
            await self._until_permitted(old, fresh, due)
        if self._children.stopping or old.replace.is_set():
            return  # it has ended, or was asked to leave, meanwhile: the fresh one has its place, if it lives
        if fresh is None or fresh.gone.is_set():
            if due.urgency in ASKED_FOR:
                self._give_up(due.urgency, wishes)
            self._failed(old, due, "no process could be started" if fresh is None else fresh.verdict)
            return
        self._failures, self._try_again_at = 0, 0.0
        quickly = due.urgency is Urgency.FILE_CHANGED
        self._children.let_go(old, QUICKLY if quickly else self.limits.settings.drain_limit)
        if due.urgency not in NOT_WAITED_FOR:
            await self._until_gone(old)

    async def _until_permitted(self, old: Child, fresh: Child, due: Due) -> None:
        """Wait until the permit is ours again if it was lost meanwhile: others may replace theirs by it."""
        told = False
        while not (
            self._may_let_go(old, due) or self._children.stopping or old.replace.is_set() or fresh.gone.is_set()
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
        while not (old.gone.is_set() or self._children.stopping):
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


async def _first_of(*events: asyncio.Event, within: float | None = None) -> None:
    """Wait until one of them is set, but no longer than this."""
    waiting = [asyncio.ensure_future(event.wait()) for event in events]
    try:
        await asyncio.wait(waiting, timeout=within, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for each in waiting:
            each.cancel()


# ordered ─► it drains ─► gone: its place stays empty, until a reload or an order to recycle fills the places again
# The supervisor ends when all places are empty. A child that was to relieve a drained one leaves with it.


class Drainer:
    """Drains the children of one supervisor, and ends it with the last of them."""

    def __init__(self, children: Children, events: Events) -> None:
        self._children = children
        self._events = events
        self._ends = False
        """Whether it has ended the supervisor: a child that ended at the same time may still be given back."""

    def drain(self, worker: str, within: float) -> None:
        """Let a child finish within this many seconds, and start none in its place. Raises RefusedError."""
        child = next((each for each in self._children.living() if each.worker == worker), None)
        if child is None or self._children.stopping:
            return
        if child.place is None:
            raise RefusedError("it is there for suspects of a crash, and leaves by itself after them")
        if not child.process.killable:
            raise RefusedError("a worker inside a web process is stopped with its host")
        if child.place.drained:
            return
        child.place.kept.clear()
        child.place.told_empty = False
        self._events.emit(WorkerDraining(child.worker, child.process.pid))
        for each in self._children_in(child.place):
            if each.phase is Phase.STARTING:
                each.kill_to_stop()
            elif each.phase is Phase.WORKING:
                self._children.let_go(each, within)

    def fill(self) -> None:
        """Have a child started in every place that was drained."""
        for place in self._children.places:
            place.kept.set()

    def gone(self, child: Child) -> None:
        """Say that the place of a child that has ended stays empty, if it does; end where all of them do."""
        if self._children.stopping and not self._ends:
            return
        place, kept = child.place, sum(not each.drained for each in self._children.places)
        if place is not None and place.drained and not (place.told_empty or self._children_in(place)):
            place.told_empty = True
            self._events.emit(WorkerDrained(child.worker, child.process.pid, kept))
        if not (kept or self._ends or self._children.living()):
            self._ends = True
            self._children.begin_stop()

    def _children_in(self, place: ChildSlot) -> list[Child]:
        return [child for child in self._children.living() if child.place is place]
