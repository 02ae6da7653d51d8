"""Rules of single moments. Pure."""

from bisect import bisect_right
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Unpack

from msgspec.structs import force_setattr

from standfast.errors import ConfigurationError
from standfast.policy.problems import refuse_any
from standfast.schedule.days import several
from standfast.schedule.options import RuleOptions, moment_problems
from standfast.schedule.rule import Ground, Rule
from standfast.spelling import DeclaredOfMany


class At(Rule, frozen=True, tag="at", metaclass=DeclaredOfMany):
    """At given moments, each once: `At(datetime(2026, 3, 1, 9, tzinfo=UTC))`. They must have a time zone."""

    moments: tuple[datetime, ...]

    if TYPE_CHECKING:

        def __init__(self, *moments: datetime, **options: Unpack[RuleOptions]) -> None: ...

    def __post_init__(self) -> None:
        super().__post_init__()
        moments = several(self.moments)
        if not moments:
            raise ConfigurationError("At has no moment; give one, as in At(datetime(2026, 3, 1, 9, tzinfo=UTC))")
        refuse_any(problem for moment in moments for problem in moment_problems("a moment of At", moment))
        force_setattr(self, "moments", tuple(sorted({moment.astimezone(UTC) for moment in moments})))

    def _times_after(self, moment: datetime, ground: Ground) -> Iterator[datetime]:  # noqa: ARG002 - the same shape
        yield from self.moments[bisect_right(self.moments, moment) :]
