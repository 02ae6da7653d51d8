"""Rules that people add while the fleet runs, and take away again. They are on the board, for all of the fleet."""

from msgspec.structs import replace

from standfast.alerts.board import change_board, counting_rules, rule_named, without_overrides
from standfast.alerts.checking import MOST_RULES, check_channels, check_rule, refuse_unused
from standfast.alerts.defaults import DEFAULT_RULES
from standfast.alerts.standing import Board
from standfast.core.alert import AlertRule
from standfast.errors import ConfigurationError
from standfast.phrases import Phrase
from standfast.store.errand import Verbs, errand
from standfast.store.protocol import Store


@errand
def add_rule(verbs: Store, rule: AlertRule) -> Verbs[AlertRule]:
    """Let a rule count for the whole fleet from its next look on, until it is removed.

    Should an app declare one of the same name later, that one counts instead. Raises ConfigurationError where there
    is one already, where it means nothing, and where it tells a channel that no app has.
    """
    check_rule(rule)
    refuse_unused(rule)

    def change(board: Board) -> tuple[Board, AlertRule]:
        declared = board.declared or DEFAULT_RULES  # before apps have told theirs, those from the start are known
        if rule.name in board.added or rule.name in {each.name for each in declared}:
            raise ConfigurationError(Phrase("refusal.rule_there", rule=rule.name))
        check_channels(rule, board.channels)
        if len(declared) + len(board.added) >= MOST_RULES:
            raise ConfigurationError(Phrase("refusal.many_rules", most=MOST_RULES))
        anew = without_overrides(board, rule.name)  # of a rule that somebody declared under this name, long ago
        return replace(anew, added={**board.added, rule.name: rule}), rule

    return (yield from change_board(verbs, change))


@errand
def remove_rule(verbs: Store, name: str) -> Verbs[AlertRule]:
    """Take away a rule that was added at run time, and return it: the next look forgets its alerts.

    Raises ConfigurationError where there is none, or one that an app declares.
    """

    def change(board: Board) -> tuple[Board, AlertRule]:
        if name not in board.added:
            rule_named(counting_rules(board), name)
            raise ConfigurationError(Phrase("refusal.rule_declared", rule=name))
        others = {each: rule for each, rule in board.added.items() if each != name}
        return replace(board, added=others), board.added[name]

    return (yield from change_board(verbs, change))
