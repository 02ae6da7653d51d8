"""One of many processes that want a lock: `lock_contender.py URL PLACES TTL SECONDS LEDGER [session]`.

It holds the lock for a moment, and meanwhile writes down what it believes and what the protected resource, the
ledger, answers: that one takes no token which is older than the newest that it has seen, of a lock of one place.
"""

import fcntl
import os
import random
import sys
import time
from pathlib import Path

from standfast import Standfast
from standfast.errors import LockLostError

NAME = "contended"
STEP = 0.01


class Ledger:
    """A file that accepts entries in the order of their tokens only, and a log of all that was tried."""

    def __init__(self, path: Path, *, checks: bool) -> None:
        self._file = path.open("a+")
        self._checks = checks

    def write(self, word: str, token: int, at: float) -> None:
        """Note something at this boot time; say `refused` of what comes too late."""
        fcntl.flock(self._file, fcntl.LOCK_EX)
        try:
            self._file.seek(0)
            latest = self._file.read().splitlines()[-200:]
            taken = [int(line.split()[1]) for line in latest if "refused" not in line]
            if self._checks and word == "wrote" and taken and token < max(taken):
                word = "refused"
            self._file.write(f"{word} {token} {os.getpid()} {at!r}\n")
            self._file.flush()
        finally:
            fcntl.flock(self._file, fcntl.LOCK_UN)


def main() -> None:
    """Hold the lock again and again, until the time is up."""
    url, places, ttl, seconds, path = sys.argv[1:6]
    ledger = Ledger(Path(path), checks=int(places) == 1)
    until = time.monotonic() + float(seconds)
    with Standfast(url, retry_for=10) as app:
        while (left := until - time.monotonic()) > 0:
            if sys.argv[6:] == ["session"]:
                lock = app.lock(NAME, ttl=float(ttl), session=True)
            else:
                lock = app.semaphore(NAME, int(places), ttl=float(ttl))
            if not lock.acquire(timeout=left):
                return
            word, end = "took", time.monotonic() + random.uniform(0, 0.2)
            try:
                while True:
                    at, held = app.clock.boot(), lock.held  # in this order: a stop in between must not look held
                    if not held:
                        break
                    ledger.write(word, lock.token, at)
                    ledger.write("wrote", lock.token, at)
                    if time.monotonic() > end:
                        break
                    word = "held"
                    time.sleep(STEP)
                lock.release()
            except LockLostError:
                ledger.write("lost", 0, app.clock.boot())


if __name__ == "__main__":
    main()
