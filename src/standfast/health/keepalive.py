"""Keeping hosts alive: each is pinged now and again, what changes is told, and too many failures in a row end it.

unknown ─► up ◄─► down ─(so many failures in a row)─► given up
"""

import queue
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from standfast.health.ping import Pinged, Target

MOST_KEPT = 20
"""Failures of which the words are kept, as evidence."""

_LEEWAY = 1.0
"""Seconds that a ping may take longer than its timeout: to look up a name has a limit of its own."""


class Change(StrEnum):
    """What may be told of a host."""

    UP = "up"
    """It answers, and is heard of for the first time."""
    DOWN = "down"
    """It does not."""
    BACK = "back"
    """It answers again."""
    GIVEN_UP = "given_up"
    """It has not answered so many times in a row."""


@dataclass(slots=True)
class Kept:
    """A host that is kept alive: how often in a row it failed, and the words of the last failures."""

    target: Target
    is_up: bool | None = None
    failures: int = 0
    reasons: list[str] = field(default_factory=list)

    def take(self, pinged: Pinged, fail_after: int) -> Change | None:
        """Note what became of a ping; return what there is to tell."""
        was_up, self.is_up = self.is_up, pinged.ok
        if pinged.ok:
            self.failures = 0
            self.reasons.clear()
            return None if was_up else Change.UP if was_up is None else Change.BACK
        self.failures += 1
        self.reasons = [*self.reasons, pinged.says][-MOST_KEPT:]
        if self.failures >= fail_after:
            return Change.GIVEN_UP
        return Change.DOWN if self.failures == 1 else None


Tell = Callable[[Kept, Change, Pinged], None]


class KeepAlive:
    """Pings hosts, all at once, until it is told to stop or one of them is given up."""

    def __init__(
        self, targets: Sequence[Target], ping: Callable[[Target], Pinged], *, fail_after: int, longest: float
    ) -> None:
        self.kept = [Kept(target) for target in targets]
        self._ping = ping
        self._fail_after = fail_after
        self._longest = longest + _LEEWAY
        self._answers: dict[int, queue.SimpleQueue[Pinged]] = {}

    def round(self, tell: Tell) -> bool:
        """Ping each once; tell what has changed, and return whether all may go on."""
        for number, kept in enumerate(self.kept):
            if number not in self._answers:
                self._answers[number] = queue.SimpleQueue()
                threading.Thread(target=self._go, args=(kept.target, self._answers[number]), daemon=True).start()
        ends_at = time.monotonic() + self._longest
        changes = [self._taken(number, kept, ends_at, tell) for number, kept in enumerate(self.kept)]
        return Change.GIVEN_UP not in changes

    def _go(self, target: Target, answer: "queue.SimpleQueue[Pinged]") -> None:
        try:
            answer.put(self._ping(target))
        except Exception as error:  # noqa: BLE001 - whatever it is, the one who waits is to be told
            answer.put(Pinged(ok=False, says=f"internal error: {type(error).__name__}"))

    def _taken(self, number: int, kept: Kept, ends_at: float, tell: Tell) -> Change | None:
        """Wait for one ping; one that hangs is a failure, and is not begun again before it has ended."""
        try:
            pinged = self._answers[number].get(timeout=max(0.0, ends_at - time.monotonic()))
            del self._answers[number]
        except queue.Empty:
            pinged = Pinged(ok=False, says=f"no end after {self._longest:g} s", took=self._longest)
        change = kept.take(pinged, self._fail_after)
        if change is not None:
            tell(kept, change, pinged)
        return change
