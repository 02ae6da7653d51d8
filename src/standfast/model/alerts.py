"""Rules, alerts, silences and notices, as they are written down and passed on. Pure.

    a rule is broken ─► pending ─(for `hold`)─► firing ─► resolved
                           └─► forgotten, nobody told

A rule is broken by a *subject*: a queue, a task, a worker, a schedule. Each (rule, subject) has one alert at a
time, and each firing of it is an episode of its own.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from enum import StrEnum
from itertools import product
from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec
from msgspec.structs import force_setattr

from standfast.model.suggestions import DeclaredStruct

Aware = Annotated[datetime, msgspec.Meta(tz=True)]


class Check(StrEnum):
    """What a rule looks at. `above` of the rule is said in brackets."""

    WORKER_SILENT = "worker_silent"
    """A worker, or its event loop, gives no sign of life [seconds]."""
    QUEUE_AGE = "queue_age"
    """The oldest due job of a queue waits [seconds]; paused queues are left out."""
    TASK_UNKNOWN = "task_unknown"
    """Jobs wait whose task no running worker knows, as that of a misspelt name [seconds]."""
    START_LAG = "start_lag"
    """Jobs start late: the 95th percentile of `over` [seconds]."""
    FAILURE_RATE = "failure_rate"
    """Attempts fail: their share in `over` [0 to 1], of `at_least` so many."""
    DEAD_LETTERS = "dead_letters"
    """Jobs die: how many within `over` [a number]."""
    DEAD_BACKLOG = "dead_backlog"
    """Many jobs are dead [a number]; without a number 10,000, or 80 % of `keep_dead`. Or some will soon go."""
    SCHEDULE_MISSED = "schedule_missed"
    """Nobody was there when a schedule was to fire: how many times within `over` [a number]."""
    SCHEDULE_LATE = "schedule_late"
    """A schedule is due and nobody has fired it [seconds]."""
    JOB_TOO_LONG = "job_too_long"
    """A job runs [seconds]; without a number longer than its timeout, or an hour where its task has none."""
    BUDGET_BURN = "budget_burn"
    """The error budget of an objective is spent so many times too fast [a factor], in a slow and a fast window."""
    INCIDENT = "incident"
    """Something went wrong with a process: how many times within `over` [a number]."""
    STORE_SLOW = "store_slow"
    """The store takes long to answer [seconds], as the median of the last looks."""
    KEEP_ALIVE = "keep_alive"
    """A host that is kept alive does not answer: how many times within `over` [a number]."""
    NOT_DURABLE = "not_durable"
    """The store's settings break a promise: a Redis that does not write to disk in time."""
    DISK_FULL = "disk_full"
    """The disk of a sqlite database, or of incidents, is full [the share in use, 0 to 1]."""


class Severity(StrEnum):
    """How bad it is."""

    WARNING = "warning"
    CRITICAL = "critical"


class AlertRule(DeclaredStruct, frozen=True, kw_only=True):
    """When people are told, and how often. Spans are seconds, or timedeltas.

    name: by which it is silenced and switched off; check: what it looks at; above: beyond which value it is broken;
    over: how far back it looks; at_least: how many there must be for a share to mean something; queue, task and
    schedule: which it is about (None: each of them); hold: for how long it must be broken before it fires;
    severity; channels: who is told (None: all); cool_down: in this time a subject is told to fire once at most, and
    to be resolved once, whatever it does; repeat: after which time a firing one is told again (None: never);
    enabled: whether it counts.
    """

    name: str
    check: Check
    above: float | None = None
    over: float = 300.0
    at_least: int = 1
    queue: str | None = None
    task: str | None = None
    schedule: str | None = None
    hold: float = 0.0
    severity: Severity = Severity.WARNING
    channels: tuple[str, ...] | None = None
    cool_down: float = 300.0
    repeat: float | None = 4 * 3600.0
    enabled: bool = True

    if TYPE_CHECKING:

        def __init__(
            self,
            *,
            name: str,
            check: Check,
            above: timedelta | float | None = None,
            over: timedelta | float = ...,
            at_least: int = 1,
            queue: str | None = None,
            task: str | None = None,
            schedule: str | None = None,
            hold: timedelta | float = ...,
            severity: Severity | Literal["warning", "critical"] = ...,
            channels: Sequence[str] | None = None,
            cool_down: timedelta | float = ...,
            repeat: timedelta | float | None = ...,
            enabled: bool = True,
        ) -> None: ...

    def __post_init__(self) -> None:
        for name in ("above", "over", "hold", "cool_down", "repeat"):
            given: Any = getattr(self, name)
            if isinstance(given, timedelta):
                force_setattr(self, name, given.total_seconds())
        words: tuple[tuple[str, type[StrEnum]], ...] = (("check", Check), ("severity", Severity))
        for name, kind in words:
            word: Any = getattr(self, name)
            if isinstance(word, str) and word in set(kind):
                force_setattr(self, name, kind(word))
        if isinstance(self.channels, list):
            force_setattr(self, "channels", tuple(self.channels))


class AlertState(StrEnum):
    """How far an alert is."""

    PENDING = "pending"
    FIRING = "firing"
    RESOLVED = "resolved"


class Held(StrEnum):
    """What keeps people from being told of an alert."""

    SILENCE = "silence"
    QUIET_HOURS = "quiet hours"
    COOL_DOWN = "cool-down"


class Example(msgspec.Struct, frozen=True, omit_defaults=True):
    """One of those that an alert is about: its `kind` (job, worker, incident, schedule), its id, and a line."""

    kind: str
    id: str
    says: str = ""


class Alert(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One episode of a rule that a subject breaks.

    `says` is one line for people; `value` what was measured last; `count` how many are concerned. Times are the
    store's: since when it was broken, fired, was last told of, and resolved. `happened` is how many incidents there
    are, `known` how many of them people have heard of, or had when they acknowledged it. `held` is what keeps
    people from being told of it, as the last round found, and `held_until` for how long; `told_as`: how bad people
    were told that it is.
    """

    id: str
    rule: str
    check: Check
    subject: str
    severity: Severity
    state: AlertState
    says: str
    since: Aware
    value: float | None = None
    count: int = 1
    examples: tuple[Example, ...] = ()
    fired_at: Aware | None = None
    told_at: Aware | None = None
    resolved_at: Aware | None = None
    acknowledged_at: Aware | None = None
    acknowledged_by: str | None = None
    silenced: bool = False
    happened: int = 0
    known: int = 0
    held: Held | None = None
    held_until: Aware | None = None
    told_as: Severity | None = None

    @property
    def is_worse(self) -> bool:
        """Whether it is critical by now, and people were told that it is not."""
        return self.severity is Severity.CRITICAL and self.told_as is Severity.WARNING

    @property
    def news(self) -> int:
        """How many incidents people know nothing of."""
        return max(self.happened - self.known, 0)

    @property
    def untold(self) -> bool:
        """Whether it fires, and people have yet to hear of it or of what is new about it."""
        looked_after = self.silenced or self.acknowledged_at is not None
        is_news = self.told_at is None or self.news > 0 or self.is_worse
        return self.state is AlertState.FIRING and not looked_after and is_news


class Silence(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Until its end nobody is told of what it covers: of a rule, a subject, or both. It always has an end."""

    id: str
    until: Aware
    rule: str | None = None
    subject: str | None = None
    why: str = ""
    by: str = ""


class Silenced:
    """Tells whether nobody is told of an alert because of silences, however many they are."""

    def __init__(self, silences: Iterable[Silence]) -> None:
        self._ends: dict[tuple[str | None, str | None], datetime] = {}
        for each in silences:
            covered = each.rule, each.subject
            self._ends[covered] = max(each.until, self._ends.get(covered, each.until))

    def __contains__(self, alert: Alert) -> bool:
        return self.until(alert) is not None

    def until(self, alert: Alert) -> datetime | None:
        """Return until when nobody is told of an alert; None if nothing covers it."""
        pairs = product((None, alert.rule), (None, alert.subject))
        return max((self._ends[each] for each in pairs if each in self._ends), default=None)


class NoticeKind(StrEnum):
    """What a notice says."""

    FIRING = "firing"
    REPEATED = "repeated"
    RESOLVED = "resolved"
    TEST = "test"
    REPORT = "report"
    """No alert: what happened in a span of time, as its `text` says."""


class Notice(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What people are told at once: alerts of one rule that changed together. Its id is the same on every channel.

    `more` is how many subjects are concerned beside those that are named; `labels` are for templates: app,
    namespace. `text` is said as it is, in lines: a report. `html` is the same for mails, a part of a page.
    """

    id: str
    kind: NoticeKind
    at: Aware
    rule: str
    severity: Severity
    title: str
    alerts: tuple[Alert, ...] = ()
    more: int = 0
    labels: Mapping[str, str] = {}
    text: str = ""
    html: str = ""


class Objective(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Of the jobs of a task or a queue, the share `target` starts within `start_within` seconds, or succeeds.

    With `start_within` it is about starts; without, about success. `over` is how many days count. It is published:
    fields that a later release adds have defaults.
    """

    name: str
    target: float
    task: str | None = None
    queue: str | None = None
    start_within: float | None = None
    over: int = 28
