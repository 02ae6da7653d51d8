"""Rules of alerts that no app declares: added while the fleet runs, for all of it, and removed again."""

from standfast.alerts.added import add_rule, remove_rule
from standfast.alerts.board import counting_rules, read_board
from standfast.core.alert import AlertRule
from standfast.dashboard.access.user import Role
from standfast.dashboard.acting.rules import rule_noted, rule_said
from standfast.dashboard.desk import Desk
from standfast.dashboard.operation import acts
from standfast.dashboard.reading.rules import no_rule, rule_seen
from standfast.dashboard.refusals import WrongRequestError
from standfast.dashboard.shapes.alerts import RuleAddAsked, RuleDone
from standfast.dashboard.shapes.words import Named
from standfast.errors import ConfigurationError
from standfast.phrases import Phrase, phrase_in


@acts("rules.add", "/rules", Role.ADMIN)
async def add_new_rule(desk: Desk, asked: RuleAddAsked) -> RuleDone:
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
        added = await desk.ask(add_rule(desk.verbs, rule))
    except ConfigurationError as error:
        raise WrongRequestError(phrase_in(error)) from None
    desk.note(after=rule_noted(added))
    return RuleDone(name=added.name, rule=rule_seen(added, changed=False, added=True))


@acts("rules.remove", "/rules/{name}/remove", Role.ADMIN)
async def remove_added_rule(desk: Desk, asked: Named) -> RuleDone:
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
    return RuleDone(name=removed.name, rule=rule_seen(removed, changed=False, added=True))
