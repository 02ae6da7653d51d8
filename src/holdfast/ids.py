"""Identifiers made by the client: job ids (UUIDv7, so that they sort by time) and worker incarnations."""

import os
import time
from random import Random
from uuid import UUID

_VERSION_7 = 0x7 << 76
_VARIANT = 0b10 << 62


def new_job_id() -> str:
    """Return a fresh UUIDv7 in its usual text form."""
    milliseconds = time.time_ns() // 1_000_000
    random = int.from_bytes(os.urandom(10), "big")
    high, low = random >> 68, random & 0x3FFF_FFFF_FFFF_FFFF
    return str(UUID(int=(milliseconds & 0xFFFF_FFFF_FFFF) << 80 | _VERSION_7 | high << 64 | _VARIANT | low))


def new_worker_id(random: Random) -> str:
    """Return a fresh worker incarnation: never reused, not even by the same process."""
    return f"{random.getrandbits(64):016x}"
