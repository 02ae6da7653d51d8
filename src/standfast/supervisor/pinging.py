"""The dead man's switch, as one supervisor sees to it: pinged after beats, while the store takes writes."""

import logging
import math

from standfast.alerts.channel import DeadMan
from standfast.alerts.deadman import DeadManSwitch, write_ping
from standfast.errors import StandfastError
from standfast.store.errand import arun_errand
from standfast.worker.storecalls import StoreCalls

log = logging.getLogger(__name__)


class Pinger:
    """Pings, if there is anybody to ping."""

    def __init__(self, calls: StoreCalls) -> None:
        self._calls = calls
        self._switch: DeadManSwitch | None = None
        self.due_at = math.inf
        """When the next ping is due, by the boot clock."""

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
            await arun_errand(self._calls.once, write_ping(self._calls.verbs))
        except StandfastError as error:
            log.debug("the dead man's switch is left alone, as nothing can be written: %s", error)
            return
        if self._switch is not None:
            self._switch.tick(boot)
