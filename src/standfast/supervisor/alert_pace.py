"""Why one of a fleet looks for trouble, and when. It costs an idle fleet little. Pure.

its turn: a full round now and then
somebody's beat, or a child's sign of life, is overdue ─► a beat at once: it still is ─► a look at the workers
somebody was given up before a rule counted it silent  ─► a look at the workers when that time has come
a process has crashed, a schedule was missed           ─► a look at that, a little later
nobody was here for a while, as its own beats tell     ─► a look at what was fired ahead of a time then
"""

import math
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta

from standfast.model.alerts import AlertRule, Check
from standfast.model.configuration import Settings
from standfast.observe.alerts.board import Board
from standfast.observe.alerts.observations import FIGURED
from standfast.stores.values import BeatAnswer

FULL = FIGURED | {Check.WORKER_SILENT, Check.QUEUE_AGE, Check.TASK_UNKNOWN, Check.STORE_SLOW, Check.JOB_TOO_LONG}
"""What every full round looks at."""

SCHEDULES = frozenset({Check.SCHEDULE_MISSED, Check.SCHEDULE_LATE})
"""What is looked at for the most part when there is a reason to."""

SELDOM = frozenset(Check) - FULL - SCHEDULES  # what is looked at now and then besides
EVERY = 30.0  # seconds between two full rounds where all is well
EVERY_BUSY = 10.0  # likewise, while there are alerts: that they are over is to be told soon
EVERY_LIVELY = 15.0  # likewise, while jobs end: so often workers tell how
SOONEST = 5.0  # likewise at least, whatever rules say
AT_FIRST = 3.0  # seconds before the first round of who has come to have the first turn
SELDOM_EVERY = 60.0  # seconds between two rounds that look further
SCHEDULES_EVERY = 300.0  # seconds between two looks at schedules without a reason
AFTER_FAILURE = 5.0

LATE_EVERY = 30.0  # seconds between two looks at schedules that seem late
LATE_BEAT = 1.0
"""Seconds that a beat may be late at least, or a quarter of the time between two: then something has kept it from
beating, and maybe others, too."""

CATCHING_UP = 2.0  # seconds besides the time between two beats, after which all who live have beaten again
FEW = 3  # so many of the fleet, the first ones, look when somebody is silent: two of them may be gone
STEP = 0.7  # seconds that the second waits longer than the first, and the third than the second
AFTER = 0.3  # seconds after somebody's silence has become too long, before a look: it may be about to beat
CAUGHT_UP = 3.0
"""Seconds between a beat that tells of a schedule which is due for long, and a look: who comes back catches up."""

CONFIRM_EVERY = 5.0  # seconds between two looks because of children of one's own that are silent

NEVER = datetime.max.replace(tzinfo=UTC)


class Pace:
    """When to look, by the boot clock of one process."""

    def __init__(self, lease: float, beat_every: float, look_ahead: float) -> None:
        self._lease = lease
        self._beat_every = beat_every
        self._look_ahead = look_ahead
        self.rules: Sequence[AlertRule] = ()  # those that count, as the last round here has found them
        self.rank: int | None = None  # its place among those that take turns; None without one
        self.due_at = math.inf  # when the next full round is due here
        self.away_since: datetime | None = None
        """Since when, by the store's time, it had not been here before it was last here again; None at first."""
        self._here_since = NEVER
        self._sure_at = self._seldom_at = self._schedules_at = self._late_at = -math.inf
        self._last: tuple[float, datetime] | None = None

    @property
    def is_first(self) -> bool:
        """Whether it has the first turn."""
        return self.rank == 0

    def beaten(self, boot: float, answer: BeatAnswer) -> bool:
        """Hear of an answered beat: whose turn it is. Tell whether there was a gap before it."""
        was_away = False
        if self._last is None:
            self._here_since = answer.now
        elif self._is_gap(boot - self._last[0], answer.now - self._last[1]):
            was_away, self.away_since, self._here_since = True, self._last[1], answer.now
        if self._is_out_of_touch(boot):
            self._sure_at = boot + self._beat_every + CATCHING_UP
        self._last = boot, answer.now
        was_first = self.is_first
        self.rank = min((turn.rank for turn in answer.turns.values()), default=None)
        if not self.is_first:
            self.due_at = math.inf
        elif not was_first:
            self.due_at = boot + AT_FIRST
            self._seldom_at = self._schedules_at = -math.inf
        return was_away

    def watched_since(self, boot: float) -> datetime:
        """Return since when, by the store's time, it has been here without a gap, and can tell who is silent.

        Never, as long as its own beats are late, and for a while after: the store was away, or the machine slept,
        and who lives may be about to beat.
        """
        return NEVER if boot < self._sure_at or self._is_out_of_touch(boot) else self._here_since

    def sure_in(self, boot: float) -> float:
        """Return after how many seconds it may be able to tell who is silent, if it cannot now; else never."""
        if self._is_out_of_touch(boot):
            return self._beat_every + CATCHING_UP
        return self._sure_at - boot if boot < self._sure_at else math.inf

    def _is_out_of_touch(self, boot: float) -> bool:
        late = max(LATE_BEAT, self._beat_every / 4)
        return self._last is not None and boot - self._last[0] > self._beat_every + late

    def _is_gap(self, by_boot: float, by_store: timedelta) -> bool:
        return by_boot > self._lease or abs(by_store.total_seconds() - by_boot) > self._lease / 3

    def take_round(self, boot: float) -> frozenset[Check]:
        """Return what a round that is due now looks at; nothing where none is.

        Whoever was not here for a while leaves schedules to a later round: they are about to be caught up.
        """
        if boot < self.due_at:
            return frozenset()
        wanted = FULL
        if boot >= self._seldom_at:
            self._seldom_at = boot + SELDOM_EVERY - 1.0
            wanted |= SELDOM
        if boot >= self._schedules_at and self.watched_since(boot) != NEVER:
            self._schedules_at = boot + SCHEDULES_EVERY - 1.0
            wanted |= SCHEDULES
        return wanted

    @property
    def least_silence(self) -> float | None:
        """After how many seconds of silence some rule may be broken; None where no rule is about that."""
        least = min((rule.above or 0.0 for rule in _of(self.rules, Check.WORKER_SILENT)), default=None)
        return None if least is None else max(least, self._lease / 2)

    def schedules_may_be_late(self, boot: float, answer: BeatAnswer) -> bool:
        """Tell whether a record is due for so long that it may be a schedule that nobody fires."""
        least = min((rule.above or 0.0 for rule in _of(self.rules, Check.SCHEDULE_LATE)), default=None)
        if least is None or answer.record_due_at is None or boot < self._late_at:
            return False
        if (answer.now - answer.record_due_at).total_seconds() <= least + self._look_ahead:
            return False
        self._late_at = boot + LATE_EVERY
        return True

    def went(self, boot: float, *, busy: bool, lively: bool = False) -> None:
        """Plan the next full round. `busy`: there are alerts; `lively`: jobs end."""
        if self.is_first:
            shortest = min((rule.above or 0.0 for rule in _of(self.rules, Check.QUEUE_AGE)), default=math.inf)
            usual = EVERY_BUSY if busy else EVERY_LIVELY if lively else EVERY
            every = min(usual, max(shortest / 4, SOONEST))
            self.due_at = boot + every

    def trouble(self, boot: float) -> None:
        """Hear that a look which was no full round has found alerts: the next full round comes sooner."""
        if self.is_first:
            self.due_at = min(self.due_at, boot + EVERY_BUSY)

    def failed(self, boot: float) -> None:
        """Plan another try."""
        self._seldom_at = self._schedules_at = -math.inf
        self.due_at = boot + AFTER_FAILURE if self.is_first else math.inf


def _of(rules: Iterable[AlertRule], check: Check) -> list[AlertRule]:
    return [rule for rule in rules if rule.check is check and rule.enabled]


class RoundTriggers:
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
        """Tell whether to beat at once: somebody may be silent. `pulses`: last signs of life of its children."""
        asks = boot >= self._ask_at
        self._ask_at = math.inf if asks else self._ask_at
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
        self._confirm_at, self._confirming = boot + CONFIRM_EVERY, True
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
