"""A breach: a rule that a subject breaks at this moment, as a look has found. Pure."""

from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from datetime import datetime

from standfast.alerts.delivery import DELIVER, QUEUE
from standfast.core.alert import AlertRule, Example, Severity

Key = tuple[str, str]
"""A rule and a subject, by their names."""

MOST_SUBJECTS = 100
"""How many subjects of one rule have alerts of their own; the rest is one."""

MOST_ALERTS = 5_000
"""How many alerts there are of all rules, at about the most: where many rules are broken, each may have fewer."""

EXAMPLES = 5
"""How many examples are named."""

OTHERS = "others"
"""The subject of those that are too many."""


@dataclass(frozen=True, slots=True)
class Breach:
    """Who breaks which rule: what is said of it, what was measured, how many are concerned, and some of them.

    `severity` is that of the rule, unless this one is worse. `happened_at` are the times of all incidents of this
    kind that are known, also of those that the rule does not look back to any more.
    """

    rule: AlertRule
    subject: str
    says: str
    value: float | None = None
    count: int = 1
    examples: tuple[Example, ...] = ()
    severity: Severity | None = None
    happened_at: tuple[datetime, ...] = ()

    @property
    def key(self) -> Key:
        """Which alert it belongs to."""
        return self.rule.name, self.subject


def is_about(rule: AlertRule, queue: str, task: str | None = None) -> bool:
    """Tell whether a rule is about jobs of a queue and task.

    Deliveries are left out unless it names them: else people would be told of what could not be told, and so on.
    """
    named = rule.queue == QUEUE or rule.task == DELIVER
    return rule.queue in {None, queue} and (task is None or rule.task in {None, task}) and (queue != QUEUE or named)


def by_key(breaches: Iterable[Breach], known: AbstractSet[Key]) -> Mapping[Key, Breach]:
    """Return breaches by their keys. Of a rule with very many, those that are known and the worst are kept."""
    of_rules: dict[str, list[Breach]] = {}
    for breach in breaches:
        of_rules.setdefault(breach.rule.name, []).append(breach)
    most = min(MOST_SUBJECTS, MOST_ALERTS // max(len(of_rules), 1))
    return {breach.key: breach for some in of_rules.values() for breach in _bounded(some, known, most)}


def _bounded(breaches: list[Breach], known: AbstractSet[Key], most: int) -> Iterator[Breach]:
    if len(breaches) <= most:
        yield from breaches
        return
    ranked = sorted(breaches, key=lambda each: (each.key not in known, -(each.value or 0.0), each.subject))
    yield from ranked[:most]
    rest = ranked[most:]
    examples = tuple(example for each in rest[:EXAMPLES] for example in each.examples[:1])
    says = f"{len(rest):,} more, such as: {rest[0].says}"
    count = sum(each.count for each in rest)
    worst = next((each.severity for each in rest if each.severity is Severity.CRITICAL), None)
    yield Breach(rest[0].rule, OTHERS, says, rest[0].value, count, examples, worst)
