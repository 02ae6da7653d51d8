"""Rules of alerts that are changed while the fleet runs: for all of it, until they are reset."""

from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from standfast.alerts.board import amend_rule, counting_rules, read_board
from standfast.alerts.checking import NEEDS, Unit, read_amount
from standfast.alerts.standing import AMENDED
from standfast.core.alert import AlertRule, Check
from standfast.dashboard.access.user import Role
from standfast.dashboard.desk import Desk
from standfast.dashboard.operation import acts
from standfast.dashboard.reading.rules import no_rule, rule_seen
from standfast.dashboard.refusals import WrongRequestError
from standfast.dashboard.shapes.alerts import RuleChangeAsked, RuleDone, RuleSaid
from standfast.dashboard.shapes.words import Named
from standfast.errors import ConfigurationError
from standfast.phrases import Phrase, listed, phrase_in
from standfast.watch.spans import read_span

_AMOUNTS = ("above", "over", "hold", "cool_down", "repeat")
_NEVER = "never"


@acts("rules.change", "/rules/{name}/change", Role.ADMIN)
async def change_rule(desk: Desk, asked: RuleChangeAsked) -> RuleDone:
    """Change a rule of alerts for all workers from the next look on, until it is reset; the rest stays as it is."""

    def amend(rule: AlertRule) -> AlertRule:
        said = rule_said(asked, rule.check) | ({"channels": None} if asked.every_channel else {})
        changed = replace(rule, **said)
        if changed == rule:
            raise WrongRequestError(Phrase("refusal.rule_same", rule=rule.name))
        return changed

    return await _amended(desk, asked.name, amend)


def rule_said(asked: RuleSaid, check: Check) -> dict[str, Any]:
    """Return what is said of a rule with this check, by the names of its options. Raises WrongRequestError."""
    said = {name: value for name in AMENDED if (value := getattr(asked, name, None)) is not None}
    texts = {name: said[name].strip() for name in _AMOUNTS if isinstance(said.get(name), str)}
    return said | {name: _read(name, text, check) for name, text in texts.items()}


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
    return await _amended(desk, asked.name, lambda _rule: None)


async def _amended(desk: Desk, name: str, amend: Callable[[AlertRule], AlertRule | None]) -> RuleDone:
    """Amend a rule, and write down how it counted before. Raises NotThereError and WrongRequestError."""
    known = {rule.name for rule in counting_rules(await desk.ask(read_board(desk.verbs)))}
    if name not in known:
        raise no_rule(name, known)
    try:
        amended = await desk.ask(amend_rule(desk.verbs, name, amend))
    except ConfigurationError as error:
        raise WrongRequestError(phrase_in(error)) from None
    desk.note(before=rule_noted(amended.before), after=rule_noted(amended.after))
    return RuleDone(name=name, rule=rule_seen(amended.after, changed=amended.changed, added=amended.added))


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
