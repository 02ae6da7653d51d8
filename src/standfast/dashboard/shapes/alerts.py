"""Alerts, silences, rules, and who is told."""

from datetime import datetime
from typing import Annotated

import msgspec

from standfast.core.alert import AlertState, Check, Held, NoticeKind, Severity
from standfast.core.states import State
from standfast.dashboard.shapes.words import Asks, End, Limit, Named, Text, Told, Word

Least = Annotated[float, msgspec.Meta(ge=0, le=1e9)]
"""A number that is not below nothing."""

Amount = Least | Annotated[str, msgspec.Meta(max_length=64, pattern=r"^[^\x00]*$", examples=["10m", "80%"])]
"""Likewise, or a text as commands take it: 10m, 80%."""

AtLeast = Annotated[int, msgspec.Meta(ge=1, le=10**9)]
"""How many there must be."""

Channels = Annotated[tuple[Word, ...], msgspec.Meta(max_length=100)]
"""Names of channels."""


class ExampleSeen(Told, frozen=True, kw_only=True):
    """One of those that an alert is about: a job, a worker, an incident, a schedule."""

    kind: str
    id: str
    says: str


class AlertRow(Told, frozen=True, kw_only=True):
    """An alert: a rule that a subject breaks. `value` is what was measured last, `count` how many are concerned.

    `untold`: it fires and people have yet to hear of it, or of what is new about it; `held` is why, and until when,
    as the last look found.
    """

    id: str
    rule: str
    check: Check
    subject: str
    severity: Severity
    state: AlertState
    says: str
    since: datetime
    value: float | None
    count: int
    examples: tuple[ExampleSeen, ...]
    fired_at: datetime | None
    told_at: datetime | None
    resolved_at: datetime | None
    acknowledged_at: datetime | None
    acknowledged_by: str | None
    silenced: bool
    untold: bool
    held: Held | None
    held_until: datetime | None


class SilenceSeen(Told, frozen=True, kw_only=True):
    """Of what nobody is told until when."""

    id: str
    rule: str | None
    subject: str | None
    until: datetime
    why: str
    by: str


class AlertsSeen(Told, frozen=True, kw_only=True):
    """What is wrong now, the worst first, what is silenced, and the names of channels by which people are told.

    `living`: whether a worker lives; `watched`: whether rules were told lately, too, so that somebody looks; else
    this is as the last look left it.
    """

    now: datetime
    living: bool
    watched: bool
    alerts: tuple[AlertRow, ...]
    silences: tuple[SilenceSeen, ...]
    channels: tuple[str, ...]


class HistoryAsked(Asks, frozen=True, kw_only=True):
    """Which notices: `before` is the `next` of the answer before."""

    before: Word | None = None
    limit: Limit = 25


class UndeliveredSeen(Told, frozen=True, kw_only=True):
    """A delivery that has not arrived: through which channel, the job that is to bring it; `final`: it failed."""

    channel: str
    job: str
    state: State
    final: bool


class NoticeRow(Told, frozen=True, kw_only=True):
    """What people were told at once; `more` is how many subjects are concerned beside those of its alerts.

    `undelivered`: through which channels it has not arrived.
    """

    id: str
    kind: NoticeKind
    at: datetime
    rule: str
    severity: Severity
    title: str
    alerts: tuple[AlertRow, ...]
    more: int
    undelivered: tuple[UndeliveredSeen, ...]


class HistorySeen(Told, frozen=True, kw_only=True):
    """What people were told, the newest first."""

    now: datetime
    rows: tuple[NoticeRow, ...]
    next: str | None


class RuleSeen(Told, frozen=True, kw_only=True):
    """A rule as it counts. Spans are seconds; `unit` is that of `above`; `changed`: at run time, by a person.

    `added`: at run time, too, so that no app declares it and it can be removed.
    `looks_back`: whether `over` means anything to it; `needs_enough`: whether `at_least` does.
    """

    name: str
    check: Check
    above: float | None
    unit: str
    over: float
    at_least: int
    queue: str | None
    task: str | None
    schedule: str | None
    hold: float
    severity: Severity
    channels: tuple[str, ...] | None
    cool_down: float
    repeat: float | None
    enabled: bool
    looks_back: bool
    needs_enough: bool
    changed: bool
    added: bool


class RulesSeen(Told, frozen=True, kw_only=True):
    """All rules, by name. Where nobody watches there are none."""

    now: datetime
    rules: tuple[RuleSeen, ...]


class SilenceAsked(Asks, frozen=True, kw_only=True):
    """What is to be silent: a rule, a subject, or both; and until when, at most 30 days."""

    until: End
    rule: Word | None = None
    subject: Word | None = None
    why: Text = ""


class RuleSaid(Named, frozen=True, kw_only=True):
    """What can be said of a rule while the fleet runs. Spans are seconds, or texts such as 10m."""

    above: Amount | None = None
    over: Amount | None = None
    at_least: AtLeast | None = None
    hold: Amount | None = None
    severity: Severity | None = None
    channels: Channels | None = None
    cool_down: Amount | None = None
    repeat: Amount | None = None


class RuleChangeAsked(RuleSaid, frozen=True, kw_only=True):
    """What is to be different about a rule; the rest stays as it is. Spans are seconds, or texts such as 10m.

    `repeat` may be `never`; `every_channel`: all channels are told again.
    """

    every_channel: bool = False


class RuleAddAsked(RuleSaid, frozen=True, kw_only=True):
    """A rule that no app declares: what it looks at, and what is said of it; the rest is as by default.

    Spans are seconds, or texts such as 10m; `repeat` may be `never`.
    """

    check: Check
    queue: Word | None = None
    task: Word | None = None
    schedule: Word | None = None


class AlertDone(Told, frozen=True, kw_only=True):
    """An alert, and who looks after it; null: nobody."""

    id: str
    acknowledged_by: str | None


class SilenceDone(Told, frozen=True, kw_only=True):
    """The silence that was begun or ended."""

    id: str
    until: datetime


class RuleDone(Told, frozen=True, kw_only=True):
    """The rule as it counts now, or as it did until it was removed."""

    name: str
    rule: RuleSeen


class ChannelDone(Told, frozen=True, kw_only=True):
    """The test that a worker will send, and the job that does."""

    name: str
    notice: str
    job: str
