"""A drain: work until nothing is left to do."""

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
from standfast.stores.url import public_name
from standfast.supervisor.child import Child, Phase
from standfast.supervisor.children import Children
from standfast.supervisor.hangs import HangWatch
from standfast.supervisor.link import Link
from standfast.supervisor.locks import HeldLocks, Permit
from standfast.supervisor.orders import KILL, Order, RefusedError
from standfast.supervisor.plan import Plan, Ports
from standfast.supervisor.recycler import DRAIN_ORDER as DRAIN
from standfast.supervisor.recycler import RECYCLE_ORDER as RECYCLE
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
QUIET_LOOKS = 3
"""So many looks in a row that find nothing left: after one alone a child may be about to adopt more."""


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
    counts = await calls.until_answered(calls.verbs.count, passing=(StoreError,))
    return {state: counts[state] for state in sorted(WAITING) if counts[state]}


# What the children of a supervisor say, and what comes of it.

log = logging.getLogger(__name__)


class ChildMessages:
    """Hears the children. `arrived` learns of each that is registered, and is told of the first of them."""

    def __init__(
        self,
        plan: Plan,
        ports: Ports,
        crew: Children,
        *,
        supervisor: str,
        open_link: Callable[[Hello], Link],
        arrived: Callable[[Link, Hello, bool], None],
        give_up: Callable[[StandfastError], None],
    ) -> None:
        self._plan = plan
        self._ports = ports
        self._crew = crew
        self._supervisor = supervisor
        self._open_link = open_link
        self._arrived = arrived
        self._give_up = give_up

    async def hear(self, child: Child) -> None:
        """Listen to a child until it says no more."""
        while (message := await child.process.channel.receive()) is not None:
            child.pulse_at = self._ports.clock.boot()
            if self._ports.witness is not None:
                self._ports.witness.heard(child, message)
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
            case Holds() | LetsGo() if self._crew.link is not None:
                self._keep(self._crew.link.wards, child, message)
            case Noticed():
                pass  # the witness has heard it
            case _:
                log.warning("unexpected word from a child: %s", type(message).__name__)

    def _keep(self, wards: HeldLocks, child: Child, word: Holds | LetsGo) -> None:
        if isinstance(word, Holds):
            wards.take(child.worker, word)
        else:
            wards.let_go(word.holder)

    def _feel(self, child: Child, pulse: Pulse) -> None:
        child.unanswered_for, child.polled_at = pulse.unanswered_for, pulse.polled_at
        child.ended_attempts, child.lag, child.waiting = pulse.ended, pulse.lag, pulse.waiting
        if pulse.beat_now and self._crew.link is not None:
            self._crew.link.heart.beat_now()

    def _let_go(self, child: Child, word: Stuck | Unfit) -> None:
        """Replace a child that cannot go on; where a job cannot be stopped, that one is to blame."""
        if isinstance(word, Stuck):
            child.stuck.add(ClaimRef(word.job_id, word.fence))
        child.verdict = word.reason
        self._crew.ask_to_leave(child)

    def _part_with(self, child: Child, jobs: tuple[InvolvedJob, ...]) -> None:
        """Part with a child that the store does not know any more; it may hear so before its supervisor does."""
        child.had = jobs
        child.disowned.set()
        if self._crew.link is not None:
            self._crew.link.heart.part_with(child)

    def _take_no(self, child: Child, failed: Failed) -> None:
        """Heed that a child cannot start: before any other could, nor will the next one."""
        child.verdict, child.failed = failed.reason, True
        if self._ports.watch is not None:
            log.error("%s; waiting for the next change", failed.reason)
        elif self._crew.link is None:
            error = ConfigurationError(failed.reason)
            error.add_note(f"In the child process:\n{failed.trace}")
            self._give_up(error)
        child.kill()

    async def _greet(self, child: Child, hello: Hello) -> None:
        """Make a child known to the store, which the first of them brings us to, and begin to beat for it."""
        settings, queues = hello.settings, self._plan.queue_names
        child.greeted = True
        try:
            link = self._crew.link
            if link is None:
                link = self._crew.link = self._open_link(hello)
            elif (settings.url, settings.namespace) != (link.settings.url, link.settings.namespace):
                child.verdict = (
                    "its app names another store than before: restart `standfast worker`, a reload cannot do it"
                )
                child.kill()
                return
            first = await link.register(child, settings, supervisor=self._supervisor, queues=queues)
        except (StoreError, ConfigurationError) as error:  # some of what is wrong with a URL only the server knows
            self._give_up(error)
            return
        child.pulse_at = self._ports.clock.boot()  # what it said meanwhile is heard from now on
        self._crew.windows, self._crew.early_deaths = hello.windows, 0
        if child.phase is Phase.STARTING:
            child.phase = Phase.WORKING
        self._arrived(link, hello, first)
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


# The supervisor: what it keeps up, and how it stops.
#
# starting ─► running ─► stopping, or all places are drained ─► over
# └─(too many children die at start, or its own loops fail)──► over, loudly
#
# `crew.py` has its children, `reception.py` hears them, `hangs.py` ends those that hang, `drainer.py` lets those go
# for good of which that is ordered. From the first registered child on there are these loops:
#
# heart.py    beats for the children; what a beat brings to light, `chores.py` puts right beside it
# firing.py   fires schedules
# orders.py   carries out what people ask for
# wards.py    keeps the locks that children hold
# figuring.py folds what all workers have counted
# alerting.py looks for trouble, for the whole fleet, and has people told of it
# recycler.py replaces children that have lived long enough, or whose code has changed
# drain.py    sees when nothing is left to do, if that is the wish
#
# A loop that fails is begun again (`worker/tending.py`). Should the supervisor be killed, a guard ends its children.

LAST_DELIVERIES = 5.0
"""Seconds for notices that are being sent, once all children are gone."""

KILLED_WITHIN = 10.0
"""Seconds for a child to have the process of a job killed: its event loop may be busy."""

LAST_FIGURES = 0.5
"""Seconds for the deaths that were counted last to reach the store."""


class Supervisor:
    """One supervisor and its children."""

    def __init__(self, plan: Plan, ports: Ports) -> None:
        self._id = new_worker_id(ports.random)
        self._plan = plan
        self._ports = ports
        self._crew = Children(plan, ports, self._give_up_at_once)
        self._crew.hear = ChildMessages(
            plan,
            ports,
            self._crew,
            supervisor=self._id,
            open_link=self._open_link,
            arrived=self._arrived,
            give_up=self._give_up_at_once,
        ).hear
        self._drainer = Drainer(self._crew, ports.events)
        self._crew.gone = self._drainer.gone
        self._hangs = HangWatch(
            ports.clock, ports.events, plan.hang_limit, self._crew.children, self._crew.end_hung
        )
        self._tender = LoopRestarter(ports.clock, self._loop_failed, self._unfit)
        self._side_tender = LoopRestarter(ports.clock, self._loop_failed, self._worse_off)
        self._recycler: Recycler | None = None
        self._reload_waits = False
        self._group: asyncio.TaskGroup
        self._loops: list[asyncio.Task[None]] = []
        self._fatal: StandfastError | None = None
        if ports.witness is not None:
            ports.witness.meet(self._id, self._crew.children)

    async def run(self) -> None:
        """Supervise until stopped. Raises the error that made it give up, if one did."""
        async with asyncio.TaskGroup() as group:
            self._group = self._crew.group = group
            if self._ports.guard is not None:
                self._begin_beside("guard", self._ports.guard.run)
            if self._ports.watch is not None:
                self._begin_beside("look for changed files", self._watch)
            self._begin("watch over hangs", self._hangs.run)
            for place in self._crew.places:
                self._begin("care for a child", partial(self._crew.keep_filled, place))
            await self._crew.over.wait()
            await self._crew.await_last_burials()
            if self._crew.link is not None:
                await self._crew.link.alerting.close(LAST_DELIVERIES, self._crew.hurry)
                await self._crew.link.figures.publisher.publish_within(LAST_FIGURES)
            for loop in self._loops:
                loop.cancel()
        if self._crew.link is not None:
            self._crew.link.close()
        if self._fatal is not None:
            raise self._fatal

    def stop(self) -> None:
        """Stop gracefully; called again, at once."""
        if self._crew.stopping:
            self._crew.kill_all()
        else:
            self._crew.begin_stop()

    def outlive_host(self) -> None:
        """Stop as the process is gone in which children lived: to give back what they had is all that is left."""
        if not self._crew.stopping:
            self._crew.begin_stop(host_gone=True)

    def drop_adopted(self) -> None:
        """Beat no longer for children that live in a process not ours: their leases run out."""
        for child in self._crew.children():
            if not (child.process.killable or child.dropped):
                child.kill_to_stop()

    def ready(self) -> int:
        """Return how many children are ready to work."""
        return self._crew.ready()

    def draining(self) -> int:
        """Return how many children end what they run, and nobody is to take their place."""
        return self._crew.draining()

    def reload(self) -> None:
        """Replace all children, one after the other, by others that import the app anew; drained places too."""
        if self._crew.stopping:
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
        self._loops.append(self._group.create_task(self._side_tender.tend(name, run)))

    def _begin(self, name: str, run: Loop) -> None:
        self._loops.append(self._group.create_task(self._tender.tend(name, run)))

    def _open_link(self, hello: Hello) -> Link:
        link = Link(
            hello.settings,
            self._ports,
            supervisor=self._id,
            children=self._crew.children,
            suspects_wait=self._crew.run_suspects,
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
        self._recycler = Recycler(self._crew, limits, permit, self._ports)
        return link

    def _arrived(self, link: Link, hello: Hello, first: bool) -> None:
        """Begin with the first registered child; what is wrong with the store before it, is said once."""
        assert self._recycler is not None  # it is as old as the link
        self._recycler.limits = Limits(hello.settings, hello.recycle)
        if self._ports.guard is not None:
            self._ports.guard.learn(hello.settings)
        link.alerting.learn(hello.watching)
        if not first:
            return
        self._begin("beat", link.heart.run)
        self._begin("firing of schedules", link.firing.run)
        self._begin_beside("taking of orders", link.orders.run)
        self._begin_beside("keeping of locks", link.wards.run)
        self._begin_beside("folding of figures", link.figures.run)
        self._begin_beside("writing of figures", link.figures.publisher.run)
        self._begin_beside("looking for trouble", link.alerting.run)
        self._begin_beside("replacing of children", self._recycler.run)
        if self._ports.witness is not None:
            self._begin_beside(
                "writing of incidents", partial(self._ports.witness.write, link.calls, link.settings)
            )
        if self._plan.drain:
            self._begin("drain", partial(self._drain, link))
        if self._reload_waits:
            self.reload()

    async def _drain(self, link: Link) -> None:
        waiting = await until_drained(link.calls, self._plan.queue_names, self._crew.all_work)
        if not self._crew.stopping:
            self._ports.events.emit(Drained(waiting))
            self._crew.begin_stop()

    async def _watch(self) -> None:
        """Replace all children whenever a file of the app has changed."""
        assert self._ports.watch is not None
        async for file in self._ports.watch.changes():
            words = f"{file} has changed"
            self._crew.code_changed.set()
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
        child, ref = self._crew.child(order.worker), ClaimRef(order.details["job"], int(order.details["fence"]))
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
        child = self._crew.child(order.worker)
        if child is not None and self._ports.witness is not None:
            await self._ports.witness.snapshot(child, order.id)

    # -- giving up -------------------------------------------------------------------------------------------

    def _loop_failed(self, name: str, error: BaseException, then: str) -> None:
        log.error("a loop of the supervisor failed: %s; %s", name, then, exc_info=error)
        if self._ports.witness is not None:
            self._ports.witness.loop_failed(name, error)

    def _worse_off(self, reason: str) -> None:
        log.error("the supervisor goes on without what fails again and again: %s", reason)

    def _unfit(self, reason: str) -> None:
        self._give_up(StandfastError(f"the supervisor gives up: {reason}"))

    def _give_up_at_once(self, error: StandfastError) -> None:
        self._give_up(error)
        self._crew.kill_all()

    def _give_up(self, error: StandfastError) -> None:
        self._fatal = self._fatal or error
        if not self._crew.stopping:
            self._crew.begin_stop()
