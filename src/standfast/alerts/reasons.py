"""Why one of a fleet looks for trouble, and when. Pure.

its turn: a full round now and then (pace.py)
somebody's beat, or a child's sign of life, is overdue ─► a beat at once: it still is ─► a look at the workers
somebody was given up before a rule counted it silent  ─► a look at the workers when that time has come
a process has crashed, a schedule was missed           ─► a look at that, a little later
nobody was here for a while, as its own beats tell     ─► a look at what was fired ahead of a time then
"""

import math
from collections.abc import Iterable, Sequence

from standfast.alerts.pace import AFTER_FAILURE, CATCHING_UP, FULL, Pace
from standfast.alerts.standing import Board
from standfast.core.alert import AlertRule, Check
from standfast.settings import Settings
from standfast.store.protocol import BeatAnswer

FEW = 3
"""So many of the fleet, the first ones, look when somebody is silent: two of them may be gone."""

STEP = 0.7
"""Seconds that the second waits longer than the first, and the third than the second."""

AFTER = 0.3
"""Seconds after somebody's silence has become too long, before a look: it may be about to beat."""

CAUGHT_UP = 3.0
"""Seconds between a beat that tells of a schedule which is due for long, and a look: who comes back catches up."""

CONFIRM_EVERY = 5.0
"""Seconds between two looks because of children of one's own that are silent."""


class Reasons:
    """The reasons of one process to look, by its boot clock."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self.pace = Pace(settings.lease, settings.beat_every, settings.look_ahead)
        self._hints: list[tuple[float, Check]] = []
        self._suspect_at = self._ask_at = self._confirm_at = self._missed_at = math.inf
        self._confirming = False

    def go_by(self, rules: Sequence[AlertRule], boot: float) -> None:
        """Go by these rules from now on: as they are declared, or were changed at run time."""
        if rules != self.pace.rules:
            self.pace.rules = rules
            self._confirm_at = boot

    def hint(self, check: Check, *at: float) -> None:
        """Hear that something may be wrong, and when to look at it."""
        self._hints += [(each, check) for each in at]

    def heed(self, boot: float, answer: BeatAnswer) -> None:
        """Learn from a beat whose turn it is, and who may be silent."""
        if self.pace.beaten(boot, answer) and self.pace.is_first:
            self.hint(Check.SCHEDULE_MISSED, boot + self._settings.beat_every + CATCHING_UP + AFTER)
        self._heed_silence(boot, answer)
        if self.pace.is_first and self.pace.schedules_may_be_late(boot, answer):
            self.hint(Check.SCHEDULE_LATE, boot + CAUGHT_UP)

    def _heed_silence(self, boot: float, answer: BeatAnswer) -> None:
        """Look at the workers if one seems silent for too long; if one may be so soon, plan to beat again then."""
        self._suspect_at = self._ask_at = math.inf
        rank, least = self.pace.rank, self.pace.least_silence
        if self._confirming:
            self._confirming, self._suspect_at = False, boot
        elif rank is not None and rank < FEW and least is not None:
            age = self._settings.lease - answer.next_expiry.total_seconds() if answer.next_expiry else 0.0
            if answer.expired or age >= least:
                self._suspect_at = boot
            else:
                self._ask_at = boot + least - age + AFTER + STEP * rank

    def calls_for_beat(self, boot: float, pulses: Iterable[float]) -> bool:
        """Tell whether to beat at once, so that the store, and all, know: somebody may be silent, or is.

        `pulses` are when the children of this process gave their last signs of life.
        """
        asks = boot >= self._ask_at
        if asks:
            self._ask_at = math.inf
        return self._must_confirm(boot, pulses) or asks

    def _must_confirm(self, boot: float, pulses: Iterable[float]) -> bool:
        least = self.pace.least_silence
        if least is None:
            self._confirm_at = math.inf
        if least is None or boot < self._confirm_at:
            return False
        oldest = min(pulses, default=boot)
        if boot - oldest <= least:
            self._confirm_at = oldest + least + AFTER
            return False
        self._confirm_at = boot + CONFIRM_EVERY
        self._confirming = True
        return True

    @property
    def due_at(self) -> float:
        """When there is one next."""
        hinted = min((at for at, _ in self._hints), default=math.inf)
        return min(self.pace.due_at, self._suspect_at, self._ask_at, self._confirm_at, self._missed_at, hinted)

    def take(self, boot: float) -> frozenset[Check]:
        """Return what is to be looked at now, and take it as done."""
        hinted = frozenset(check for at, check in self._hints if at <= boot)
        self._hints = [(at, check) for at, check in self._hints if at > boot]
        if boot >= min(self._suspect_at, self._missed_at):
            self._suspect_at = self._missed_at = math.inf
            hinted |= {Check.WORKER_SILENT}
        return hinted | self.pace.take_round(boot)

    def went(self, boot: float, wanted: frozenset[Check], board: Board, silence: float, *, lively: bool) -> None:
        """Plan what follows from a round: `silence` is in how many seconds somebody breaks a rule by it."""
        wait = min(silence, self.pace.sure_in(boot))
        self._missed_at = min(self._missed_at, boot + wait + AFTER)
        if wanted >= FULL:
            self.pace.went(boot, busy=bool(board.alerts), lively=lively)
        elif board.alerts:
            self.pace.trouble(boot)

    def failed(self, boot: float, wanted: frozenset[Check]) -> None:
        """Plan another look at the same, and at queues: what was told may have been written, and wait there."""
        for check in wanted | {Check.QUEUE_AGE}:
            self.hint(check, boot + AFTER_FAILURE)
        self.pace.failed(boot)
