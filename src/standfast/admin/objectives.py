"""Objectives, and how well they are kept."""

from datetime import datetime

from standfast.admin.executor import SELDOM, OperationContext, catalogue, store_now
from standfast.admin.fields import AnswerStruct, NothingAsked
from standfast.admin.operation import reads
from standfast.observe.burn_rates import WINDOWS, Standing, promise, read_standings


class BurnSeen(AnswerStruct, frozen=True, kw_only=True):
    """How many times too fast the budget was spent in the last so many seconds."""

    over: float
    rate: float


class ObjectiveSeen(AnswerStruct, frozen=True, kw_only=True):
    """What was promised, and how it stands. Shares are from 0 to 1, `start_within` is seconds, `over` is days.

    `budget_left` is the share of the allowed failures that is left, below 0 where more was spent: then it is not
    `kept`. `burn_fast` is the lower of the burn rates of 5 minutes and an hour, `burn_slow` of 30 minutes and 6 hours.
    """

    name: str
    promise: str
    target: float
    task: str | None
    queue: str | None
    start_within: float | None
    over: int
    good: int
    bad: int
    share: float | None
    budget_left: float
    kept: bool
    burns: tuple[BurnSeen, ...]
    burn_fast: float
    burn_slow: float


class ObjectivesSeen(AnswerStruct, frozen=True, kw_only=True):
    """All objectives that apps declare, by name."""

    now: datetime
    objectives: tuple[ObjectiveSeen, ...]


# Objectives, and how well they are kept.


@reads("objectives.list", "/objectives")
async def list_objectives(desk: OperationContext, asked: NothingAsked) -> ObjectivesSeen:  # noqa: ARG001 - nothing to ask
    """Show how well objectives are kept: what is left of each budget, and how fast it is spent."""
    declared = (await catalogue(desk)).objectives
    standings = await desk.recall(
        ("standings", declared), lambda: desk.ask(read_standings(desk.verbs, declared)), SELDOM
    )
    return ObjectivesSeen(now=await store_now(desk), objectives=tuple(map(objective_seen, standings)))


def objective_seen(standing: Standing) -> ObjectiveSeen:
    """Return an objective as it is shown."""
    objective = standing.objective
    return ObjectiveSeen(
        name=objective.name,
        promise=promise(objective),
        target=objective.target,
        task=objective.task,
        queue=objective.queue,
        start_within=objective.start_within,
        over=objective.over,
        good=standing.good,
        bad=standing.bad,
        share=standing.share,
        budget_left=standing.budget_left,
        kept=standing.is_kept,
        burns=tuple(
            BurnSeen(over=WINDOWS[name].total_seconds(), rate=rate) for name, rate in standing.burns.items()
        ),
        burn_fast=standing.fast,
        burn_slow=standing.slow,
    )
