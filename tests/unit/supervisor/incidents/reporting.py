"""A desk over a store in memory, in virtual time, and incidents to hand in."""

import asyncio
from datetime import UTC, datetime
from random import Random

from msgspec.structs import replace

from simulator.loop import VirtualLoop
from simulator.world import VirtualClock
from standfast.errors import StoreUnavailableError
from standfast.events import Events
from standfast.model.ids import new_job_id
from standfast.model.incidents import Evidence, Incident, InvolvedJob, Trouble
from standfast.observe.incidents import list_incidents, read_evidence
from standfast.settings import Settings
from standfast.stores.memory.store import MemoryBackend
from standfast.stores.verb import run_procedure
from standfast.supervisor.incidents.recorder import IncidentRecorder
from standfast.worker.storecalls import StoreCalls

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
STACKS = Evidence({"stacks": "here it was", "log": "and this it said"})


def an_incident(**different):
    """Return an incident; each has an id of its own, and the same fingerprint."""
    made = Incident(
        id=new_job_id(),
        trouble=Trouble.CRASH,
        summary="its process exited with status 9",
        at=NOON,
        last_at=NOON,
        host="web-01",
        worker="a1b2c3d4e5f60718",
        pid=4242,
        fingerprint="exit-9",
    )
    return replace(made, **different)


def a_job(number, fence=1):
    return InvolvedJob(f"job-{number}", fence, "send_email", 1)


class Shaky(MemoryBackend):
    """A store that can be away, and can lose its answers to changes; it counts what it is asked."""

    away = False
    lose_answers = 0

    def __init__(self, clock):
        super().__init__(clock)
        self.changes = 0
        self.changed = asyncio.Event()
        self.looks = 0

    async def arun(self, verb):
        if self.away:
            raise StoreUnavailableError("away")
        self.changes += verb.name == "change_records"
        self.looks += verb.name == "records"
        answer = await super().arun(verb)
        if self.changes:
            self.changed.set()
        if verb.name == "change_records" and self.lose_answers:
            self.lose_answers -= 1
            raise StoreUnavailableError("no answer")
        return answer


class Office:
    """A desk without a disk, and its store."""

    def __init__(self, **settings):
        self.clock = VirtualClock()
        self.backend = Shaky(self.clock)
        self.calls = StoreCalls(self.backend, self.clock, Events(), Random(1), 5.0)
        self.desk = IncidentRecorder(self.clock, Settings(**settings))
        self.running = None

    def open(self):
        self.running = asyncio.create_task(self.desk.run(self.calls))

    async def shut(self):
        self.running.cancel()
        await asyncio.wait([self.running])

    def report(self, incident=None, evidence=STACKS, **different):
        return self.desk.report(incident or an_incident(**different), evidence)

    def kept(self):
        return run_procedure(self.backend.run, list_incidents(self.backend.verbs))

    def evidence(self, incident_id):
        return run_procedure(self.backend.run, read_evidence(self.backend.verbs, incident_id)).parts


def play(story, **settings):
    """Let a story happen in an office in virtual time."""

    async def begin():
        office = Office(**settings)
        office.open()
        await story(office)

    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        runner.run(begin())
