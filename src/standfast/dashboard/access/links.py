"""Links by which somebody signs in once: whoever can read the terminal has it, and nobody after them."""

import hmac
import secrets
import threading
import time
from collections.abc import Callable

LINK_SPAN = 600.0
"""Seconds for which a link can be used."""

MOST_LINKS = 8
"""So many can be used at a time; of more, the oldest are void."""

_BYTES = 32


class Links:
    """Makes links, and takes each of them once. They are known to this process alone. Any thread may use them."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._ends: dict[str, float] = {}

    def make(self) -> str:
        """Return the secret part of a new link."""
        secret = secrets.token_urlsafe(_BYTES)
        with self._lock:
            self._ends[secret] = self._clock() + LINK_SPAN
            while len(self._ends) > MOST_LINKS:
                del self._ends[next(iter(self._ends))]
        return secret

    def use(self, given: str) -> bool:
        """Tell whether this is a link that can be used; it is the last time that it can."""
        with self._lock:
            now = self._clock()
            self._ends = {secret: end for secret, end in self._ends.items() if now < end}
            found = None
            for secret in self._ends:
                if hmac.compare_digest(secret.encode(), given.encode(errors="replace")):
                    found = secret
            if found is not None:
                del self._ends[found]
            return found is not None
