"""Makes incidents of what a supervisor sees of its children and hears from them."""

import socket

from msgspec.structs import replace

from holdfast.clock import Clock
from holdfast.core.crash import DeathKind
from holdfast.core.incident import Evidence, Incident, InvolvedJob, Trouble
from holdfast.ids import new_job_id
from holdfast.incidents.desk import Desk
from holdfast.settings import Settings
from holdfast.supervisor.child import Child, Exit
from holdfast.worker.messages import Noticed
from holdfast.worker.storecalls import StoreCalls


class Witness:
    """Sees what becomes of the children of one supervisor."""

    def __init__(self, clock: Clock, desk: Desk) -> None:
        self._clock = clock
        self._desk = desk

    async def write(self, calls: StoreCalls, settings: Settings) -> None:
        """Write down incidents as they come."""
        self._desk.learn(settings)
        await self._desk.run(calls)

    async def saw_end(self, child: Child, end: Exit) -> None:
        """Make an incident of the end of a child, if it is one."""
        death = child.death(end)
        if death.kind is DeathKind.CRASHED:
            jobs = tuple(InvolvedJob(ref.job_id, ref.fence) for ref in sorted(death.started))
            incident = self._incident(child, Trouble.CRASH, str(end), jobs)
            child.incident = self._desk.report(incident, Evidence({"exit": death.evidence or str(end)}))

    def heard(self, child: Child, noticed: Noticed) -> None:
        """Make an incident of what a child has noticed."""
        incident = self._incident(child, noticed.trouble, noticed.summary, noticed.jobs)
        incident = replace(incident, fingerprint=noticed.fingerprint, count=noticed.count)
        self._desk.report(incident, Evidence(noticed.parts))

    def _incident(self, child: Child, trouble: Trouble, summary: str, jobs: tuple[InvolvedJob, ...]) -> Incident:
        now = self._clock.now()
        return Incident(
            id=new_job_id(),
            trouble=trouble,
            summary=summary,
            at=now,
            last_at=now,
            host=socket.gethostname(),
            worker=child.worker,
            pid=child.process.pid,
            jobs=jobs,
        )
