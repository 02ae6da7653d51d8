"""All verbs of the memory store in one object."""

from holdfast.store.memory.records import RecordVerbs
from holdfast.store.memory.supervisors import SupervisorVerbs
from holdfast.store.memory.workers import WorkerVerbs
from holdfast.store.protocol import LeaseClock


class MemoryStore(RecordVerbs, WorkerVerbs, SupervisorVerbs):
    """The reference model of `Store`: a verb is one Python step over dicts, and so atomic under one lock."""

    lease_clock = LeaseClock.BOOT
