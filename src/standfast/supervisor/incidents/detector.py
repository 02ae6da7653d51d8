"""Makes incidents of what a supervisor sees of its children and hears from them.

What is quick to know is taken down at once, before anything of a dead child is cleared away. The rest, which the
store or the machine may be slow to tell, is found out beside the burial, which waits for a moment at most.
"""

import asyncio
import logging
import os
import socket
import traceback
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from standfast.model.clock import Clock
from standfast.model.configuration import Settings
from standfast.model.crash import DeathKind
from standfast.model.ids import new_job_id
from standfast.model.incidents import Evidence, Incident, InvolvedJob, Trouble
from standfast.model.job import ClaimRef
from standfast.stores.values import Worker
from standfast.supervisor.child import Child, Exit, Phase
from standfast.supervisor.incidents.death import MemoryWatch, examine
from standfast.supervisor.incidents.recorder import IncidentRecorder
from standfast.supervisor.incidents.snapshot import involved, running, surroundings, take_portrait, words_of
from standfast.worker.claim_log import read_claim_log
from standfast.worker.messages import Message, Noticed, Stuck
from standfast.worker.storecalls import StoreCalls

log = logging.getLogger(__name__)
MOMENT = 0.2  # seconds for which a burial waits: enough for a store in order to say what ran, before that changes
COUNT_EVERY = 5.0  # seconds between two looks at what the kernel has killed for memory
LAST_WORDS = 1.0  # seconds for what is still being found out when the supervisor ends


class IncidentDetector:
    """Sees what becomes of the children of one supervisor."""

    def __init__(self, clock: Clock, recorder: IncidentRecorder, memory: MemoryWatch | None = None) -> None:
        self._clock = clock
        self._recorder = recorder
        self._memory = memory or MemoryWatch()
        self._calls: StoreCalls | None = None
        self._supervisor = ""
        self._children: Callable[[], Sequence[Child]] = list
        self._telling: set[asyncio.Task[None]] = set()

    def meet(self, supervisor: str, children: Callable[[], Sequence[Child]]) -> None:
        """Learn whose children they are."""
        self._supervisor, self._children = supervisor, children

    async def write(self, calls: StoreCalls, settings: Settings) -> None:
        """Write down incidents as they come, and keep count of what the kernel kills."""
        self._calls = calls
        self._recorder.learn(settings)
        writing = asyncio.ensure_future(self._recorder.run(calls))
        try:
            while not writing.done():
                await asyncio.wait([writing], timeout=COUNT_EVERY)
                self._memory.look()
            await writing
        finally:
            if self._telling:
                await asyncio.wait(self._telling, timeout=LAST_WORDS)
            writing.cancel()
            await asyncio.wait([writing])

    # -- deaths ----------------------------------------------------------------------------------------------

    async def saw_end(self, child: Child, end: Exit) -> None:
        """Make an incident of the end of a child, if it is one and was not told of before."""
        death = child.death(end)
        if death.kind is not DeathKind.CRASHED or child.stuck:
            child.incident_told = True
            return
        found, at = examine(child, death, end, self._memory), self._clock.now()
        child.incident = new_job_id()

        async def tell() -> None:
            jobs = await involved(self._calls, found.claims)
            starting = child.phase is Phase.STARTING
            summary = f"worker {child.worker} {found.how}{' while it started' if starting else running(jobs)}"
            same = found.cause if starting else _sameness(found.cause, jobs)
            who = {**_who(child), "id": child.incident, "fingerprint": same}
            await self._report_end(child, self._incident(found.trouble, summary, jobs, at=at, **who), found.parts)

        await asyncio.wait([self._begin(tell())], timeout=MOMENT)
        child.incident_told = True

    def saw_loss(self, lost: Worker, jobs: tuple[InvolvedJob, ...]) -> None:
        """Make an incident of a worker of another supervisor that was heard of no more."""
        info = lost.info
        silent = f"{lost.beat_age.total_seconds():.0f} s"
        summary = f"worker {info.id} on {info.host} was not heard of for {silent}{running(jobs)}"
        known = {
            "host": info.host,
            "process": str(info.pid),
            "supervisor": info.supervisor,
            "started at": lost.started_at.isoformat(),
            "last beat": f"{silent} before it was buried; its lease was {info.lease.total_seconds():g} s",
            "jobs": f"{lost.running} running, {lost.held} held",
        }
        words = "\n".join(f"{name}: {value}" for name, value in known.items())
        incident = self._incident(Trouble.LOST, summary, jobs, worker=info.id, pid=info.pid, host=info.host)
        self._begin(self._report(incident, {"worker": words}))

    def saw_emptied(self, child: Child, jobs: tuple[InvolvedJob, ...], had: str) -> None:
        """Make an incident of a store that was emptied while a child had jobs of it."""
        summary = f"the store was emptied, or replaced by another one: worker {child.worker} had {had}"
        lines = [f"{job.job_id} {job.task}".strip() for job in jobs]
        who = {**_who(child), "fingerprint": f"emptied {child.store_id}"}
        incident = self._incident(Trouble.EMPTIED, summary, jobs, **who)
        self._begin(self._report(incident, {"jobs": "\n".join(lines)}))

    def loop_failed(self, name: str, error: BaseException) -> None:
        """Make an incident of a loop of the supervisor itself that failed."""
        summary = f"a loop of the supervisor failed: {name}: {error!r}"
        fingerprint = f"loop {name} {type(error).__name__}"
        incident = self._incident(Trouble.EXCEPTION, summary, (), pid=os.getpid(), fingerprint=fingerprint)
        self._recorder.report(incident, Evidence({"traceback": "".join(traceback.format_exception(error))}))

    # -- the living ------------------------------------------------------------------------------------------

    def heard(self, child: Child, message: Message) -> None:
        """Make an incident of what a child says, if it is one."""
        match message:
            case Noticed():
                self._tell_noticed(child, message)
            case Stuck():
                self._begin(self._tell_stuck(child, message))

    def _tell_noticed(self, child: Child, noticed: Noticed) -> None:
        more = {**_who(child), "fingerprint": noticed.fingerprint, "count": noticed.count}
        incident = self._incident(noticed.trouble, noticed.summary, noticed.jobs, **more)
        self._recorder.report(incident, Evidence(noticed.parts))

    async def _tell_stuck(self, child: Child, stuck: Stuck) -> None:
        """Tell of a handler that cannot be stopped."""
        at, child.incident = self._clock.now(), new_job_id()
        jobs = await involved(self._calls, [ClaimRef(stuck.job_id, stuck.fence)])
        summary = f"worker {child.worker} cannot stop {words_of(jobs)}: {stuck.reason}"
        who = {**_who(child), "id": child.incident, "fingerprint": _sameness(stuck.reason, jobs)}
        incident = self._incident(Trouble.STUCK, summary, jobs, at=at, **who)
        await self._report_end(child, incident, {"stack": stuck.stack, **child.process.remains()})

    async def snapshot(self, child: Child, incident_id: str) -> None:
        """Make an incident of how a living child is doing, because somebody asked."""
        at, portrait = self._clock.now(), await take_portrait(child)
        jobs = await involved(self._calls, read_claim_log(child.process.claim_log).running)
        summary = f"worker {child.worker} was looked at{running(jobs)}"
        incident = self._incident(Trouble.SNAPSHOT, summary, jobs, at=at, id=incident_id, **_who(child))
        await self._report(incident, {**child.process.remains(), **portrait})

    # -- telling ---------------------------------------------------------------------------------------------

    def _begin(self, telling: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Find out and tell, beside all else."""
        task = asyncio.create_task(telling)
        self._telling.add(task)
        task.add_done_callback(self._told)
        return task

    def _told(self, task: asyncio.Task[None]) -> None:
        self._telling.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("an incident could not be told of", exc_info=error)

    async def _report_end(self, child: Child, incident: Incident, parts: Mapping[str, str]) -> None:
        """Report what ends a child. The same again is only counted, unless others know it by an id of its own."""
        again = self._recorder.knows(incident) and not child.incident_told
        around = {} if again else await surroundings(self._own_state)
        if child.incident_told and self._recorder.knows(incident):
            incident = replace(incident, fingerprint="")
        child.incident = self._recorder.report(incident, Evidence({**parts, **around}))

    async def _report(self, incident: Incident, parts: Mapping[str, str]) -> None:
        around = await surroundings(self._own_state)
        self._recorder.report(incident, Evidence({**parts, **around}))

    def _incident(self, trouble: Trouble, summary: str, jobs: tuple[InvolvedJob, ...], **more: Any) -> Incident:
        known = {
            "id": new_job_id(),
            "at": self._clock.now(),
            "host": socket.gethostname(),
            "supervisor": self._supervisor,
            **more,
        }
        return Incident(trouble=trouble, summary=summary, jobs=jobs, last_at=known["at"], **known)

    def _own_state(self) -> str:
        away = 0.0 if self._calls is None else self._calls.unanswered_for
        lines = [f"id: {self._supervisor}", f"process: {os.getpid()}", f"store unanswered for: {away:.1f} s"]
        for child in self._children():
            heard = f"heard of {self._clock.boot() - child.pulse_at:.1f} s ago"
            lines.append(f"child {child.worker}: process {child.process.pid}, {child.phase.value}, {heard}")
        return "\n".join(lines)


def _sameness(cause: str, jobs: Sequence[InvolvedJob]) -> str:
    """Return what is the same for deaths of one cause in the same tasks; nothing where these are not known."""
    tasks = {job.task for job in jobs}
    return "" if "" in tasks else " ".join([cause, *sorted(tasks)])


def _who(child: Child) -> dict[str, Any]:
    return {"worker": child.worker, "pid": child.process.pid}
