"""Objectives, and how well they are kept."""

from datetime import datetime

from standfast.dashboard.shapes.words import Told


class BurnSeen(Told, frozen=True, kw_only=True):
    """How many times too fast the budget was spent in the last so many seconds."""

    over: float
    rate: float


class ObjectiveSeen(Told, frozen=True, kw_only=True):
    """What was promised, and how it stands. Shares are from 0 to 1, `start_within` is seconds, `over` is days.

    `budget_left` is the share of the allowed failures that is left, below 0 where more was spent.
    """

    name: str
    target: float
    task: str | None
    queue: str | None
    start_within: float | None
    over: int
    good: int
    bad: int
    share: float | None
    budget_left: float
    burns: tuple[BurnSeen, ...]


class ObjectivesSeen(Told, frozen=True, kw_only=True):
    """All objectives that apps declare, by name."""

    now: datetime
    objectives: tuple[ObjectiveSeen, ...]
