"""Rules of alerts that are changed while the fleet runs: for all of it, until they are reset."""

from collections.abc import Callable

from msgspec.structs import replace

from holdfast.alerts.board import AMENDED, amend_rule, read_board
from holdfast.core.alert import AlertRule
from holdfast.dashboard.access.user import Role
from holdfast.dashboard.desk import Desk
from holdfast.dashboard.operation import acts
from holdfast.dashboard.reading.rules import no_rule, rule_seen
from holdfast.dashboard.refusals import WrongRequestError
from holdfast.dashboard.shapes.alerts import RuleChangeAsked, RuleDone
from holdfast.dashboard.shapes.words import Named
from holdfast.errors import ConfigurationError
from holdfast.phrases import Phrase, phrase_in


@acts("rules.change", "/rules/{name}/change", Role.ADMIN)
async def change_rule(desk: Desk, asked: RuleChangeAsked) -> RuleDone:
    """Change a rule of alerts for all workers from the next look on, until it is reset; the rest stays as it is."""
    said = {name: value for name in AMENDED if (value := getattr(asked, name, None)) is not None}

    def amend(rule: AlertRule) -> AlertRule:
        changed = replace(rule, **said)
        if changed == rule:
            raise WrongRequestError(Phrase("refusal.rule_same", rule=rule.name))
        return changed

    return await _amended(desk, asked.name, amend)


@acts("rules.off", "/rules/{name}/off", Role.ADMIN)
async def switch_off_rule(desk: Desk, asked: Named) -> RuleDone:
    """Switch a rule of alerts off for all workers, until it is switched on or reset."""
    return await _amended(desk, asked.name, lambda rule: replace(rule, enabled=False))


@acts("rules.on", "/rules/{name}/on", Role.ADMIN)
async def switch_on_rule(desk: Desk, asked: Named) -> RuleDone:
    """Switch a rule of alerts on for all workers."""
    return await _amended(desk, asked.name, lambda rule: replace(rule, enabled=True))


@acts("rules.reset", "/rules/{name}/reset", Role.ADMIN)
async def reset_rule(desk: Desk, asked: Named) -> RuleDone:
    """Let a rule of alerts count again as code and settings declare it."""
    return await _amended(desk, asked.name, lambda _rule: None, changed=False)


async def _amended(
    desk: Desk, name: str, amend: Callable[[AlertRule], AlertRule | None], *, changed: bool = True
) -> RuleDone:
    """Amend a rule, and write down how it counted before. Raises NotThereError and WrongRequestError."""
    known = {rule.name for rule in (await desk.ask(read_board(desk.verbs))).declared}
    if name not in known:
        raise no_rule(name, known)
    try:
        amended = await desk.ask(amend_rule(desk.verbs, name, amend))
    except ConfigurationError as error:
        raise WrongRequestError(phrase_in(error)) from None
    desk.note(before=_told(amended.before), after=_told(amended.after))
    return RuleDone(name=name, rule=rule_seen(amended.after, changed=changed))


def _told(rule: AlertRule) -> Phrase:
    above = "–" if rule.above is None else f"{rule.above:g}"
    known = {"over": f"{rule.over:g}", "hold": f"{rule.hold:g}", "cool_down": f"{rule.cool_down:g}"}
    severity = Phrase(f"severity_name.{rule.severity.value}")
    return Phrase("noted.rule" if rule.enabled else "noted.rule_off", above=above, severity=severity, **known)
