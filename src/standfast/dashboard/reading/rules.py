"""The rules of alerts, as apps declare them and as people have changed them since."""

from collections.abc import Collection

import msgspec

from standfast.alerts.board import counting_rules
from standfast.alerts.checking import NEEDS
from standfast.core.alert import AlertRule
from standfast.dashboard.desk import Desk
from standfast.dashboard.operation import reads
from standfast.dashboard.reading.shared_looks import board, store_now
from standfast.dashboard.refusals import NotThereError
from standfast.dashboard.shapes.alerts import RuleSeen, RulesSeen
from standfast.dashboard.shapes.words import NothingAsked
from standfast.phrases import Phrase
from standfast.spelling import nearest


@reads("rules.list", "/rules")
async def list_rules(desk: Desk, asked: NothingAsked) -> RulesSeen:  # noqa: ARG001 - there is nothing to ask
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
    meant = nearest(name, known)
    if meant is None:
        return NotThereError(Phrase("refusal.no_rule", rule=name))
    return NotThereError(Phrase("refusal.no_rule_but", rule=name, meant=meant))
