"""What can be done about alerts: to look after one, to be told no more for a while, to try a channel."""

from standfast.alerts.board import (
    LONGEST_SILENCE,
    acknowledge,
    add_silence,
    counting_rules,
    end_silence,
    read_board,
    unacknowledge,
)
from standfast.alerts.delivery import order_delivery, trial_notice
from standfast.dashboard.access.user import Role
from standfast.dashboard.desk import Desk
from standfast.dashboard.operation import acts
from standfast.dashboard.reading.moments import coming, is_bare_number
from standfast.dashboard.reading.rules import no_rule
from standfast.dashboard.refusals import NotThereError, WrongRequestError
from standfast.dashboard.shapes.alerts import AlertDone, ChannelDone, SilenceAsked, SilenceDone
from standfast.dashboard.shapes.words import Named, WithId
from standfast.errors import AlertNotFoundError
from standfast.phrases import Phrase, listed
from standfast.store.protocol import ask_time


@acts("alerts.acknowledge", "/alerts/{id}/acknowledge", Role.OPERATOR)
async def acknowledge_alert(desk: Desk, asked: WithId) -> AlertDone:
    """Say that somebody looks after an alert: it is not told again while it lasts."""
    try:
        alert = await desk.ask(acknowledge(desk.verbs, asked.id, desk.user.name))
    except AlertNotFoundError:
        raise NotThereError(Phrase("refusal.no_alert", alert=asked.id)) from None
    by = alert.acknowledged_by or desk.user.name
    desk.note(after=Phrase("noted.acknowledged", by=by))
    return AlertDone(id=alert.id, acknowledged_by=by)


@acts("alerts.unacknowledge", "/alerts/{id}/unacknowledge", Role.OPERATOR)
async def unacknowledge_alert(desk: Desk, asked: WithId) -> AlertDone:
    """Take back that somebody looks after an alert: it is told as if nobody did."""
    try:
        alert = await desk.ask(unacknowledge(desk.verbs, asked.id))
    except AlertNotFoundError:
        raise NotThereError(Phrase("refusal.no_alert", alert=asked.id)) from None
    desk.note(after=Phrase("noted.unacknowledged"))
    return AlertDone(id=alert.id, acknowledged_by=None)


@acts("alerts.silence", "/silences", Role.OPERATOR)
async def silence_alerts(desk: Desk, asked: SilenceAsked) -> SilenceDone:
    """Let nobody be told of a rule, of a subject or of both, until an end that is at most 30 days away."""
    if is_bare_number(asked.until):
        raise WrongRequestError(Phrase("refusal.no_unit", field="until", number=asked.until.strip()))
    now = (await desk.ask(ask_time(desk.verbs))).now
    until = coming("until", asked.until, now, days=True)
    if until is None:
        raise WrongRequestError(Phrase("refusal.no_end"))
    if until <= now:
        raise WrongRequestError(Phrase("refusal.past_end"))
    if until > now + LONGEST_SILENCE:
        raise WrongRequestError(Phrase("refusal.long_silence", days=LONGEST_SILENCE.days))
    if not (asked.rule or asked.subject):
        raise WrongRequestError(Phrase("refusal.nothing_silenced"))
    if asked.rule:
        await _refuse_unknown(desk, asked.rule)
    silence = await desk.ask(
        add_silence(desk.verbs, asked.rule or None, asked.subject or None, until, why=asked.why, by=desk.user.name)
    )
    desk.note(after=Phrase("noted.silent", until=silence.until.isoformat()))
    return SilenceDone(id=silence.id, until=silence.until)


async def _refuse_unknown(desk: Desk, rule: str) -> None:
    """Raise NotThereError for a rule that nobody declares and nothing breaks, where any is declared."""
    board = await desk.ask(read_board(desk.verbs))
    known = {each.name for each in counting_rules(board)}
    if known and rule not in known.union(each.rule for each in board.alerts):
        raise no_rule(rule, known)


@acts("alerts.unsilence", "/silences/{id}/end", Role.OPERATOR)
async def unsilence_alerts(desk: Desk, asked: WithId) -> SilenceDone:
    """End a silence now."""
    try:
        silence = await desk.ask(end_silence(desk.verbs, asked.id))
    except AlertNotFoundError:
        raise NotThereError(Phrase("refusal.no_silence", silence=asked.id)) from None
    desk.note(before=Phrase("noted.silent", until=silence.until.isoformat()), after=Phrase("noted.ended"))
    return SilenceDone(id=silence.id, until=silence.until)


@acts("channels.test", "/channels/{name}/test", Role.OPERATOR)
async def test_channel(desk: Desk, asked: Named) -> ChannelDone:
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
