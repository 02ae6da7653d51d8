"""All verbs of the memory store in one object."""

from holdfast.store.memory.claim_verbs import ClaimVerbs
from holdfast.store.memory.record_verbs import RecordVerbs
from holdfast.store.memory.supervision_verbs import SupervisionVerbs
from holdfast.store.protocol import LeaseClock


class MemoryStore(RecordVerbs, ClaimVerbs, SupervisionVerbs):
    """The reference model of `Store`: a verb is one Python step over dicts, and so atomic under one lock."""

    lease_clock = LeaseClock.BOOT
