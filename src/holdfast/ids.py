"""Identifiers made by the client: job ids (UUIDv7, so that they sort by time) and worker incarnations."""

import os
import threading
import time
from random import Random

_VERSION_7 = 0x7 << 76
_VARIANT = 0b10 << 62
_RANDOM_BITS = 74
_STEP_BITS = 32
_POOL = 4096
_SET_BACK = 10_000
"""Milliseconds by which a clock that goes back is corrected rather than set; ids then follow it."""


class _Sequence:
    """Ids of one process in the order in which they were made, also within a millisecond."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._millisecond = 0
        self._random = 0
        self._pool = b""
        self._used = 0

    def next(self) -> tuple[int, int]:
        """Return a millisecond and 74 random bits, together greater than before, unless the clock was set back."""
        now = time.time_ns() // 1_000_000
        with self._lock:
            if now > self._millisecond or now < self._millisecond - _SET_BACK:
                self._millisecond = now
                self._random = self._bits(_RANDOM_BITS - 1)  # half of the room, so that steps seldom overflow it
            else:
                self._random += 1 + self._bits(_STEP_BITS)
                if self._random >> _RANDOM_BITS:
                    self._millisecond += 1
                    self._random = self._bits(_RANDOM_BITS - 1)
            return self._millisecond, self._random

    def _bits(self, number: int) -> int:
        """Return random bits of the system's; they are fetched in bulk, as each fetch is a system call."""
        size = (number + 7) // 8
        if self._used + size > len(self._pool):
            self._pool, self._used = os.urandom(_POOL), 0
        self._used += size
        return int.from_bytes(self._pool[self._used - size : self._used], "big") >> (-number % 8)


_sequence = _Sequence()


def _begin_anew() -> None:
    """Let a forked child make ids of its own: neither the parent's lock nor its place in the sequence."""
    global _sequence  # noqa: PLW0603 - one sequence per process
    _sequence = _Sequence()


os.register_at_fork(after_in_child=_begin_anew)


def new_job_id() -> str:
    """Return a fresh UUIDv7 in its usual text form, greater than any made before by this process."""
    millisecond, random = _sequence.next()
    high, low = random >> 62, random & 0x3FFF_FFFF_FFFF_FFFF
    digits = f"{(millisecond & 0xFFFF_FFFF_FFFF) << 80 | _VERSION_7 | high << 64 | _VARIANT | low:032x}"
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


def new_worker_id(random: Random) -> str:
    """Return a fresh worker incarnation: never reused, not even by the same process."""
    return f"{random.getrandbits(64):016x}"
