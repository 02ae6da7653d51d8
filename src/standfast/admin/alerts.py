"""Alerts, silences, rules, and who is told."""

from collections.abc import Callable, Collection, Iterable
from datetime import datetime
from typing import Annotated, Any

import msgspec
from msgspec.structs import replace

from standfast.admin.executor import SELDOM, OperationContext, all_workers, board, store_now
from standfast.admin.fields import (
    AnswerStruct,
    End,
    Limit,
    Named,
    NothingAsked,
    RequestStruct,
    Text,
    WithId,
    Word,
    coming,
    is_bare_number,
)
from standfast.admin.operation import NotThereError, Role, WrongRequestError, acts, reads
from standfast.errors import ConfigurationError
from standfast.model.alerts import (
    Alert,
    AlertRule,
    AlertState,
    Check,
    Held,
    Notice,
    NoticeKind,
    Severity,
    Silence,
    Silenced,
)
from standfast.model.phrases import Phrase, listed, phrase_in
from standfast.model.states import FINAL, State
from standfast.model.suggestions import closest_name
from standfast.model.validation import read_span
from standfast.observe.alerts.alert_rules import DEFAULT_RULES, NEEDS, Unit, check_rule, read_amount
from standfast.observe.alerts.board import AMENDED, Board
from standfast.observe.alerts.board_changes import (
    KEPT,
    acknowledge,
    add_rule,
    add_silence,
    alert_history,
    amend_rule,
    counting_rules,
    end_silence,
    read_board,
    remove_rule,
    unacknowledge,
)
from standfast.observe.alerts.delivery import Undelivered, order_delivery, trial_notice, undelivered
from standfast.stores.contract import ask_time

Least = Annotated[float, msgspec.Meta(ge=0, le=1e9)]
"""A number that is not below nothing."""

Amount = Least | Annotated[str, msgspec.Meta(max_length=64, pattern=r"^[^\x00]*$", examples=["10m", "80%"])]
"""Likewise, or a text as commands take it: 10m, 80%."""

AtLeast = Annotated[int, msgspec.Meta(ge=1, le=10**9)]
"""How many there must be."""

Channels = Annotated[tuple[Word, ...], msgspec.Meta(max_length=100)]
"""Names of channels."""


class ExampleSeen(AnswerStruct, frozen=True, kw_only=True):
    """One of those that an alert is about: a job, a worker, an incident, a schedule."""

    kind: str
    id: str
    says: str


class AlertRow(AnswerStruct, frozen=True, kw_only=True):
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


class SilenceSeen(AnswerStruct, frozen=True, kw_only=True):
    """Of what nobody is told until when."""

    id: str
    rule: str | None
    subject: str | None
    until: datetime
    why: str
    by: str


class AlertsAsked(RequestStruct, frozen=True, kw_only=True):
    """Which alerts: those that fire or are pending; `all_states`: also those that are resolved and not told yet."""

    all_states: bool = False


class AlertsSeen(AnswerStruct, frozen=True, kw_only=True):
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


class HistoryAsked(RequestStruct, frozen=True, kw_only=True):
    """Which notices: `before` is the `next` of the answer before."""

    before: Word | None = None
    limit: Limit = 25


class UndeliveredSeen(AnswerStruct, frozen=True, kw_only=True):
    """A delivery that has not arrived: through which channel, the job that is to bring it; `final`: it failed."""

    channel: str
    job: str
    state: State
    final: bool


class NoticeRow(AnswerStruct, frozen=True, kw_only=True):
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


class HistorySeen(AnswerStruct, frozen=True, kw_only=True):
    """What people were told, the newest first."""

    now: datetime
    rows: tuple[NoticeRow, ...]
    next: str | None


class RuleSeen(AnswerStruct, frozen=True, kw_only=True):
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


class RulesSeen(AnswerStruct, frozen=True, kw_only=True):
    """All rules, by name. Where nobody watches there are none."""

    now: datetime
    rules: tuple[RuleSeen, ...]


class SilenceAsked(RequestStruct, frozen=True, kw_only=True):
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

    `repeat` may be `never`; `every_channel`: all channels are told again; `enabled`: whether it counts.
    What changes nothing is refused, unless it may be the `same`.
    """

    every_channel: bool = False
    enabled: bool | None = None
    same: bool = False


class RuleAddAsked(RuleSaid, frozen=True, kw_only=True):
    """A rule that no app declares: what it looks at, and what is said of it; the rest is as by default.

    Spans are seconds, or texts such as 10m; `repeat` may be `never`.
    """

    check: Check
    queue: Word | None = None
    task: Word | None = None
    schedule: Word | None = None


class ChannelDone(AnswerStruct, frozen=True, kw_only=True):
    """The test that a worker will send, and the job that does."""

    name: str
    notice: str
    job: str


# The rules of alerts, as apps declare them and as people have changed them since.


@reads("rules.list", "/rules")
async def list_rules(desk: OperationContext, asked: NothingAsked) -> RulesSeen:  # noqa: ARG001 - there is nothing to ask
    """List the rules of alerts as they count now, by name."""
    seen = await board(desk)
    changed, added = seen.changed, seen.additions
    rules = tuple(
        rule_seen(rule, changed=rule.name in changed, added=rule.name in added) for rule in counting_rules(seen)
    )
    return RulesSeen(now=await store_now(desk), rules=rules)


def rule_seen(rule: AlertRule, *, changed: bool, added: bool) -> RuleSeen:
    """Return a rule as it is shown."""
    needs = NEEDS[rule.check]
    return RuleSeen(
        **msgspec.structs.asdict(rule),
        unit=needs.unit.name.lower(),
        looks_back=needs.over,
        needs_enough=needs.at_least,
        changed=changed,
        added=added,
    )


def no_rule(name: str, known: Collection[str]) -> NotThereError:
    """Return the refusal of a rule that there is not, with the one that may be meant."""
    meant = closest_name(name, known)
    if meant is None:
        return NotThereError(Phrase("refusal.no_rule", rule=name))
    return NotThereError(Phrase("refusal.no_rule_but", rule=name, meant=meant))


# What is wrong now, and what people were told.


@reads("alerts.list", "/alerts")
async def list_alerts(desk: OperationContext, asked: AlertsAsked) -> AlertsSeen:
    """List what is wrong now, firing and critical first, with what is silenced and who can be told."""
    seen, now = await board(desk), await store_now(desk)
    living = any(worker.is_live and not worker.info.is_courier for worker in await all_workers(desk))
    return AlertsSeen(
        now=now,
        living=living,
        watched=living and seen.is_said(now),
        alerts=alert_rows(worst_first(seen, *(AlertState if asked.all_states else _STANDING))),
        silences=tuple(silence_seen(each) for each in sorted(seen.silences, key=lambda each: each.until)),
        channels=seen.channels,
    )


@reads("alerts.history", "/alerts/history")
async def show_history(desk: OperationContext, asked: HistoryAsked) -> HistorySeen:
    """List what people were told, the newest first, and through which channels it has not arrived."""
    told = await desk.recall("notices", lambda: desk.ask(alert_history(desk.verbs, KEPT)), SELDOM)
    missing = await desk.recall("undelivered", lambda: desk.ask(undelivered(desk.verbs)), SELDOM) if told else {}
    ids = [each.id for each in told]
    start = ids.index(asked.before) + 1 if asked.before in ids else 0
    page = told[start : start + asked.limit]
    return HistorySeen(
        now=await store_now(desk),
        rows=tuple(_notice_row(each, missing.get(each.id, ())) for each in page),
        next=page[-1].id if page and start + asked.limit < len(told) else None,
    )


_STANDING = (AlertState.FIRING, AlertState.PENDING)


def worst_first(seen: Board, *states: AlertState) -> list[Alert]:
    """Return the alerts in these states: by state as named, then critical ones, then the oldest first.

    Each is silenced or not as it is now, which supervisors note at their next look.
    """
    silenced = Silenced(seen.silences)
    found = (replace(each, silenced=each in silenced) for each in seen.in_state(*states))
    return sorted(found, key=lambda each: (states.index(each.state), each.severity is not Severity.CRITICAL))


def alert_rows(alerts: Iterable[Alert]) -> tuple[AlertRow, ...]:
    """Return alerts as they are shown."""
    return tuple(map(_alert_row, alerts))


def _alert_row(alert: Alert) -> AlertRow:
    return msgspec.convert(alert, AlertRow, from_attributes=True)


def silence_seen(silence: Silence) -> SilenceSeen:
    """Return a silence as it is shown."""
    return msgspec.convert(silence, SilenceSeen, from_attributes=True)


def _notice_row(notice: Notice, missing: Iterable[Undelivered]) -> NoticeRow:
    lacking = tuple(
        UndeliveredSeen(channel=each.channel, job=each.job, state=each.state, final=each.state in FINAL)
        for each in missing
    )
    told = msgspec.structs.asdict(notice) | {"alerts": alert_rows(notice.alerts), "undelivered": lacking}
    return NoticeRow(**{name: told[name] for name in NoticeRow.__struct_fields__})


# What can be done about alerts: to look after one, to be told no more for a while, to try a channel.


@acts("alerts.acknowledge", "/alerts/{id}/acknowledge", Role.OPERATOR)
async def acknowledge_alert(desk: OperationContext, asked: WithId) -> AlertRow:
    """Say that somebody looks after an alert: it is not told again while it lasts."""
    alert = await desk.ask(acknowledge(desk.verbs, asked.id, desk.user.name))
    desk.note(after=Phrase("noted.acknowledged", by=alert.acknowledged_by or desk.user.name))
    return _alert_row(alert)


@acts("alerts.unacknowledge", "/alerts/{id}/unacknowledge", Role.OPERATOR)
async def unacknowledge_alert(desk: OperationContext, asked: WithId) -> AlertRow:
    """Take back that somebody looks after an alert: it is told as if nobody did."""
    alert = await desk.ask(unacknowledge(desk.verbs, asked.id))
    desk.note(after=Phrase("noted.unacknowledged"))
    return _alert_row(alert)


@acts("alerts.silence", "/silences", Role.OPERATOR)
async def silence_alerts(desk: OperationContext, asked: SilenceAsked) -> SilenceSeen:
    """Let nobody be told of a rule, of a subject or of both, until an end that is at most 30 days away."""
    if is_bare_number(asked.until):
        raise WrongRequestError(Phrase("refusal.no_unit", field="until", number=asked.until.strip()))
    now = (await desk.ask(ask_time(desk.verbs))).now
    until = coming("until", asked.until, now, days=True)
    if until is None:
        raise WrongRequestError(Phrase("refusal.no_end"))
    if until <= now:
        raise WrongRequestError(Phrase("refusal.past_end"))
    if asked.rule:
        await _refuse_unknown(desk, asked.rule)
    adding = add_silence(
        desk.verbs, asked.rule or None, asked.subject or None, until, why=asked.why, by=desk.user.name
    )
    try:
        silence = await desk.ask(adding)
    except ConfigurationError as error:
        raise WrongRequestError(phrase_in(error)) from None
    desk.note(after=Phrase("noted.silent", until=silence.until.isoformat()))
    return silence_seen(silence)


async def _refuse_unknown(desk: OperationContext, rule: str) -> None:
    """Raise NotThereError for a rule that nobody declares and nothing breaks.

    Before apps have declared theirs, those from the start are known.
    """
    board = await desk.ask(read_board(desk.verbs))
    known = {each.name for each in (*counting_rules(board), *(() if board.declared else DEFAULT_RULES))}
    if rule not in known.union(each.rule for each in board.alerts):
        raise no_rule(rule, known)


@acts("alerts.unsilence", "/silences/{id}/end", Role.OPERATOR)
async def unsilence_alerts(desk: OperationContext, asked: WithId) -> SilenceSeen:
    """End a silence now."""
    silence = await desk.ask(end_silence(desk.verbs, asked.id))
    desk.note(before=Phrase("noted.silent", until=silence.until.isoformat()), after=Phrase("noted.ended"))
    return silence_seen(silence)


@acts("channels.test", "/channels/{name}/test", Role.OPERATOR)
async def test_channel(desk: OperationContext, asked: Named) -> ChannelDone:
    """Have a test sent by a channel, by whichever worker has it, as a job that is tried again like any alert."""
    known = (await desk.ask(read_board(desk.verbs))).channels
    if not known:
        raise NotThereError(Phrase("refusal.no_channels", channel=asked.name))
    if asked.name not in known:
        raise NotThereError(Phrase("refusal.no_channel", channel=asked.name, known=listed(known)))
    now = (await desk.ask(ask_time(desk.verbs))).now
    notice = trial_notice(now)
    [job] = await desk.ask(order_delivery(desk.verbs, notice, (asked.name,)))
    desk.note(after=Phrase("noted.job", job=job))
    return ChannelDone(name=asked.name, notice=notice.id, job=job)


# Rules of alerts that are changed while the fleet runs: for all of it, until they are reset.

_AMOUNTS = ("above", "over", "hold", "cool_down", "repeat")
_NEVER = "never"


@acts("rules.change", "/rules/{name}/change", Role.ADMIN)
async def change_rule(desk: OperationContext, asked: RuleChangeAsked) -> RuleSeen:
    """Change a rule of alerts for all workers from the next look on, until it is reset; the rest stays as it is."""

    def amend(rule: AlertRule) -> AlertRule:
        said = rule_said(asked, rule.check) | ({"channels": None} if asked.every_channel else {})
        changed = _checked(replace(rule, **said), asked)
        if changed == rule and not asked.same:
            raise WrongRequestError(Phrase("refusal.rule_same", rule=rule.name))
        return changed

    return await _amended(desk, asked.name, amend)


def rule_said(asked: RuleSaid, check: Check) -> dict[str, Any]:
    """Return what is said of a rule with this check, by the names of its options. Raises WrongRequestError."""
    said = {name: value for name in AMENDED if (value := getattr(asked, name, None)) is not None}
    texts = {name: said[name].strip() for name in _AMOUNTS if isinstance(said.get(name), str)}
    return said | {name: _read(name, text, check) for name, text in texts.items()}


def _checked(rule: AlertRule, asked: RuleSaid) -> AlertRule:
    """Return a rule that may be. Raises ConfigurationError that shows what is wrong as it was written."""
    written = {name: text for name in _AMOUNTS if isinstance(text := getattr(asked, name), str)}
    needs = NEEDS[rule.check]
    for name, used in (("over", needs.over), ("at_least", needs.at_least)):
        if not used and getattr(asked, name) is not None:
            raise WrongRequestError(Phrase("rule_problem.unused", field=name, check=rule.check.value))
    check_rule(rule, written)
    return rule


def _read(field: str, text: str, check: Check) -> float | None:
    """Return what a text means in a field, as commands read it. Raises WrongRequestError."""
    if field == "repeat" and text.lower() == _NEVER:
        return None
    unit = NEEDS[check].unit
    if field == "above" and unit is not Unit.SECONDS:
        try:
            return read_amount(check, text)
        except ValueError:
            raise WrongRequestError(_unfit(check, unit, text)) from None
    try:
        return read_span(text).total_seconds()
    except ValueError:
        raise WrongRequestError(Phrase("refusal.no_span", field=field, text=repr(text))) from None


def _unfit(check: Check, unit: Unit, text: str) -> Phrase:
    if unit is Unit.NOTHING:
        return Phrase("rule_problem.no_above", check=check.value)
    takes = Phrase(f"above_takes.{unit.name.lower()}")
    return Phrase("rule_problem.above", check=check.value, takes=takes, given=repr(text))


@acts("rules.off", "/rules/{name}/off", Role.ADMIN)
async def switch_off_rule(desk: OperationContext, asked: Named) -> RuleSeen:
    """Switch a rule of alerts off for all workers, until it is switched on or reset."""
    return await _amended(desk, asked.name, lambda rule: replace(rule, enabled=False))


@acts("rules.on", "/rules/{name}/on", Role.ADMIN)
async def switch_on_rule(desk: OperationContext, asked: Named) -> RuleSeen:
    """Switch a rule of alerts on for all workers."""
    return await _amended(desk, asked.name, lambda rule: replace(rule, enabled=True))


@acts("rules.reset", "/rules/{name}/reset", Role.ADMIN)
async def reset_rule(desk: OperationContext, asked: Named) -> RuleSeen:
    """Let a rule of alerts count again as code and settings declare it."""
    return await _amended(desk, asked.name, lambda _rule: None)


async def _amended(desk: OperationContext, name: str, amend: Callable[[AlertRule], AlertRule | None]) -> RuleSeen:
    """Amend a rule, and write down how it counted before. Raises NotThereError and WrongRequestError."""
    known = {rule.name for rule in counting_rules(await desk.ask(read_board(desk.verbs)))}
    if name not in known:
        raise no_rule(name, known)
    try:
        amended = await desk.ask(amend_rule(desk.verbs, name, amend))
    except ConfigurationError as error:
        raise WrongRequestError(phrase_in(error)) from None
    desk.note(before=rule_noted(amended.before), after=rule_noted(amended.after))
    return rule_seen(amended.after, changed=amended.changed, added=amended.added)


def rule_noted(rule: AlertRule) -> Phrase:
    """Return a rule as it is written down when somebody changes it."""
    above = "–" if rule.above is None else f"{rule.above:g}"
    spans = {"over": f"{rule.over:g}", "hold": f"{rule.hold:g}", "cool_down": f"{rule.cool_down:g}"}
    told = Phrase(
        "noted.rule" if rule.enabled else "noted.rule_off",
        above=above,
        severity=Phrase(f"severity_name.{rule.severity.value}"),
        **spans,
    )
    again = Phrase("noted.never") if rule.repeat is None else Phrase("noted.after", seconds=f"{rule.repeat:g}")
    channels = Phrase("noted.all_channels") if rule.channels is None else listed(rule.channels or ("–",))
    return Phrase("noted.rule_told", rule=told, at_least=rule.at_least, repeat=again, channels=channels)


# Rules of alerts that no app declares: added while the fleet runs, for all of it, and removed again.


@acts("rules.add", "/rules", Role.ADMIN)
async def add_new_rule(desk: OperationContext, asked: RuleAddAsked) -> RuleSeen:
    """Add a rule of alerts for all workers from the next look on, until it is removed."""
    rule = AlertRule(
        name=asked.name,
        check=asked.check,
        queue=asked.queue,
        task=asked.task,
        schedule=asked.schedule,
        **rule_said(asked, asked.check),
    )
    try:
        added = await desk.ask(add_rule(desk.verbs, _checked(rule, asked)))
    except ConfigurationError as error:
        raise WrongRequestError(phrase_in(error)) from None
    desk.note(after=rule_noted(added))
    return rule_seen(added, changed=False, added=True)


@acts("rules.remove", "/rules/{name}/remove", Role.ADMIN)
async def remove_added_rule(desk: OperationContext, asked: Named) -> RuleSeen:
    """Remove a rule of alerts that was added at run time; its alerts end without a word."""
    board = await desk.ask(read_board(desk.verbs))
    known = {rule.name for rule in counting_rules(board)} | board.added.keys()
    if asked.name not in known:
        raise no_rule(asked.name, known)
    try:
        removed = await desk.ask(remove_rule(desk.verbs, asked.name))
    except ConfigurationError as error:
        raise WrongRequestError(phrase_in(error)) from None
    desk.note(before=rule_noted(removed), after=Phrase("noted.deleted"))
    return rule_seen(removed, changed=False, added=True)
