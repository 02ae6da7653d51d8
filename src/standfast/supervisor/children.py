"""The children of one supervisor: each place is kept filled, and what a dead child had is given back.

For each child one coroutine, `_tend`, hears what it says and waits for its end. Only after that end are its claims
given back: the code can no longer run.
"""

import asyncio
import logging
import math
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Sequence

from standfast.errors import ConfigurationError, StandfastError
from standfast.events import WorkerStopping
from standfast.model.crash import group_limit, is_of_host
from standfast.model.display import counted
from standfast.model.ids import new_worker_id
from standfast.schedules.closed_hours import About, ClosedHours
from standfast.stores.values import DueSuspects
from standfast.supervisor.child import Child, ChildSlot, ChildSpec, Exit, Phase
from standfast.supervisor.link import Link
from standfast.supervisor.plan import Plan, Ports

log = logging.getLogger(__name__)

EARLY_DEATHS_LIMIT = 5
"""So many children in a row that die before they work, and the supervisor gives up, if none works."""

LAST_WORDS = 1.0  # seconds for what a dead child said to be heard, and for burials once somebody is in a hurry
SUSPECTS_AT_ONCE = 24  # children at most that run suspects side by side: two culprits among hundreds need some 16
BURIED_WITHIN = 3.0
"""Seconds after the end of the last child for what it had to be given back; then its lease sees to it."""

LONGEST_RESPAWN_PAUSE = 5.0


class Children:
    """The children. `hear` listens to one to its end, of which `gone` learns; `give_up` ends all, and says why."""

    group: asyncio.TaskGroup
    hear: Callable[[Child], Awaitable[None]]
    gone: Callable[[Child], None]

    def __init__(self, plan: Plan, ports: Ports, give_up: Callable[[StandfastError], None]) -> None:
        self._plan = plan
        self._ports = ports
        self._give_up = give_up
        self.link: Link | None = None  # the way to the store, from when the first child has told where it is
        self.windows: tuple[ClosedHours, ...] = ()
        self.places = [ChildSlot() for _ in range(plan.processes)]
        self.stopping = False
        self.over = asyncio.Event()  # set when all have left, as they were asked to
        self.code_changed = asyncio.Event()
        self.early_deaths = 0
        self._children: dict[str, Child] = {}
        self._tending: set[asyncio.Task[None]] = set()
        self._launching: Counter[int] = Counter()
        """How many children are being started, by the group of suspects that they are for."""
        self.hurry = asyncio.Event()  # set by a second signal to stop: nothing is worth waiting for

    def living(self) -> Sequence[Child]:
        """Return the children that live."""
        return list(self._children.values())

    def child(self, worker: str) -> Child | None:
        """Return the child that is this worker, if it lives."""
        return self._children.get(worker)

    def ready(self) -> int:
        """Return how many work: their start-up code has run, and a beat was accepted for them."""
        return sum(child.phase is Phase.WORKING and child.warm.is_set() for child in self._children.values())

    def draining(self) -> int:
        """Return how many end what they run, and nobody is to take their place."""
        return sum(child.place is not None and child.place.drained for child in self._children.values())

    def all_work(self) -> bool:
        """Tell whether all children work, and know what they are to adopt."""
        return not self.stopping and self.ready() == len(self._children)

    # -- keeping places filled -------------------------------------------------------------------------------

    async def keep_filled(self, place: ChildSlot) -> None:
        """Keep one child working, replacing it when it ends, is lost or cannot be stopped."""
        quick_ends = 0
        while not self.stopping:
            await place.kept.wait()
            begun = self._ports.clock.boot()
            child = await self._bring_up(self._new_spec(), place)
            while child is not None:
                begun = child.started_boot
                await child.replace.wait()
                if child.failed and self._ports.watch is not None and child.successor is None:
                    await self.code_changed.wait()
                    quick_ends = 0
                child = child.successor
            settled = self._ports.clock.boot() - begun >= LONGEST_RESPAWN_PAUSE
            quick_ends = 0 if settled else quick_ends + 1
            if self.early_deaths >= EARLY_DEATHS_LIMIT:
                await asyncio.sleep(LONGEST_RESPAWN_PAUSE)
            elif quick_ends > 1:
                await asyncio.sleep(min(0.1 * 2 ** min(quick_ends, 6), LONGEST_RESPAWN_PAUSE))

    # -- suspects --------------------------------------------------------------------------------------------

    def run_suspects(self, waiting: Iterable[DueSuspects]) -> None:
        """Give suspects of queues that are served here children of their own: a child for each group, at once."""
        if self.stopping or all(each.drained for each in self.places):
            return
        for group, jobs in sorted(self._served(waiting).items(), key=lambda each: -group_limit(each[0])):
            for _ in range(min(self._more_for(group, jobs), SUSPECTS_AT_ONCE - self._with_suspects())):
                self._launching[group] += 1
                self.group.create_task(self._bring_up_for(group))

    def _served(self, waiting: Iterable[DueSuspects]) -> Counter[int]:
        """Return how many suspects of each group wait in open queues that are served here."""
        ours, now = self._plan.queue_names, self._ports.clock.now()
        closed = {each.name for each in self.windows if each.about is About.QUEUE and each.closed_at(now)}
        served: Counter[int] = Counter()
        for each in waiting:
            if each.queue not in closed and (ours is None or each.queue in ours):
                served[each.group] += each.jobs
        return served

    def _more_for(self, group: int, jobs: int) -> int:
        """Return how many more children to start for the due suspects of a group."""
        assert self.link is not None  # it has told of them
        if not self._ports.launcher.isolates:  # all of them would run in one process
            return 0 if self._with_suspects() else 1
        if is_of_host(group):  # they could take this host down, and others with it
            return 0 if self._with_suspects(is_of_host) else 1
        coming = sum(child.spec.group == group and not child.has_claimed for child in self._children.values())
        together = min(group_limit(group), self.link.settings.concurrency)
        return math.ceil(jobs / together) - coming - self._launching[group]

    def _with_suspects(self, which: Callable[[int], bool] = bool) -> int:
        """Return how many children there are for suspects, those that are being started included."""
        running = sum(which(child.spec.group) for child in self._children.values())
        return running + sum(count for group, count in self._launching.items() if which(group))

    async def _bring_up_for(self, group: int) -> None:
        try:
            await self._bring_up(self._new_spec(group))
        finally:
            self._launching[group] -= 1

    # -- children --------------------------------------------------------------------------------------------

    async def relieve(self, old: Child) -> Child | None:
        """Start a child that is to take the place of another; None where that cannot be, or is not needed."""
        fresh = await self._bring_up(self._new_spec(), old.place)
        if fresh is None or self.stopping:
            return None
        if old.replace.is_set():  # it has ended meanwhile, and another was started in its place
            fresh.kill_to_stop()
            return None
        fresh.relieves, old.successor = old, fresh
        return fresh

    def _new_spec(self, group: int = 0) -> ChildSpec:
        return ChildSpec(new_worker_id(self._ports.random), group)

    async def _bring_up(self, spec: ChildSpec, place: ChildSlot | None = None) -> Child | None:
        """Start a child; None where the machine cannot now, and it will be tried again."""
        self.code_changed.clear()
        try:
            process = await self._ports.launcher.launch(spec)
        except OSError as error:
            log.warning("a child could not be started, trying again: %s", error)
            return None
        boot, now = self._ports.clock.boot(), self._ports.clock.now()
        child = Child(spec, process, pulse_at=boot, place=place, started_boot=boot, started_at=now)
        self._children[spec.worker] = child
        if self._ports.reaper is not None:
            self._ports.reaper.add(process.pid)
        task = self.group.create_task(self._tend(child))
        self._tending.add(task)
        task.add_done_callback(self._tending.discard)
        if self.stopping:
            self.ask_to_leave(child)
        elif place is not None and place.drained:
            child.kill_to_stop()
        return child

    # -- the end of a child ----------------------------------------------------------------------------------

    async def _tend(self, child: Child) -> None:
        """Hear a child out, and after its end give back what it had."""
        hearing = asyncio.ensure_future(self.hear(child))
        ending = asyncio.ensure_future(child.process.wait())
        await asyncio.wait([hearing, ending], return_when=asyncio.FIRST_COMPLETED)
        if hearing.done() and hearing.exception() is not None:
            child.verdict = f"it cannot be understood: {hearing.exception()!r}"
            child.kill()
        end = await ending
        # What it said last is heard; but a registration that the store does not answer is not waited for.
        await asyncio.wait([hearing], timeout=LAST_WORDS)
        hearing.cancel()
        said_so = child.failed
        if child.phase is Phase.STARTING and not child.killed_to_stop:
            child.verdict, child.failed = child.verdict or str(end), True
        child.ended()
        if self._ports.reaper is not None:
            self._ports.reaper.remove(child.process.pid)
        del self._children[child.worker]
        if self.link is not None:
            self.link.locks.child_died(child.worker)
        if self.stopping and not self._children:
            self.over.set()
        await self._testify(child, end)
        if child.phase is Phase.STARTING:
            self._died_early(child, told=said_so)
        else:
            assert self.link is not None  # it has been registered
            await self.link.bury(child, child.death(end))
            await self.link.locks.all_given_back(child.worker)
        child.process.forget()
        self.gone(child)

    async def end_hung(self, child: Child) -> None:
        """End a child that hangs. What lives on is told of now: its end may be far away."""
        child.kill()
        if child.dropped:
            await self._testify(child, Exit(1, unseen=True))

    async def _testify(self, child: Child, end: Exit) -> None:
        """Have the end witnessed; whatever goes wrong with that, what the child had is given back."""
        if self._ports.detector is not None and not child.incident_told:
            try:
                await self._ports.detector.saw_end(child, end)
            except Exception:
                log.exception("no incident could be made of the end of worker %s", child.worker)

    def _died_early(self, child: Child, *, told: bool) -> None:
        if child.killed_to_stop or child.spec.group:
            return  # if the app cannot be imported, the other children tell that
        if child.relieves is not None and not child.relieves.replace.is_set():
            return  # the one that it was to relieve stays, and that is told
        if self._ports.watch is not None:  # who develops the app is about to mend it
            if not (told or self.stopping):
                log.error("a child ended before it could work: %s; waiting for the next change", child.verdict)
            return
        self.early_deaths += 1
        if self.stopping:
            return
        ended = (
            f"{self.early_deaths} children in a row ended before they"
            if self.early_deaths > 1
            else "a child ended before it"
        )
        trouble = f"{ended} could work: {child.verdict}"
        if working := self.ready() + self.draining():
            log.error("%s; it is tried again, because others work (%d): mend the app", trouble, working)
        elif self.early_deaths >= EARLY_DEATHS_LIMIT:
            self._give_up(ConfigurationError(trouble))

    # -- stopping --------------------------------------------------------------------------------------------

    def begin_stop(self, *, host_gone: bool = False) -> None:
        """Ask all to leave, but for those that their host, now gone, has taken with it: they were not asked."""
        self.stopping = True
        for child in self._children.values():
            if child.process.killable or not host_gone:
                self.ask_to_leave(child)
        if not self._children:
            self.over.set()

    def ask_to_leave(self, child: Child) -> None:
        """Ask a child to leave within the grace."""
        if self.link is None or child.phase is Phase.STARTING:  # it has nothing to give back
            child.kill_to_stop()
        else:
            self.let_go(child, self.link.settings.grace)

    def let_go(self, child: Child, within: float) -> None:
        """Ask a child that works to leave within this time, in the last of which, the grace, its jobs are told."""
        assert self.link is not None  # it has been registered
        grace = min(self.link.settings.grace, within)
        child.ask_to_leave(grace, within - grace)
        self._ports.events.emit(WorkerStopping(child.worker, child.process.pid, within))

    def kill_all(self) -> None:
        """End all at once."""
        for child in self._children.values():
            child.kill_to_stop()
        self.hurry.set()

    async def await_last_burials(self) -> None:
        """Wait for what is still to be given back, but not for a store that is away: others will see to it.

        Nor much beyond a second signal to stop.
        """
        if self.link is None or not self._tending:
            return
        burials = asyncio.ensure_future(asyncio.wait(self._tending))
        hurry = asyncio.ensure_future(self.hurry.wait())
        await asyncio.wait([burials, hurry], timeout=BURIED_WITHIN, return_when=asyncio.FIRST_COMPLETED)
        if self.hurry.is_set():
            await asyncio.wait([burials], timeout=LAST_WORDS)
        if self._tending:
            log.warning(
                "the store does not answer: what %s had is given back when the lease is over",
                counted(len(self._tending), "worker"),
            )
        for task in (burials, hurry, *self._tending):
            task.cancel()
