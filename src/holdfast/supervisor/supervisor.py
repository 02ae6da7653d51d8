"""Keeps the wished-for number of children alive, and puts things right when one ends.

    starting ─► running ─► stopping ─► over
                   └─(too many children die at start)──► over, loudly

For each child one coroutine, `_tend`, hears what it says and waits for its end. Only after that end are its claims
given back: the code can no longer run.
"""

import asyncio
import logging
import os
import socket as sockets
from collections.abc import Coroutine
from datetime import timedelta
from functools import partial
from typing import Any

from holdfast.core.crash import Death, DeathKind
from holdfast.core.job import ClaimRef
from holdfast.core.states import WAITING
from holdfast.errors import ConfigurationError, HoldfastError, StoreError
from holdfast.events import (
    Drained,
    WorkerCrashed,
    WorkerHung,
    WorkerLost,
    WorkerReady,
    WorkerStopped,
    WorkerStopping,
)
from holdfast.ids import new_worker_id
from holdfast.patience import PASSING
from holdfast.schedule.closing import About, ClosedHours
from holdfast.settings import Settings
from holdfast.store.open import public_name
from holdfast.store.protocol import WorkerInfo
from holdfast.supervisor.child import Child, ChildSpec, Phase
from holdfast.supervisor.evidence import Exit
from holdfast.supervisor.firing import Firing
from holdfast.supervisor.heart import Heart
from holdfast.supervisor.obituary import find_dead, tell_dead
from holdfast.supervisor.plan import Link, Plan, Ports
from holdfast.worker.messages import Buried, Failed, Hello, Message, Pulse, Retired, Stop, Stuck
from holdfast.worker.storecalls import StoreCalls

log = logging.getLogger(__name__)

EARLY_DEATHS_LIMIT = 5
"""So many children in a row that die before they work, and the supervisor gives up."""

KILL_AFTER_GRACE = 8.0
"""Seconds beyond the grace after which a child that was told to stop is killed."""

LAST_WORDS = 1.0
"""Seconds for what a dead child said to be heard."""

DRAIN_CHECK = 0.1
DRAIN_LOOKS = 3
LONGEST_RESPAWN_PAUSE = 5.0


class Supervisor:
    """One supervisor and its children."""

    def __init__(self, plan: Plan, ports: Ports) -> None:
        self._id = new_worker_id(ports.random)
        self._plan = plan
        self._ports = ports
        self._children: dict[str, Child] = {}
        self._early_deaths = 0
        self._stopping = False
        self._fatal: HoldfastError | None = None
        self._over = asyncio.Event()
        self._hurry = asyncio.Event()
        self._group: asyncio.TaskGroup
        self._store: Link | None = None
        self._windows: tuple[ClosedHours, ...] = ()
        self._tending: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        """Supervise until stopped. Raises the error that made it give up, if one did."""
        async with asyncio.TaskGroup() as group:
            self._group = group
            tasks = [group.create_task(self._keep_one()) for _ in range(self._plan.processes)]
            tasks.append(group.create_task(self._watch_for_hangs()))
            await self._over.wait()
            await self._await_last_burials()
            for task in (*tasks, *(self._store.loops if self._store else ())):
                task.cancel()
        if self._store is not None:
            self._store.backend.close()
        if self._fatal is not None:
            raise self._fatal

    def stop(self) -> None:
        """Stop gracefully; called again, at once."""
        if self._stopping:
            self._kill_all()
        else:
            self._begin_stop()

    # -- children --------------------------------------------------------------------------------------------

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
        child.process.channel.close()
        if child.executioner is not None:
            child.executioner.cancel()
        del self._children[child.worker]
        child.replace.set()
        if self._stopping and not self._children:
            self._over.set()
        if child.phase is Phase.STARTING:
            self._died_early(child, end)
        else:
            await self._bury(child, child.death(end))
        child.process.forget()

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
                if beat_now and self._store is not None:
                    self._store.heart.beat_now()
            case Stuck(job_id=job_id, fence=fence, reason=reason):
                child.stuck.add(ClaimRef(job_id, fence))
                child.verdict = reason
                self._ask_to_leave(child)
            case Failed(reason=reason, trace=trace):
                child.verdict = reason
                if self._store is None:
                    error = ConfigurationError(reason)
                    error.add_note(f"In the child process:\n{trace}")
                    self._give_up(error)
                child.process.kill()
            case Retired(worked=worked):
                child.retired, child.worked = True, worked
            case _:
                log.warning("unexpected word from a child: %s", type(message).__name__)

    async def _greet(self, child: Child, hello: Hello) -> None:
        """Make a child known to the store; its first accepted beat lets it work."""
        settings, self._windows = hello.settings, hello.windows
        try:
            store = self._connect(settings)
            info = WorkerInfo(
                id=child.worker,
                supervisor=self._id,
                host=sockets.gethostname(),
                pid=child.process.pid,
                lease=settings.lease_span,
                queues=self._plan.queue_names,
                concurrency=settings.concurrency,
            )
            # At first, what does not pass is a reason not to start; later, to try on.
            passing = (StoreError,) if store.loops else PASSING
            await store.calls.until_answered(lambda: store.calls.verbs.register(info), passing)
        except (StoreError, ConfigurationError) as error:  # some of what is wrong with a URL only the server knows
            self._give_up(error)
            return
        self._early_deaths = 0
        if child.phase is Phase.STARTING:
            child.phase = Phase.WORKING
        self._begin_to_beat(store)
        store.heart.beat_now()
        self._ports.events.emit(
            WorkerReady(
                child.worker,
                child.process.pid,
                hello.tasks,
                settings.concurrency,
                store=public_name(settings.url),
                queues=self._plan.queue_names,
                weights=None if self._plan.queues is None else self._plan.queues.weights,
                supervisor_pid=os.getpid(),
            )
        )

    def _connect(self, settings: Settings) -> Link:
        """Open the store with the settings that the first child reports."""
        if self._store is None:
            ports = self._ports
            backend = ports.open_backend(settings)
            calls = StoreCalls(backend, ports.clock, ports.events, ports.random, settings.store_timeout)
            firing = Firing(calls, ports.clock, ports.events, timedelta(seconds=settings.look_ahead))
            heart = Heart(
                calls,
                ports.clock,
                settings,
                ports.events,
                children=lambda: list(self._children.values()),
                part_with=self._part_with,
                suspects_wait=self._run_suspect,
                heed=firing.heed,
            )
            self._store = Link(settings, backend, calls, heart, firing, loops=[])
        return self._store

    def _begin_to_beat(self, store: Link) -> None:
        """Beat from the first registered child on; what is wrong with the store before it, `_greet` says once."""
        if not store.loops:
            store.loops.append(self._group.create_task(store.heart.run()))
            store.loops.append(self._group.create_task(store.firing.run()))
            if self._plan.drain:
                store.loops.append(self._group.create_task(self._drain(store.calls)))

    def _run_suspect(self, queues: frozenset[str]) -> None:
        """Give a suspect of a queue that is served here a child of its own, one at a time."""
        ours, now = self._plan.queue_names, self._ports.clock.now()
        closed = {each.name for each in self._windows if each.about is About.QUEUE and each.closed_at(now)}
        served = queues - closed if ours is None else (queues - closed) & set(ours)
        busy = any(child.spec.alone for child in self._children.values())
        if served and not busy and not self._stopping:
            self._group.create_task(self._bring_up(ChildSpec(new_worker_id(self._ports.random), alone=True)))

    # -- ends ------------------------------------------------------------------------------------------------

    def _died_early(self, child: Child, end: Exit) -> None:
        self._early_deaths += 1
        if self._early_deaths >= EARLY_DEATHS_LIMIT and not self._stopping:
            why = child.verdict or str(end)
            self._give_up(
                ConfigurationError(f"{self._early_deaths} children in a row ended before they could work: {why}")
            )

    async def _bury(self, child: Child, death: Death) -> None:
        store, events, pid = self._store, self._ports.events, child.process.pid
        assert store is not None  # a child past STARTING has been registered
        bury = partial(store.calls.verbs.bury, child.worker, death)
        released = await store.calls.until_answered(bury, passing=(StoreError,))
        store.heart.look_soon()
        if death.kind is DeathKind.CRASHED or child.worked:
            store.heart.beat_now()  # there may be suspects, and they need not wait for the next turn
        if death.kind is DeathKind.STOPPED:
            events.emit(WorkerStopped(child.worker, pid, len(released)))
        else:
            dead = await find_dead(store.calls, released)
            given_back = len(released) - len(dead)
            events.emit(WorkerCrashed(child.worker, pid, death.evidence, len(death.started), given_back))
            tell_dead(events, dead, death.evidence)

    async def _watch_for_hangs(self) -> None:
        clock, tick = self._ports.clock, 1.0
        looked_at = clock.boot()
        while True:
            await asyncio.sleep(tick)
            slept = clock.boot() - looked_at
            looked_at += slept
            for child in list(self._children.values()):
                if slept > 2 * tick:  # we were stopped ourselves, and could not hear
                    child.pulse_at = looked_at
                elif self._store is not None and await self._hangs(child, self._store, looked_at):
                    await self._end_hung(child, max(looked_at - child.pulse_at, child.unanswered_for))

    async def _hangs(self, child: Child, store: Link, now: float) -> bool:
        """Tell whether a child gives no sign of life, or gets no answer from a store that does answer us."""
        limit = store.settings.hang_limit
        if now - child.pulse_at > limit:
            return True
        if child.unanswered_for <= limit:
            return False
        try:
            await store.calls.once(store.calls.verbs.reconcile(child.beat()))  # a write like those of the child
        except StoreError:
            return False
        return True

    async def _end_hung(self, child: Child, silent: float) -> None:
        child.verdict = f"it gave no sign of life for {silent:.0f} s, here:\n{await child.process.stacks()}"
        self._ports.events.emit(WorkerHung(child.worker, child.process.pid, silent))
        child.process.kill()

    # -- stopping --------------------------------------------------------------------------------------------

    def _begin_stop(self) -> None:
        self._stopping = True
        for child in self._children.values():
            self._ask_to_leave(child)
        if not self._children:
            self._over.set()

    def _ask_to_leave(self, child: Child) -> None:
        if self._store is None or child.phase is Phase.STARTING:  # it has nothing to give back
            self._kill(child)
            return
        grace = self._store.settings.grace
        child.phase = Phase.LEAVING
        child.replace.set()
        child.process.channel.send(Stop(grace))
        self._ports.events.emit(WorkerStopping(child.worker, child.process.pid, grace))
        self._kill_later(child, grace)

    def _part_with(self, child: Child) -> None:
        """Replace a child that others have buried: it starts nothing more, and its claims are gone."""
        assert self._store is not None  # it has beaten
        child.phase = Phase.LEAVING
        child.lost = True
        child.replace.set()
        child.process.channel.send(Buried())
        self._ports.events.emit(WorkerLost(child.worker, child.process.pid))
        self._kill_later(child, self._store.settings.grace)

    def _kill_later(self, child: Child, grace: float) -> None:
        if child.executioner is None:
            loop = asyncio.get_running_loop()
            child.executioner = loop.call_later(grace + KILL_AFTER_GRACE, self._kill, child)

    def _kill(self, child: Child) -> None:
        child.killed_to_stop = True
        child.process.kill()

    def _kill_all(self) -> None:
        for child in self._children.values():
            self._kill(child)
        self._hurry.set()

    async def _await_last_burials(self) -> None:
        """Wait for what is still to be given back, but not for a store that is away: others will see to it."""
        if self._tending and self._store is not None:
            await self._until_hurried(asyncio.wait(self._tending), 2 * self._store.settings.store_timeout)
            for task in self._tending:
                task.cancel()

    async def _until_hurried(self, waiting: Coroutine[Any, Any, object], seconds: float) -> None:
        """Wait, but not beyond this time, nor much beyond a second signal to stop."""
        tasks = [asyncio.ensure_future(waiting), asyncio.ensure_future(self._hurry.wait())]
        await asyncio.wait(tasks, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        await asyncio.wait(tasks[:1], timeout=LAST_WORDS)
        for task in tasks:
            task.cancel()

    def _give_up(self, error: HoldfastError) -> None:
        self._fatal = self._fatal or error
        if not self._stopping:
            self._begin_stop()
        self._kill_all()

    async def _drain(self, calls: StoreCalls) -> None:
        """Stop once nothing is left to do, and still not a moment later: a child may be about to adopt more."""
        quiet = 0
        while not self._stopping:
            await asyncio.sleep(DRAIN_CHECK)
            working = all(child.phase is Phase.WORKING for child in self._children.values())
            unsettled = partial(calls.verbs.unsettled, self._plan.queue_names)
            left = await calls.until_answered(unsettled, passing=(StoreError,))
            quiet = quiet + 1 if working and left == 0 else 0
            if quiet == DRAIN_LOOKS:
                counts = await calls.until_answered(calls.verbs.count, passing=(StoreError,))
                waiting = {state: counts[state] for state in sorted(WAITING) if counts[state]}
                self._ports.events.emit(Drained(waiting))
                self.stop()
