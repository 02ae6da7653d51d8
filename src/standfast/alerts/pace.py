"""When one of a fleet looks for trouble, as its beats tell. It costs an idle fleet little. Pure."""

import math
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta

from standfast.alerts.looks import FIGURED
from standfast.core.alert import AlertRule, Check
from standfast.store.protocol import BeatAnswer

FULL = FIGURED | {Check.WORKER_SILENT, Check.QUEUE_AGE, Check.TASK_UNKNOWN, Check.STORE_SLOW, Check.JOB_TOO_LONG}
"""What every full round looks at."""

SCHEDULES = frozenset({Check.SCHEDULE_MISSED, Check.SCHEDULE_LATE})
"""What is looked at for the most part when there is a reason to."""

SELDOM = frozenset(Check) - FULL - SCHEDULES
"""What is looked at now and then besides."""

EVERY = 30.0
"""Seconds between two full rounds where all is well."""

EVERY_BUSY = 10.0
"""Likewise, while there are alerts: that they are over is to be told soon."""

EVERY_LIVELY = 15.0
"""Likewise, while jobs end: so often workers tell how."""

SOONEST = 5.0
"""Likewise at least, whatever rules say."""

AT_FIRST = 3.0
"""Seconds before the first round of who has come to have the first turn."""

SELDOM_EVERY = 60.0
"""Seconds between two rounds that look further."""

SCHEDULES_EVERY = 300.0
"""Seconds between two looks at schedules without a reason."""

AFTER_FAILURE = 5.0

LATE_EVERY = 30.0
"""Seconds between two looks at schedules that seem late."""

LATE_BEAT = 1.0
"""Seconds that a beat may be late at least, or a quarter of the time between two: then something has kept it from
beating, and maybe others, too."""

CATCHING_UP = 2.0
"""Seconds besides the time between two beats, after which all who live have beaten again."""

NEVER = datetime.max.replace(tzinfo=UTC)


class Pace:
    """When to look, by the boot clock of one process."""

    def __init__(self, lease: float, beat_every: float, look_ahead: float) -> None:
        self._lease = lease
        self._beat_every = beat_every
        self._look_ahead = look_ahead
        self.rules: Sequence[AlertRule] = ()
        """Those that count, as the last round here has found them."""
        self.rank: int | None = None
        """Its place among those that take turns; None without one."""
        self.due_at = math.inf
        """When the next full round is due here."""
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
        """Tell whether some record is due for so long that it may be a schedule that nobody fires.

        It is due `look_ahead` before the time that is planned, as a rule.
        """
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
