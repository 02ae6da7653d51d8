"""Keeps the wished-for number of children alive, and puts things right when one ends.

    starting ─► running ─► stopping ─► over
                   └─(too many children die at start)──► over, loudly

For each child one coroutine, `_tend`, hears what it says and waits for its end. Only after that end are its claims
given back: the code can no longer run. From the first registered child on there are these loops:

    heart.py   beats for the children; what a beat brings to light, `chores.py` puts right beside it
    firing.py  fires schedules
    orders.py  carries out what people ask for
    hangs.py   ends children that hang
    drain.py   sees when nothing is left to do, if that is the wish
"""

import asyncio
import logging
import os
from collections.abc import Coroutine
from typing import Any

from holdfast.core.job import ClaimRef
from holdfast.errors import ConfigurationError, HoldfastError, StoreError
from holdfast.events import Drained, WorkerReady, WorkerStopping
from holdfast.ids import new_worker_id
from holdfast.schedule.closing import About, ClosedHours
from holdfast.store.open import public_name
from holdfast.supervisor.child import Child, ChildSpec, Exit, Phase
from holdfast.supervisor.drain import until_drained
from holdfast.supervisor.link import Link
from holdfast.supervisor.plan import Plan, Ports
from holdfast.worker.messages import Failed, Hello, Message, Noticed, Pulse, Retired, Stuck

log = logging.getLogger(__name__)

EARLY_DEATHS_LIMIT = 5
"""So many children in a row that die before they work, and the supervisor gives up."""

LAST_WORDS = 1.0
"""Seconds for what a dead child said to be heard, and for burials once somebody is in a hurry."""

LONGEST_RESPAWN_PAUSE = 5.0


class Supervisor:
    """One supervisor and its children."""

    def __init__(self, plan: Plan, ports: Ports) -> None:
        self._id = new_worker_id(ports.random)
        self._plan = plan
        self._ports = ports
        self._children: dict[str, Child] = {}
        self._tending: set[asyncio.Task[None]] = set()
        self._launching_alone: asyncio.Task[Child | None] | None = None
        self._early_deaths = 0
        self._windows: tuple[ClosedHours, ...] = ()
        self._link: Link | None = None
        self._group: asyncio.TaskGroup
        self._loops: list[asyncio.Task[None]] = []
        self._stopping = False
        self._hurry = asyncio.Event()
        self._over = asyncio.Event()
        self._fatal: HoldfastError | None = None

    async def run(self) -> None:
        """Supervise until stopped. Raises the error that made it give up, if one did."""
        async with asyncio.TaskGroup() as group:
            self._group = group
            self._begin(*(self._keep_one() for _ in range(self._plan.processes)))
            await self._over.wait()
            await self._await_last_burials()
            for loop in self._loops:
                loop.cancel()
        if self._link is not None:
            self._link.close()
        if self._fatal is not None:
            raise self._fatal

    def stop(self) -> None:
        """Stop gracefully; called again, at once."""
        if self._stopping:
            self._kill_all()
        else:
            self._begin_stop()

    def _begin(self, *loops: Coroutine[Any, Any, None]) -> None:
        self._loops += [self._group.create_task(loop) for loop in loops]

    def _begin_to_beat(self, link: Link) -> None:
        """Begin with the first registered child; what is wrong with the store before it, `_greet` says once."""
        self._begin(link.heart.run(), link.firing.run(), link.orders.run(), link.hangs.run())
        if self._ports.witness is not None:
            self._begin(self._ports.witness.write(link.calls))
        if self._plan.drain:
            self._begin(self._drain(link))

    async def _drain(self, link: Link) -> None:
        waiting = await until_drained(link.calls, self._plan.queue_names, self._all_work)
        if not self._stopping:
            self._ports.events.emit(Drained(waiting))
            self._begin_stop()

    def _all_work(self) -> bool:
        """Tell whether all children work, and know what they are to adopt."""
        children = self._children.values()
        return not self._stopping and all(child.phase is Phase.WORKING and child.renewed for child in children)

    # -- the life of a child ---------------------------------------------------------------------------------

    async def _keep_one(self) -> None:
        """Keep one child working, replacing it when it ends, is lost or cannot be stopped."""
        quick_ends = 0
        while not self._stopping:
            begun = self._ports.clock.boot()
            child = await self._bring_up(ChildSpec(new_worker_id(self._ports.random)))
            if child is not None:
                await child.replace.wait()
            settled = self._ports.clock.boot() - begun >= LONGEST_RESPAWN_PAUSE
            quick_ends = 0 if settled else quick_ends + 1
            if quick_ends > 1:
                await asyncio.sleep(min(0.1 * 2 ** min(quick_ends, 6), LONGEST_RESPAWN_PAUSE))

    def _run_suspect(self, queues: frozenset[str]) -> None:
        """Give a suspect of a queue that is served here a child of its own, one at a time."""
        ours, now = self._plan.queue_names, self._ports.clock.now()
        closed = {each.name for each in self._windows if each.about is About.QUEUE and each.closed_at(now)}
        served = queues - closed if ours is None else (queues - closed) & set(ours)
        launching = self._launching_alone is not None and not self._launching_alone.done()
        busy = launching or any(child.spec.alone for child in self._children.values())
        if served and not busy and not self._stopping:
            spec = ChildSpec(new_worker_id(self._ports.random), alone=True)
            self._launching_alone = self._group.create_task(self._bring_up(spec))

    async def _bring_up(self, spec: ChildSpec) -> Child | None:
        """Start a child; None where the machine cannot now, and it will be tried again."""
        try:
            process = await self._ports.launcher.launch(spec)
        except OSError as error:
            log.warning("a child could not be started, trying again: %s", error)
            return None
        child = Child(spec, process, pulse_at=self._ports.clock.boot())
        self._children[spec.worker] = child
        task = self._group.create_task(self._tend(child))
        self._tending.add(task)
        task.add_done_callback(self._tending.discard)
        if self._stopping:
            self._ask_to_leave(child)
        return child

    async def _tend(self, child: Child) -> None:
        """Hear a child out, and after its end give back what it had."""
        hearing = asyncio.ensure_future(self._hear(child))
        ending = asyncio.ensure_future(child.process.wait())
        await asyncio.wait([hearing, ending], return_when=asyncio.FIRST_COMPLETED)
        if hearing.done() and hearing.exception() is not None:
            self._give_up(HoldfastError(f"a child cannot be understood: {hearing.exception()!r}"))
        end = await ending
        # What it said last is heard; but a registration that the store does not answer is not waited for.
        await asyncio.wait([hearing], timeout=LAST_WORDS)
        hearing.cancel()
        child.ended()
        del self._children[child.worker]
        if self._stopping and not self._children:
            self._over.set()
        if self._ports.witness is not None:
            await self._ports.witness.saw_end(child, end)
        if child.phase is Phase.STARTING:
            self._died_early(child, end)
        else:
            assert self._link is not None  # it has been registered
            await self._link.bury(child, child.death(end))
        child.process.forget()

    def _died_early(self, child: Child, end: Exit) -> None:
        self._early_deaths += 1
        if self._early_deaths >= EARLY_DEATHS_LIMIT and not self._stopping:
            why = child.verdict or str(end)
            self._give_up(
                ConfigurationError(f"{self._early_deaths} children in a row ended before they could work: {why}")
            )

    # -- what a child says -----------------------------------------------------------------------------------

    async def _hear(self, child: Child) -> None:
        while (message := await child.process.channel.receive()) is not None:
            child.pulse_at = self._ports.clock.boot()
            await self._heed(child, message)

    async def _heed(self, child: Child, message: Message) -> None:
        match message:
            case Hello():
                await self._greet(child, message)
            case Pulse(unanswered_for=seconds, polled_at=polled_at, beat_now=beat_now):
                child.unanswered_for, child.polled_at = seconds, polled_at
                if beat_now and self._link is not None:
                    self._link.heart.beat_now()
            case Stuck(job_id=job_id, fence=fence, reason=reason):
                child.stuck.add(ClaimRef(job_id, fence))
                child.verdict = reason
                self._ask_to_leave(child)
            case Failed(reason=reason, trace=trace):
                child.verdict = reason
                if self._link is None:
                    error = ConfigurationError(reason)
                    error.add_note(f"In the child process:\n{trace}")
                    self._give_up(error)
                child.process.kill()
            case Retired(worked=worked):
                child.retired, child.worked = True, worked
            case Noticed() if self._ports.witness is not None:
                self._ports.witness.heard(child, message)
            case _:
                log.warning("unexpected word from a child: %s", type(message).__name__)

    async def _greet(self, child: Child, hello: Hello) -> None:
        """Make a child known to the store, which the first of them brings us to, and begin to beat for it."""
        settings, queues, self._windows = hello.settings, self._plan.queue_names, hello.windows
        try:
            if self._link is None:
                self._link = Link(
                    settings,
                    self._ports,
                    children=lambda: list(self._children.values()),
                    suspects_wait=self._run_suspect,
                    order_handlers={},
                )
            link = self._link
            first = await link.register(child, settings, supervisor=self._id, queues=queues)
        except (StoreError, ConfigurationError) as error:  # some of what is wrong with a URL only the server knows
            self._give_up(error)
            return
        self._early_deaths = 0
        if child.phase is Phase.STARTING:
            child.phase = Phase.WORKING
        if first:
            self._begin_to_beat(link)
        link.heart.beat_now()
        self._ports.events.emit(
            WorkerReady(
                child.worker,
                child.process.pid,
                hello.tasks,
                settings.concurrency,
                store=public_name(settings.url),
                queues=queues,
                weights=None if self._plan.queues is None else self._plan.queues.weights,
                supervisor_pid=os.getpid(),
            )
        )

    # -- stopping --------------------------------------------------------------------------------------------

    def _give_up(self, error: HoldfastError) -> None:
        self._fatal = self._fatal or error
        if not self._stopping:
            self._begin_stop()
        self._kill_all()

    def _begin_stop(self) -> None:
        self._stopping = True
        for child in self._children.values():
            self._ask_to_leave(child)
        if not self._children:
            self._over.set()

    def _ask_to_leave(self, child: Child) -> None:
        if self._link is None or child.phase is Phase.STARTING:  # it has nothing to give back
            child.kill_to_stop()
            return
        grace = self._link.settings.grace
        child.ask_to_leave(grace)
        self._ports.events.emit(WorkerStopping(child.worker, child.process.pid, grace))

    def _kill_all(self) -> None:
        for child in self._children.values():
            child.kill_to_stop()
        self._hurry.set()

    async def _await_last_burials(self) -> None:
        """Wait for what is still to be given back, but not for a store that is away: others will see to it.

        Nor much beyond a second signal to stop.
        """
        if self._link is None or not self._tending:
            return
        burials = asyncio.ensure_future(asyncio.wait(self._tending))
        hurry = asyncio.ensure_future(self._hurry.wait())
        longest = 2 * self._link.settings.store_timeout
        await asyncio.wait([burials, hurry], timeout=longest, return_when=asyncio.FIRST_COMPLETED)
        await asyncio.wait([burials], timeout=LAST_WORDS)
        for task in (burials, hurry, *self._tending):
            task.cancel()
