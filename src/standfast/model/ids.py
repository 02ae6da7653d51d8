"""Identifiers made by the client: job ids (UUIDv7, so that they sort by time) and worker incarnations."""

import os
import struct
import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from random import Random
from uuid import UUID

_RANDOM_BITS = 74
_POOL = struct.Struct("=1024I")
_VERSION = 7
_VARIANT = 0b10
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)
_SET_BACK = 10_000
"""Milliseconds by which a clock that goes back is corrected rather than set; ids then follow it."""


class _Sequence:
    """Ids of one process in the order in which they were made, also within a millisecond."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._millisecond = 0
        self._random = 0
        self._head = ""
        self._pool: Iterator[int] = iter(())

    def next(self) -> str:
        """Return an id greater than before, unless the clock was set back: a millisecond and 74 random bits."""
        now = time.time_ns() // 1_000_000
        with self._lock:
            if now > self._millisecond or now < self._millisecond - _SET_BACK:
                self._begin(now)
            else:
                self._random += 1 + (next(self._pool, None) or self._bits())
                if self._random >> _RANDOM_BITS:
                    self._begin(self._millisecond + 1)
            random = self._random
            return "%s-7%03x-%04x-%012x" % (  # noqa: UP031 - an f-string takes half as long again
                self._head,
                random >> 62,
                0x8000 | random >> 48 & 0x3FFF,
                random & 0xFFFF_FFFF_FFFF,
            )

    def _begin(self, millisecond: int) -> None:
        """Go on with a new millisecond, in the lower half of its room, so that steps seldom overflow it."""
        self._millisecond = millisecond
        self._head = f"{millisecond >> 16 & 0xFFFF_FFFF:08x}-{millisecond & 0xFFFF:04x}"
        self._random = (self._bits() << 41) + (self._bits() << 9) + (self._bits() >> 23)

    def _bits(self) -> int:
        """Return 32 random bits of the system's; they are fetched in bulk, as each fetch is a system call."""
        bits = next(self._pool, None)
        if bits is None:
            self._pool = iter(_POOL.unpack(os.urandom(_POOL.size)))
            bits = next(self._pool)
        return bits


_sequence = _Sequence()


def _begin_anew() -> None:
    """Let a forked child make ids of its own: neither the parent's lock nor its place in the sequence."""
    global _sequence  # noqa: PLW0603 - one sequence per process
    _sequence = _Sequence()


os.register_at_fork(after_in_child=_begin_anew)


def new_job_id() -> str:
    """Return a fresh UUIDv7 in its usual text form, greater than any made before by this process."""
    return _sequence.next()


def made_at(job_id: str) -> datetime | None:
    """Return when a UUIDv7 was made; None of anything else."""
    try:
        made = UUID(job_id)
    except ValueError:
        return None
    return datetime.fromtimestamp((made.int >> 80) / 1000, UTC) if made.version == _VERSION else None


def first_id_at(when: datetime) -> str:
    """Return the smallest UUIDv7 of a moment, to the millisecond: jobs made from then on have greater ids."""
    return str(UUID(int=max(0, (when - _EPOCH) // _MILLISECOND) << 80 | _VERSION << 76 | _VARIANT << 62))


def new_worker_id(random: Random) -> str:
    """Return a fresh worker incarnation: never reused, not even by the same process."""
    return f"{random.getrandbits(64):016x}"
