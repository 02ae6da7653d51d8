"""The supervisor's connection to the store: what it writes there about its children, and what runs over it."""

import asyncio
import logging
import socket
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from functools import partial

from standfast.errors import StoreError
from standfast.events import JobDied, WorkerCrashed, WorkerStopped
from standfast.model.backoff import TRANSIENT_ERRORS
from standfast.model.configuration import Settings
from standfast.model.crash import Death, DeathKind
from standfast.model.incidents import InvolvedJob
from standfast.model.job import ClaimRef
from standfast.stores.backend import KnownStore
from standfast.stores.values import BeatAnswer, DueSuspects, WorkerInfo
from standfast.supervisor.alerting import Alerting, NotificationSender
from standfast.supervisor.child import Child
from standfast.supervisor.figures import FigureKeeper
from standfast.supervisor.heartbeat import Heartbeat
from standfast.supervisor.housekeeping import find_dead, tell_dead
from standfast.supervisor.incidents.snapshot import words_of
from standfast.supervisor.locks import HeldLocks
from standfast.supervisor.orders import CarryOut, Orders
from standfast.supervisor.plan import Ports
from standfast.supervisor.scheduler import Firing
from standfast.worker.claim_log import read_claim_log
from standfast.worker.storecalls import StoreCalls, happens_within

log = logging.getLogger(__name__)
SAID_WITHIN = 1.0  # seconds for a child that the store does not know any more to say which jobs it had


class Link:
    """An open store and all that one supervisor does by it, from when its first child has told where it is."""

    def __init__(
        self,
        settings: Settings,
        ports: Ports,
        *,
        supervisor: str,
        children: Callable[[], Sequence[Child]],
        suspects_wait: Callable[[frozenset[DueSuspects]], None],
        order_handlers: Mapping[str, CarryOut],
    ) -> None:
        clock, events = ports.clock, ports.events
        self.settings = settings
        self._events = events
        self._backend = ports.open_backend(settings)
        self._close_backend = ports.close_backend
        self.calls = calls = StoreCalls(self._backend, clock, events, ports.random, settings.store_timeout)
        self.firing = Firing(calls, clock, events, timedelta(seconds=settings.look_ahead))
        self.figures = FigureKeeper(calls, clock, supervisor, ports.tally)
        events.subscribe(self.figures.hear, lambda kind: kind is JobDied)
        self.orders = Orders(
            calls, lambda worker: any(child.worker == worker for child in children()), order_handlers
        )
        self.heartbeat = Heartbeat(
            calls,
            clock,
            settings,
            events,
            children=children,
            suspects_wait=suspects_wait,
            heed=self._heed,
            lost=lambda worker: self.alerting.lost(worker),  # noqa: PLW0108 - it is made with this beat
            detector=ports.detector,
            memory=ports.memory,
            disowned=self._disowned,
        )
        self._store = KnownStore(calls.once, calls.verbs)
        self._detector = ports.detector
        self._asking = set[asyncio.Task[None]]()
        self.locks = HeldLocks(calls, clock)
        self.alerting = Alerting(
            calls,
            clock,
            events,
            settings,
            sender=partial(
                NotificationSender,
                calls,
                clock,
                events,
                ports.random,
                supervisor=supervisor,
                lease=settings.lease_span,
                count=self.figures.count,
            ),
            children=children,
            beat_now=self.heartbeat.beat_now,
            survey=None if ports.surveyor is None else ports.surveyor(settings),
        )
        self._any_registered = False

    async def register(
        self, child: Child, settings: Settings, *, supervisor: str, queues: tuple[str, ...] | None
    ) -> bool:
        """Make a child known to the store; tell whether it is the first. Its first accepted beat lets it work."""
        info = WorkerInfo(
            id=child.worker,
            supervisor=supervisor,
            host=socket.gethostname(),
            pid=child.process.pid,
            lease=settings.lease_span,
            queues=queues,
            concurrency=settings.concurrency,
        )
        child.slots = settings.concurrency
        # At first, what does not pass is a reason not to start; later, to try on.
        passing = (StoreError,) if self._any_registered else TRANSIENT_ERRORS
        await self.calls.until_answered(partial(self.calls.verbs.register, info), passing)
        with suppress(StoreError):  # then it cannot be told whether the store was emptied since
            child.store_id = await self._store.meet()
        first, self._any_registered = not self._any_registered, True
        return first

    async def bury(self, child: Child, death: Death) -> None:
        """Give back what a child had, now that its code can no longer run, and say what became of it."""
        worker, pid = child.worker, child.process.pid
        bury = partial(self.calls.verbs.bury, worker, death)
        released = await self.calls.until_answered(bury, passing=(StoreError,))
        self.heartbeat.look_soon()
        if death.kind is DeathKind.CRASHED or child.worked:
            self.heartbeat.beat_now()  # there may be suspects, and they need not wait for the next turn
        if death.kind is DeathKind.STOPPED:
            self._events.emit(WorkerStopped(worker, pid, len(released)))
            return
        dead = await find_dead(self.calls, released)
        given_back = len(released) - len(dead)
        self._events.emit(WorkerCrashed(worker, pid, death.evidence, len(death.started), given_back))
        tell_dead(self._events, dead, death.evidence)

    def _heed(self, answer: BeatAnswer) -> None:
        self.firing.heed(answer)
        self.orders.heed(answer)
        self.figures.heed(answer)
        self.alerting.heed(answer)

    def _disowned(self, child: Child) -> None:
        """Find out, beside the beats, why the store does not know a child any more."""
        held = read_claim_log(child.process.claim_log).held
        task = asyncio.ensure_future(self._tell_emptied(child, held))
        self._asking.add(task)
        task.add_done_callback(self._asking.discard)

    async def _tell_emptied(self, child: Child, held: Iterable[ClaimRef]) -> None:
        """Say so if the store was emptied, and what the child had: nobody else knows of these jobs any more."""
        await happens_within(SAID_WITHIN, child.disowned.wait())
        try:
            emptied = child.store_id is not None and await self._store.is_another(child.store_id)
        except StoreError as error:
            log.warning("it is not known whether the store was emptied: %s", error)
            return
        if emptied:
            jobs = child.had or tuple(InvolvedJob(ref.job_id, ref.fence) for ref in sorted(held))
            had = words_of(jobs) if jobs else "no jobs"
            log.error("the store was emptied, or replaced by another one: worker %s had %s", child.worker, had)
            if self._detector is not None:
                self._detector.saw_emptied(child, jobs, had)

    def close(self) -> None:
        """Let go of the store."""
        for task in self._asking:
            task.cancel()
        self._close_backend(self._backend)
