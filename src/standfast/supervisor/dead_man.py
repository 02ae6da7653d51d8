"""The dead man's switch: pings an outside service while all is well. When the fleet is gone, the pings are, too.

One supervisor pings after a beat, and has written that down before: a store that can be read, and takes no jobs, is
not well. A ping runs in a thread of its own, one at a time: nothing waits for it.
"""

import logging
import math
import threading
from collections.abc import Sequence
from http import HTTPStatus
from uuid import uuid4

from standfast.errors import StandfastError
from standfast.model.records import Change, Kind, Record
from standfast.model.validation import http_url
from standfast.observe.alerts.channel import DeadMan
from standfast.observe.http_client import NoAnswerError, send_request
from standfast.stores.contract import Store
from standfast.stores.verb import Verbs, arun_procedure, procedure
from standfast.worker.storecalls import StoreCalls

log = logging.getLogger(__name__)

AGAIN = 15.0  # seconds after which a ping that failed is tried again, if the next one is not due before
_NAME = "ping"  # the record beside the board


@procedure
def write_ping(verbs: Store) -> Verbs[None]:
    """Write down that a ping is due. Where somebody else is faster, the store takes writes as well."""
    records: Sequence[Record] = yield verbs.records(Kind.BOARD, (_NAME,))
    version, token = next(((each.version, each.token) for each in records), (0, None))
    yield verbs.change_records([Change(Kind.BOARD, _NAME, version, str(uuid4()), b"{}", after=token)])


class DeadManSwitch:
    """The pings of one process."""

    def __init__(self, dead_man: DeadMan) -> None:
        self._dead_man = dead_man
        self._url = http_url(dead_man.url, "the url of the dead man's switch", "")
        self._due_at = -math.inf
        self._pinging: threading.Thread | None = None
        self._is_failing = False

    def is_due(self, boot: float) -> bool:
        """Tell whether it is time for a ping, by a clock that nobody can set."""
        return boot >= self._due_at and not (self._pinging is not None and self._pinging.is_alive())

    def tick(self, boot: float) -> None:
        """Ping, if it is time."""
        if self.is_due(boot):
            self._due_at = boot + self._dead_man.every
            self._pinging = threading.Thread(
                target=self._ping, args=(boot,), name="standfast-dead-man", daemon=True
            )
            self._pinging.start()

    def _ping(self, boot: float) -> None:
        """Ping; log when that begins to fail, and when it is over, without the URL: it is a secret."""
        try:
            answer = send_request(self._url, self._dead_man.timeout, headers={"User-Agent": "standfast-dead-man"})
            why = None if answer.status < HTTPStatus.MULTIPLE_CHOICES else f"it answered {answer.says}"
        except NoAnswerError as error:
            why = str(error)
        if why is not None:
            self._due_at = boot + min(self._dead_man.every, AGAIN)
            if not self._is_failing:
                log.warning("the dead man's switch cannot be reached, which is tried again: %s", why)
        elif self._is_failing:
            log.info("the dead man's switch is reached again")
        self._is_failing = why is not None


class Pinger:
    """Pings, if there is anybody to ping."""

    def __init__(self, calls: StoreCalls) -> None:
        self._calls = calls
        self._switch: DeadManSwitch | None = None
        self.due_at = math.inf  # when the next ping is due, by the boot clock

    def learn(self, dead_man: DeadMan | None) -> None:
        """Hear who is to be pinged."""
        self._switch = None if dead_man is None else DeadManSwitch(dead_man)

    def heed(self, boot: float) -> None:
        """Hear that a beat was answered, and that all is well as far as is known: ping if it is time."""
        if self._switch is not None and self._switch.is_due(boot):
            self.due_at = boot

    async def ping(self, boot: float) -> None:
        """Ping, if the store takes writes where jobs are. Beats may be written elsewhere."""
        self.due_at = math.inf
        try:
            await arun_procedure(self._calls.once, write_ping(self._calls.verbs))
        except StandfastError as error:
            log.debug("the dead man's switch is left alone, as nothing can be written: %s", error)
            return
        if self._switch is not None:
            self._switch.tick(boot)
