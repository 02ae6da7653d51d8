"""The supervisor: hears its children, runs its loops, and stops.

    starting ─► running ─► stopping, or all places are drained ─► over
       └─(too many children die at start, or its own loops fail)──► over, loudly

A loop that fails is restarted. Should the supervisor be killed, the reaper ends its children.
"""

import asyncio
import logging
import os
from collections.abc import Callable, Mapping
from functools import partial

from standfast.errors import ConfigurationError, StandfastError, StoreError
from standfast.events import Drained, WorkerReady
from standfast.model.ids import new_worker_id
from standfast.model.incidents import InvolvedJob
from standfast.model.job import ClaimRef
from standfast.model.states import WAITING, State
from standfast.stores.contract import count_states
from standfast.stores.url import public_name
from standfast.supervisor.child import Child, Phase
from standfast.supervisor.children import Children
from standfast.supervisor.hangs import HangWatch
from standfast.supervisor.link import Link
from standfast.supervisor.locks import Permit
from standfast.supervisor.orders import DRAIN, KILL, RECYCLE, Order, RefusedError
from standfast.supervisor.plan import Plan, Ports
from standfast.supervisor.recycler import Drainer, Limits, Recycler, Urgency
from standfast.worker.loops import Loop, LoopRestarter
from standfast.worker.messages import (
    Disowned,
    Failed,
    Hello,
    Holds,
    Killed,
    LetsGo,
    Message,
    Noticed,
    Pictured,
    Pulse,
    Retired,
    Stuck,
    Unfit,
)
from standfast.worker.storecalls import StoreCalls

LOOK_EVERY = 0.1
QUIET_LOOKS = 3  # so many looks in a row that find nothing left: after one alone a child may be about to adopt more


async def until_drained(
    calls: StoreCalls, queues: tuple[str, ...] | None, at_work: Callable[[], bool]
) -> Mapping[State, int]:
    """Wait until nothing is left to do and all are `at_work`; return how many jobs wait all the same, by state."""
    unsettled = partial(calls.verbs.unsettled, queues)
    quiet = 0
    while quiet < QUIET_LOOKS:
        await asyncio.sleep(LOOK_EVERY)
        nothing_left = at_work() and await calls.until_answered(unsettled, passing=(StoreError,)) == 0
        quiet = quiet + 1 if nothing_left else 0
    counts = await calls.until_answered(partial(count_states, calls.verbs), passing=(StoreError,))
    return {state: counts[state] for state in sorted(WAITING) if counts[state]}


log = logging.getLogger(__name__)
LAST_DELIVERIES = 5.0  # seconds for notices that are being sent, once all children are gone
KILLED_WITHIN = 10.0  # seconds for a child to have the process of a job killed: its event loop may be busy
LAST_FIGURES = 0.5  # seconds for the deaths that were counted last to reach the store


class Supervisor:
    """One supervisor and its children."""

    def __init__(self, plan: Plan, ports: Ports) -> None:
        self._id = new_worker_id(ports.random)
        self._plan = plan
        self._ports = ports
        self._children = Children(plan, ports, self._give_up_at_once)
        self._children.hear = self._hear
        self._drainer = Drainer(self._children, ports.events)
        self._children.gone = self._drainer.gone
        self._hangs = HangWatch(
            ports.clock, ports.events, plan.hang_limit, self._children.living, self._children.end_hung
        )
        self._restarter = LoopRestarter(ports.clock, self._loop_failed, self._unfit)
        self._side_restarter = LoopRestarter(ports.clock, self._loop_failed, self._worse_off)
        self._recycler: Recycler | None = None
        self._reload_waits = False
        self._group: asyncio.TaskGroup
        self._loops: list[asyncio.Task[None]] = []
        self._fatal: StandfastError | None = None
        if ports.detector is not None:
            ports.detector.meet(self._id, self._children.living)

    async def run(self) -> None:
        """Supervise until stopped. Raises the error that made it give up, if one did."""
        async with asyncio.TaskGroup() as group:
            self._group = self._children.group = group
            if self._ports.reaper is not None:
                self._begin_beside("reaper", self._ports.reaper.run)
            if self._ports.watch is not None:
                self._begin_beside("look for changed files", self._watch)
            self._begin("watch over hangs", self._hangs.run)
            for place in self._children.places:
                self._begin("care for a child", partial(self._children.keep_filled, place))
            await self._children.over.wait()
            await self._children.await_last_burials()
            if self._children.link is not None:
                await self._children.link.alerting.close(LAST_DELIVERIES, self._children.hurry)
                await self._children.link.figures.publisher.publish_within(LAST_FIGURES)
            for loop in self._loops:
                loop.cancel()
        if self._children.link is not None:
            self._children.link.close()
        if self._fatal is not None:
            raise self._fatal

    def stop(self) -> None:
        """Stop gracefully; called again, at once."""
        if self._children.stopping:
            self._children.kill_all()
        else:
            self._children.begin_stop()

    def outlive_host(self) -> None:
        """Stop as the process is gone in which children lived: to give back what they had is all that is left."""
        if not self._children.stopping:
            self._children.begin_stop(host_gone=True)

    def drop_adopted(self) -> None:
        """Beat no longer for children that live in a process not ours: their leases run out."""
        for child in self._children.living():
            if not (child.process.killable or child.dropped):
                child.kill_to_stop()

    def ready(self) -> int:
        """Return how many children are ready to work."""
        return self._children.ready()

    def draining(self) -> int:
        """Return how many children end what they run, and nobody is to take their place."""
        return self._children.draining()

    def reload(self) -> None:
        """Replace all children, one after the other, by others that import the app anew; drained places too."""
        if self._children.stopping:
            return
        self._drainer.fill()
        if self._recycler is not None:
            self._recycler.replace_all(Urgency.RELOAD, "a reload was asked for")
        elif not self._reload_waits:
            self._reload_waits = True
            log.warning("a reload was asked for before a worker was ready: it is done as soon as one is")

    # -- loops -----------------------------------------------------------------------------------------------

    def _begin_beside(self, name: str, run: Loop) -> None:
        """Begin a loop without which children work all the same: its failures are no reason to give up."""
        self._loops.append(self._group.create_task(self._side_restarter.tend(name, run)))

    def _begin(self, name: str, run: Loop) -> None:
        self._loops.append(self._group.create_task(self._restarter.tend(name, run)))

    def _open_link(self, hello: Hello) -> Link:
        link = Link(
            hello.settings,
            self._ports,
            supervisor=self._id,
            children=self._children.living,
            suspects_wait=self._children.run_suspects,
            order_handlers={
                RECYCLE: self._recycle,
                DRAIN: self._drain_worker,
                KILL: self._kill_job,
                "dump": self._dump,
            },
        )
        permit = Permit(link.calls, self._ports.clock, self._id, hello.settings.lease)
        self._hangs.learn(link.calls, hello.settings.hang_limit)
        limits = Limits(hello.settings, hello.recycle)
        self._recycler = Recycler(self._children, limits, permit, self._ports)
        return link

    def _arrived(self, link: Link, hello: Hello, first: bool) -> None:
        """Begin with the first registered child; what is wrong with the store before it, is said once."""
        assert self._recycler is not None  # it is as old as the link
        self._recycler.limits = Limits(hello.settings, hello.recycle)
        if self._ports.reaper is not None:
            self._ports.reaper.learn(hello.settings)
        link.alerting.learn(hello.watching)
        if not first:
            return
        self._begin("beat", link.heartbeat.run)
        self._begin("firing of schedules", link.firing.run)
        self._begin_beside("taking of orders", link.orders.run)
        self._begin_beside("keeping of locks", link.locks.run)
        self._begin_beside("folding of figures", link.figures.run)
        self._begin_beside("writing of figures", link.figures.publisher.run)
        self._begin_beside("looking for trouble", link.alerting.run)
        self._begin_beside("replacing of children", self._recycler.run)
        if self._ports.detector is not None:
            self._begin_beside(
                "writing of incidents", partial(self._ports.detector.write, link.calls, link.settings)
            )
        if self._plan.drain:
            self._begin("drain", partial(self._drain, link))
        if self._reload_waits:
            self.reload()

    async def _drain(self, link: Link) -> None:
        waiting = await until_drained(link.calls, self._plan.queue_names, self._children.all_work)
        if not self._children.stopping:
            self._ports.events.emit(Drained(waiting))
            self._children.begin_stop()

    async def _watch(self) -> None:
        """Replace all children whenever a file of the app has changed."""
        assert self._ports.watch is not None
        async for file in self._ports.watch.changes():
            words = f"{file} has changed"
            self._children.code_changed.set()
            if self._recycler is None or not self._recycler.replace_all(Urgency.FILE_CHANGED, words):
                log.warning("%s", words)

    async def _recycle(self, order: Order) -> None:
        assert self._recycler is not None  # orders come over the link
        self._drainer.fill()
        await self._recycler.carry_out(order)

    async def _drain_worker(self, order: Order) -> None:
        assert self._recycler is not None  # orders come over the link
        self._drainer.drain(order.worker, self._recycler.limits.settings.drain_limit)

    async def _kill_job(self, order: Order) -> None:
        """End a cancelled job with the process of its own in which it runs. Raises RefusedError."""
        child, ref = self._children.child(order.worker), ClaimRef(order.details["job"], int(order.details["fence"]))
        if child is None:
            return
        try:
            if await child.kill_job(ref, KILLED_WITHIN):
                return
            why = "runs in the process of its worker, beside others"
        except TimeoutError:
            why = f"cannot be killed: its worker has not answered for {KILLED_WITHIN:g} s"
        raise RefusedError(f"it {why}; `standfast workers recycle --job {ref.job_id}` replaces that process")

    async def _dump(self, order: Order) -> None:
        """Take a picture of a living child, in an incident that has the id of the order."""
        child = self._children.child(order.worker)
        if child is not None and self._ports.detector is not None:
            await self._ports.detector.snapshot(child, order.id)

    # -- what the children say ------------------------------------------------------------------------------

    async def _hear(self, child: Child) -> None:
        """Listen to a child until it says no more."""
        while (message := await child.process.channel.receive()) is not None:
            child.pulse_at = self._ports.clock.boot()
            if self._ports.detector is not None:
                self._ports.detector.heard(child, message)
            await self._heed(child, message)

    async def _heed(self, child: Child, message: Message) -> None:
        match message:
            case Hello():
                await self._greet(child, message)
            case Pulse():
                self._feel(child, message)
            case Stuck() | Unfit():
                self._let_go(child, message)
            case Failed():
                self._take_no(child, message)
            case Disowned(jobs=jobs):
                self._part_with(child, jobs)
            case Retired(worked=worked):
                child.retired, child.worked = True, worked
            case Pictured() | Killed():
                child.answered(message)
            case Holds() | LetsGo() if self._children.link is not None:
                self._children.link.locks.heed(child.worker, message)
            case Noticed():
                pass  # the detector has heard it
            case _:
                log.warning("unexpected word from a child: %s", type(message).__name__)

    def _feel(self, child: Child, pulse: Pulse) -> None:
        child.unanswered_for, child.polled_at = pulse.unanswered_for, pulse.polled_at
        child.ended_attempts, child.lag, child.waiting = pulse.ended, pulse.lag, pulse.waiting
        if pulse.beat_now and self._children.link is not None:
            self._children.link.heartbeat.beat_now()

    def _let_go(self, child: Child, word: Stuck | Unfit) -> None:
        """Replace a child that cannot go on; where a job cannot be stopped, that one is to blame."""
        if isinstance(word, Stuck):
            child.stuck.add(ClaimRef(word.job_id, word.fence))
        child.verdict = word.reason
        self._children.ask_to_leave(child)

    def _part_with(self, child: Child, jobs: tuple[InvolvedJob, ...]) -> None:
        """Part with a child that the store does not know any more; it may hear so before its supervisor does."""
        child.had = jobs
        child.disowned.set()
        if self._children.link is not None:
            self._children.link.heartbeat.part_with(child)

    def _take_no(self, child: Child, failed: Failed) -> None:
        """Heed that a child cannot start: before any other could, nor will the next one."""
        child.verdict, child.failed = failed.reason, True
        if self._ports.watch is not None:
            log.error("%s; waiting for the next change", failed.reason)
        elif self._children.link is None:
            error = ConfigurationError(failed.reason)
            error.add_note(f"In the child process:\n{failed.trace}")
            self._give_up_at_once(error)
        child.kill()

    async def _greet(self, child: Child, hello: Hello) -> None:
        """Make a child known to the store, which the first of them brings us to, and begin to beat for it."""
        settings, queues = hello.settings, self._plan.queue_names
        child.greeted = True
        try:
            link = self._children.link
            if link is None:
                link = self._children.link = self._open_link(hello)
            elif (settings.url, settings.namespace) != (link.settings.url, link.settings.namespace):
                child.verdict = (
                    "its app names another store than before: restart `standfast worker`, a reload cannot do it"
                )
                child.kill()
                return
            first = await link.register(child, settings, supervisor=self._id, queues=queues)
        except (StoreError, ConfigurationError) as error:  # some of what is wrong with a URL only the server knows
            self._give_up_at_once(error)
            return
        child.pulse_at = self._ports.clock.boot()  # what it said meanwhile is heard from now on
        self._children.windows, self._children.early_deaths = hello.windows, 0
        if child.phase is Phase.STARTING:
            child.phase = Phase.WORKING
        self._arrived(link, hello, first)
        link.heartbeat.beat_now()
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

    # -- giving up -------------------------------------------------------------------------------------------

    def _loop_failed(self, name: str, error: BaseException, then: str) -> None:
        log.error("a loop of the supervisor failed: %s; %s", name, then, exc_info=error)
        if self._ports.detector is not None:
            self._ports.detector.loop_failed(name, error)

    def _worse_off(self, reason: str) -> None:
        log.error("the supervisor goes on without what fails again and again: %s", reason)

    def _unfit(self, reason: str) -> None:
        self._give_up(StandfastError(f"the supervisor gives up: {reason}"))

    def _give_up_at_once(self, error: StandfastError) -> None:
        self._give_up(error)
        self._children.kill_all()

    def _give_up(self, error: StandfastError) -> None:
        self._fatal = self._fatal or error
        if not self._children.stopping:
            self._children.begin_stop()
