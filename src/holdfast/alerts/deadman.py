"""The dead man's switch: pings an outside service while all is well. When the fleet is gone, the pings are, too.

Whoever has the turn calls `tick` again and again, and stops calling when it has reason to. A ping runs in a thread
of its own, one at a time: nothing waits for it.
"""

import logging
import math
import threading
import time
from http import HTTPStatus

from holdfast.alerts.channel import DeadMan
from holdfast.exchange import FAILURES, exchange, why_not
from holdfast.weburl import http_url

log = logging.getLogger(__name__)

AGAIN = 15.0
"""Seconds after which a ping that failed is tried again, if the next one is not due before."""


class DeadManSwitch:
    """The pings of one process."""

    def __init__(self, dead_man: DeadMan) -> None:
        self._dead_man = dead_man
        self._url = http_url(dead_man.url, "the url of the dead man's switch", "")
        self._due_at = -math.inf
        self._pinging: threading.Thread | None = None
        self._is_failing = False

    def tick(self, boot: float) -> None:
        """Ping if it is time, by a clock that nobody can set."""
        if boot < self._due_at or (self._pinging is not None and self._pinging.is_alive()):
            return
        self._due_at = boot + self._dead_man.every
        self._pinging = threading.Thread(target=self._ping, args=(boot,), name="holdfast-dead-man", daemon=True)
        self._pinging.start()

    def wait(self, seconds: float) -> None:
        """Wait for a ping that is on its way."""
        if self._pinging is not None:
            self._pinging.join(seconds)

    def _ping(self, boot: float) -> None:
        """Ping; tell in the log when that begins to fail, and when it is over, without the URL: it is a secret."""
        began_at, timeout = time.monotonic(), self._dead_man.timeout
        try:
            answer = exchange(self._url, timeout, headers={"User-Agent": "holdfast-dead-man"})
            why = None if answer.status < HTTPStatus.MULTIPLE_CHOICES else f"it answered {answer.says}"
        except FAILURES as error:
            is_late = time.monotonic() - began_at >= timeout
            why = f"no answer within {timeout:g} s" if is_late else why_not(error)
        if why is not None:
            self._due_at = boot + min(self._dead_man.every, AGAIN)
        if why is not None and not self._is_failing:
            log.warning("the dead man's switch cannot be reached, which is tried again: %s", why)
        elif why is None and self._is_failing:
            log.info("the dead man's switch is reached again")
        self._is_failing = why is not None
