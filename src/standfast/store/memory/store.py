"""All verbs of the memory store in one object."""

from standfast.store.memory.claim_verbs import ClaimVerbs
from standfast.store.memory.record_verbs import RecordVerbs
from standfast.store.memory.supervision_verbs import SupervisionVerbs
from standfast.store.protocol import LeaseClock


class MemoryStore(RecordVerbs, ClaimVerbs, SupervisionVerbs):
    """The reference model of `Store`: a verb is one Python step over dicts, and so atomic under one lock."""

    lease_clock = LeaseClock.BOOT
