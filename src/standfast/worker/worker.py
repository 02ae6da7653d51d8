"""A worker: the parts of the child process put together, and the order in which it stops.

    waiting for its first beat ─► working ─► stopping ─► over
                                     └────► buried ─────►┘

Stopping: no new claims, and looks only for others, in its turns; what has not started goes back; running handlers
are told, and given the grace; coroutines are then cancelled; endings are flushed. What still runs after that is
released by the supervisor once this process is gone: never earlier. A worker that `stays`, as its process does, is
over only when its handlers are. A worker whose own loops fail again and again stops too, and is replaced
(tending.py).
"""

import asyncio
import contextlib
import logging
import math
from collections.abc import Iterable
from contextvars import copy_context
from datetime import datetime
from itertools import islice

from standfast.events import StopStage
from standfast.model.configuration import Settings
from standfast.model.incidents import InvolvedJob
from standfast.model.job import Claim, ClaimRef, Ending, KnownTask
from standfast.model.states import RETURNS, Move, Reason
from standfast.observe.figures.publisher import Publisher
from standfast.worker.attempt import Attempts, Workload
from standfast.worker.claim_log import ClaimLog
from standfast.worker.claimer import Claimer
from standfast.worker.completer import MOST_LOST, Announcer, Completer, Ended, broken
from standfast.worker.control import Control, DeadlockDetector, StopReason, picture
from standfast.worker.execution import ThreadExecutor
from standfast.worker.lease import Lease, PollTurns
from standfast.worker.limits import Gatekeeper, slots_and_timers
from standfast.worker.loops import HalfDoneError, LoopRestarter
from standfast.worker.messages import (
    Adopt,
    Buried,
    Disowned,
    Kill,
    Killed,
    Message,
    Picture,
    Pictured,
    Pulse,
    Renewed,
    Retired,
    Revoke,
    Stop,
    Stuck,
    Unfit,
)
from standfast.worker.ports import Ports
from standfast.worker.progress import Reporter, Saver
from standfast.worker.storecalls import StoreCalls, StoreClock, Timekeeper, happens_within
from standfast.worker.timers import Load
from standfast.worker.unhandled import UnhandledErrors
from standfast.worker.windows import ClosureKeeper, Closures

log = logging.getLogger(__name__)
LAST_WORDS = 0.5  # seconds for cancelled coroutines to end
FLUSH_LIMIT = 2.0  # seconds for the last endings to reach the store, even if the grace is over
LAST_FIGURES = 0.5  # seconds for the last figures to reach the store, if what they count did


class Worker:
    """One worker incarnation."""

    def __init__(
        self,
        worker: str,
        workload: Workload,
        settings: Settings,
        ports: Ports,
        *,
        group: int = 0,
        stays: bool = False,
    ) -> None:
        self.id = worker
        self._workload = workload
        self._settings = settings
        self._ports = ports
        self._suspects = group
        self._stays = stays
        self._over = asyncio.Event()
        self._ending: asyncio.Task[None] | None = None
        self._ends_at = math.inf
        self._lag: float | None = None
        self._group: asyncio.TaskGroup
        self._loop = asyncio.get_running_loop()
        self._context = copy_context()
        events = ports.events
        clock = self._clock = StoreClock.of(ports.backend, ports.clock)
        self._announcer = Announcer(events, workload.tracing)
        self._claim_log = ClaimLog(ports.claim_log)
        self._lease = Lease(clock, settings.lease, settings.margin, settings.beat_every)
        self._calls = StoreCalls(ports.backend, clock, events, ports.random, settings.store_timeout)
        tally = ports.tally(clock)
        settled = self._announcer.settled
        self._completer = Completer(self._calls, worker, self._claim_log, settled, self._look_again, tally=tally)
        self._publisher = Publisher(tally, worker, self._calls.verbs, self._calls.once)
        gates, self._slots, make_timers = slots_and_timers(workload.limits, settings.concurrency, group, clock.boot)
        self._turns = PollTurns(settings.safety_poll, settings.beat_every)
        self._timers = make_timers(
            clock,
            self._lease,
            self._slots,
            self._turns,
            start=self._start,
            release=self._release,
            overbooked=self._overbooked,
            full=self._look_after_held,
            alarms=ports.alarms,
        )
        self._load = Load(clock, self._slots, self._timers, self._completer, settings)
        self._timekeeper = Timekeeper(self._calls, clock, lambda: self._timers.ahead, self._timers.pump)
        self._reporter = Reporter(
            self._calls, clock, worker, self._slots.running, self._announcer.progressed, busy=ports.busy
        )
        self._saver = Saver(self._calls, worker, self._reporter.heed)
        self._threads = ThreadExecutor(settings.concurrency)
        self._closures = Closures(workload.hours, clock)
        self.unhandled = UnhandledErrors(ports.channel.send, ports.clock, self._slots.running)
        """Reports exceptions that no attempt and no caller could catch."""
        self._attempts = Attempts(
            workload=workload,
            backend=ports.backend,
            worker=worker,
            clock=clock,
            random=ports.random,
            announcer=self._announcer,
            claim_log=self._claim_log,
            reporter=self._reporter,
            files=ports.files,
            closures=self._closures,
            threads=self._threads,
            stuck=self._stuck,
            unknown=self._unknown,
            subprocesses=ports.subprocesses,
            unreadable=self.unhandled.unreadable,
        )
        self._claimer = Claimer(
            calls=self._calls,
            bell=ports.backend.bell,
            clock=clock,
            settings=settings,
            worker=worker,
            served=workload.served,
            lease=self._lease,
            timers=self._timers,
            load=self._load,
            turns=self._turns,
            claim_log=self._claim_log,
            closures=self._closures,
            gates=gates,
            report_look=self.ask_for_beat,
            buried=self._buried,
        )
        self._closure_keeper = ClosureKeeper(self._closures, clock, events, self._slots.running, self._look_again)
        if gates is not None:
            gates.opened = self._look_again
        self._deadlocks = DeadlockDetector(
            worker, self._slots, self._calls, events, boot=clock.boot, closed_queues=self._closures.closed_queues
        )
        self._gatekeeper = Gatekeeper(
            workload.limits, gates, self._slots, clock, events=events, raised=self._more_may_start
        )
        self._restarter = LoopRestarter(ports.clock, self.unhandled.failed, self._unfit)

    async def run(self) -> None:
        """Work until stopped. A loop that fails is begun again; where that is no help, the worker is replaced."""
        async with asyncio.TaskGroup() as group:
            self._group = group
            loops = {
                "listener": self._listen,
                "closure keeper": self._closure_keeper.run,
                "gatekeeper": self._gatekeeper.run,
                "completer": self._completer.run,
                "reporter": self._reporter.run,
                "saver": self._saver.run,
                "figures": self._publisher.run,
                "pulse": self._pulse,
                "timekeeper": self._timekeeper.run,
                "deadlock detector": self._deadlocks.run,
            }
            loops |= (
                {"claimer of suspects": self._work_suspects}
                if self._suspects
                else {"claimer": self._claimer.run, "bell": self._claimer.heed_bell}
            )
            tasks = [group.create_task(self._restarter.tend(name, loop)) for name, loop in loops.items()]
            await self._over.wait()
            for task in tasks:
                task.cancel()
        self._threads.abandon()

    def ask_for_beat(self) -> None:
        """Have the supervisor beat at once: there is something in the store for it to learn of."""
        self._say_alive(beat_now=True)

    async def quiet(self) -> None:
        """Wait until no handler runs."""
        await self._slots.quiet()

    def outlive_threads(self) -> None:
        """Block until no handler runs in a thread: after the event loop has ended, whatever ended it."""
        self._threads.outlive()

    async def renewed(self) -> None:
        """Wait for the next beat that the store accepts."""
        await self._lease.renewal()

    def now(self) -> datetime:
        """Return the store's time, as well as it is known here."""
        return self._clock.now()

    @property
    def running(self) -> int:
        """How many attempts run; any thread may ask."""
        return self._slots.taken

    def runs(self, attempt: object) -> bool:
        """Tell whether this attempt is one of those that run; any thread may ask."""
        return attempt in self._slots.running()

    @property
    def lost(self) -> bool:
        """Whether its jobs may belong to others by now."""
        return self._lease.lost

    def retire(self, grace: float) -> None:
        """Stop of its own accord: the supervisor is told that this is no crash."""
        self._ports.channel.send(Retired())
        self.stop(grace)

    def stop(self, grace: float, patience: float = 0.0) -> None:
        """Begin to stop. Of several calls that counts which ends soonest."""
        ends_at = self._ports.clock.boot() + patience + grace
        if ends_at >= self._ends_at:
            return
        self._ends_at, before, ending = ends_at, self._ending, self._end(grace, patience)
        try:
            self._ending = self._group.create_task(ending)  # first: what follows may fail
        except RuntimeError:  # it is over, or what runs it has been cancelled
            ending.close()
            return
        if before is None:
            self._claimer.stop()
            self._timers.close()
            self._staged(StopStage.CLAIMING)
        else:
            before.cancel()

    # -- what the supervisor says ----------------------------------------------------------------------------

    async def _listen(self) -> None:
        while (message := await self._ports.channel.receive()) is not None:
            self._heed(message)
        # Nobody beats for us any more: the code must have ended, last words included, before others get our jobs.
        self.stop(min(self._settings.grace, max(0.0, self._lease.remaining - LAST_WORDS)))

    def _heed(self, message: Message) -> None:
        match message:
            case Renewed():
                self._renew(message)
            case Revoke():
                self._revoke(message)
            case Adopt(tasks=tasks):
                self._adopt(tasks)
            case Stop(grace=grace, patience=patience):
                self.stop(grace, patience)
            case Buried():
                self._buried()
            case Kill():
                self._kill(message)
            case Picture():
                self._ports.channel.send(Pictured(picture(self._slots.running())))
            case _:
                log.warning("unexpected word from the supervisor: %s", type(message).__name__)

    def _renew(self, renewed: Renewed) -> None:
        told = renewed.told
        if told is not None:
            self._clock.learn(renewed.sent_at, told.now, told.answered_at)
        self._lease.renewed(renewed.sent_at)
        self._announcer.lost.clear()
        self._timers.pump()
        if told is None:
            self._claimer.take_turns(None, self._clock.now(), at_once=False)
        else:
            self._claimer.take_turns(told.turn, told.now, at_once=told.look)

    def _revoke(self, revoke: Revoke) -> None:
        refs = frozenset(ClaimRef(*claim) for claim in revoke.claims)
        replaced = frozenset(ClaimRef(*claim) for claim in revoke.replaced)
        for claim in self._timers.take_out(lambda claim: claim.ref in refs):
            self._completer.add(Ended(claim, Ending(claim.ref, Move.CANCEL, reason=Reason.REQUESTED)))

        def has_to_wait(claim: Claim) -> bool:
            return claim.queue in revoke.paused or claim.ref in replaced

        self._timers.give_back(has_to_wait)
        for control in self._slots.running():
            if not control.started_boot and has_to_wait(control.claim):
                control.tell(StopReason.STOP)  # it is being marked, and would start after that
            if control.claim.ref in refs and control.goes_on:  # said at every beat, heard once: it may tidy up
                control.interrupt(StopReason.CANCEL)

    def _kill(self, kill: Kill) -> None:
        """End the process of a cancelled job that has one of its own; what has not started yet is taken out."""
        ref, shares = ClaimRef(kill.job_id, kill.fence), False
        control = next((each for each in self._slots.running() if each.claim.ref == ref), None)
        if control is not None and control.kill is not None:
            control.kill()
        else:
            self._revoke(Revoke(((kill.job_id, kill.fence),), ()))
            shares = control is not None and self._attempts.shares_process(control.claim.task)
        self._ports.channel.send(Killed(kill.job_id, kill.fence, shares))

    def _adopt(self, waiting: Iterable[tuple[str, int]]) -> None:
        known = [
            task.known
            for name, version in waiting
            if (task := self._workload.task(name)) is not None and version <= task.policy.version
        ]
        if known:
            self._claimer.adopt(dict.fromkeys(known))

    async def _pulse(self) -> None:
        every = min(1.0, self._settings.hang_limit / 10)
        while True:
            self._say_alive()
            due_at = self._loop.time() + every
            await asyncio.sleep(every)
            self._lag = round(max(self._loop.time() - due_at, 0.0), 3)

    def _say_alive(self, *, beat_now: bool = False) -> None:
        unanswered_for, ended = self._calls.unanswered_for, self._load.ended_so_far
        polled_at, waiting = self._turns.polled_at, self._deadlocks.count()
        self._ports.channel.send(Pulse(unanswered_for, polled_at, beat_now, ended, self._lag, waiting))

    # -- the way of a claim ----------------------------------------------------------------------------------

    def _start(self, claim: Claim) -> None:
        try:
            refusal = self._closures.refusal(claim)
            if refusal is not None:
                self._completer.add(Ended(claim, refusal))
                return
            control = Control(claim, self._lease, self._reporter.progressed, self._saver.open)
            self._slots.take(control)
            self._reporter.something_runs()
            # In a context of its own: what one job's code sets there is no business of the next, whoever starts it.
            control.attempt = self._loop.create_task(self._attempt(control), context=self._context.copy())
        except Exception as error:  # noqa: BLE001 - it is in nobody's hands now, until this process is gone
            self._restarter.give_up("timers", error)

    async def _attempt(self, control: Control) -> None:
        claim = control.claim
        try:
            try:
                ending = await self._attempts.run(control)
            except (Exception, asyncio.CancelledError) as error:
                if control.outlived_by_thread or self._over.is_set():
                    raise
                with contextlib.suppress(Exception):  # the error's own code takes part in telling it
                    log.exception("job %s: its attempt broke outside its handler", claim.job_id)
                ending = control.ending or broken(claim, error, self._ports.random, control.scrub)
            if control.opened is not None:
                await self._saver.flush(control)
            if control.spoke and ending is not None and ending.move not in RETURNS:
                await self._reporter.last_word(control)
        except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001 - as above: in nobody's hands now
            if not self._over.is_set():
                self._restarter.give_up("attempt", error)
            return
        finally:
            self._slots.leave(control)
            self._reporter.ended(control)
        lasted = self._clock.boot() - control.started_boot if control.started_boot else None
        self._load.ended(lasted)
        if ending is None:
            self._announcer.lost.append(claim)
            self._claim_log.ended([claim.ref])
        else:
            self._completer.add(Ended(claim, control.with_log(ending), lasted or 0.0))
        self._timers.slot_free()
        if self._timers.due <= self._load.enough:
            self._claimer.slot_free()

    def _release(self, claim: Claim) -> None:
        self._completer.add(Ended(claim, Ending(claim.ref, Move.RELEASE)))

    def _overbooked(self) -> None:
        """Have fewer jobs wait here: some have waited for too long, and went back."""
        self._load.overbooked()
        self._claimer.overbooked()

    def _look_after_held(self) -> None:
        self._claimer.look_after_held()

    def _unknown(self, task: KnownTask) -> None:
        self._claimer.pass_over(task)

    def _look_again(self) -> None:
        self._claimer.wake()

    def _more_may_start(self) -> None:
        self._timers.pump()
        self._claimer.wake()

    def _stuck(self, control: Control, why: str, stack: str) -> None:
        claim, why = control.claim, control.scrub.text(why)
        log.error("job %s cannot be stopped: %s", claim.job_id, why)
        self._ports.channel.send(Stuck(claim.job_id, claim.fence, why, claim.task, control.scrub.text(stack)))

    # -- ends ------------------------------------------------------------------------------------------------

    def _unfit(self, reason: str) -> None:
        log.error("this worker has itself replaced: %s", reason)
        self._ports.channel.send(Unfit(reason))
        self.stop(self._settings.grace)

    async def _work_suspects(self) -> None:
        try:
            worked = await self._claimer.claim_group(self._suspects)
            self._claimer.stop()
            async with asyncio.TaskGroup() as group:
                turns = group.create_task(self._claimer.take_its_turns())
                while self._timers.due or self._timers.ahead:
                    await self._lease.renewal()  # it was given jobs which may not start before the next beat
                    await self._slots.quiet()  # or before another of them has ended
                await self._slots.quiet()
                await self._completer.flushed()
                turns.cancel()
            await self._publisher.publish_within(LAST_FIGURES)
            self._ports.channel.send(Retired(worked))
        except Exception as error:  # started anew, it would take others beside those of the first claim
            raise HalfDoneError("a suspect may have been claimed") from error
        self._over.set()

    async def _end(self, grace: float, patience: float) -> None:
        if patience:
            await happens_within(patience, self._slots.quiet())
        ends_at = self._ports.clock.boot() + grace
        try:
            for control in self._slots.running():
                control.tell(StopReason.STOP)
            self._staged(StopStage.TELLING)
            if self._slots.taken:
                self._staged(StopStage.WAITING)
            if not await happens_within(grace, self._slots.quiet()):
                for control in self._slots.running():
                    control.interrupt(StopReason.STOP)
                await happens_within(LAST_WORDS, self._slots.quiet())
            self._staged(StopStage.RELEASING)
            if await happens_within(
                max(FLUSH_LIMIT, ends_at - self._ports.clock.boot()), self._completer.flushed()
            ):
                await self._publisher.publish_within(LAST_FIGURES)
        except Exception as error:  # noqa: BLE001 - what is left is given back by the supervisor
            self.unhandled.failed("end", error, "it ends all the same")
        if self._stays and self._slots.taken:  # what a handler still comes to is written, as long as it is ours
            await self._slots.quiet()
            if await happens_within(FLUSH_LIMIT, self._completer.flushed()):
                await self._publisher.publish_within(LAST_FIGURES)
        self._over.set()

    def _staged(self, stage: StopStage) -> None:
        self._ports.staged(stage, self._slots.taken)

    def _buried(self) -> None:
        if self._lease.buried:
            return
        self._lease.bury()
        running = [control.claim for control in self._slots.running()]
        had = {each.ref: each for each in (*running, *self._announcer.lost, *self._timers.take_out(lambda _: True))}
        told = (InvolvedJob(each.job_id, each.fence, each.task, each.attempt + 1) for each in had.values())
        self._ports.channel.send(Disowned(tuple(islice(told, MOST_LOST))))
        for control in self._slots.running():
            control.interrupt(StopReason.LOST)
        self.stop(0.0)
