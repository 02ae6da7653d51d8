"""Rules that are the union of others. Pure."""

import heapq
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Unpack

from msgspec.structs import fields, force_setattr

from standfast.errors import ConfigurationError
from standfast.phrases import Phrase
from standfast.schedule.at import At
from standfast.schedule.cron import Cron
from standfast.schedule.days import several
from standfast.schedule.every import Every
from standfast.schedule.options import RuleOptions
from standfast.schedule.rule import Ground, Rule
from standfast.spelling import DeclaredOfMany

_OF_THE_UNION = {field.name: field.default for field in fields(Rule) if field.name not in {"start", "end"}}
"""The options that say what becomes of a time, whichever member it comes from, and their defaults."""


class AnyOf(Rule, frozen=True, tag="any", metaclass=DeclaredOfMany):
    """Whenever one of several rules comes: `AnyOf(Cron("0 9 * * *"), Every(3600))`, or with `|` between them.

    A time of several of them comes once. A member has times of its own, with its zone, start and end; every other
    option is the union's: `AnyOf(Cron("0 9 * * *"), Every(3600), overlap="allow")`. Weekdays and dates in `exclude`
    are read by the clock of its members, which must go by the same one then.
    """

    rules: "tuple[AnyRule, ...]"

    if TYPE_CHECKING:

        def __init__(self, *rules: "AnyRule", **options: Unpack[RuleOptions]) -> None: ...

    def __post_init__(self) -> None:
        super().__post_init__()
        force_setattr(self, "rules", several(self.rules))
        if not self.rules:
            raise ConfigurationError('AnyOf has no rules; give some, as in AnyOf(Cron("0 9 * * *"), Every(3600))')
        for rule in self.rules:
            _check_member(rule)
        if any(isinstance(each, str) for each in self.exclude) and len(self.zones()) > 1:
            raise ConfigurationError(
                f"the rules of AnyOf go by different clocks ({' and '.join(sorted(self.zones()))}), "
                "so that a bare day in exclude could mean either; say which, "
                'as in exclude=Calendar("office", weekdays=("sat", "sun"), tz="Asia/Taipei")'
            )

    def note(self, planned: datetime, ground: Ground) -> Phrase | None:
        """Return what changed clocks have to do with a planned time, in plain words, if anything."""
        before = planned - timedelta(microseconds=1)
        theirs = (rule for rule in self.rules if next(rule.times_after(before, ground), None) == planned)
        notes = (rule.note(planned, ground) for rule in theirs)
        return next((note for note in notes if note is not None), None)

    def zones(self) -> frozenset[str]:
        """Return the zones by whose clocks it goes."""
        return frozenset[str]().union(*(rule.zones() for rule in self.rules))

    def _alternatives(self) -> tuple[Rule, ...]:
        return self.rules if self == AnyOf(*self.rules) else (self,)

    def _times_after(self, moment: datetime, ground: Ground) -> Iterator[datetime]:
        last = None
        for time in heapq.merge(*(rule.times_after(moment, ground) for rule in self.rules)):
            if time != last:
                yield time
                last = time


AnyRule = Cron | Every | At | AnyOf
"""Any rule there is: what JSON is decoded to."""


def _check_member(rule: object) -> None:
    if not isinstance(rule, Cron | Every | At | AnyOf):
        raise ConfigurationError(
            f'a member of AnyOf must be a rule, as in AnyOf(Cron("0 9 * * *"), Every(3600)), not {rule!r:.80}'
        )
    for name, default in _OF_THE_UNION.items():
        value = getattr(rule, name)
        if value != default:
            said = f'"{value}"' if isinstance(value, str) else repr(value)
            raise ConfigurationError(
                f"{name} is given to the {type(rule).__name__} inside of a union, which has one for all its rules; "
                f'give it there, as in AnyOf(Cron("0 9 * * *"), Every(3600), {name}={said})'
            )
