"""Objectives, and how well they are kept."""

from standfast.dashboard.desk import Desk
from standfast.dashboard.operation import reads
from standfast.dashboard.reading.shared_looks import SELDOM, catalogue, store_now
from standfast.dashboard.shapes.objectives import BurnSeen, ObjectiveSeen, ObjectivesSeen
from standfast.dashboard.shapes.words import NothingAsked
from standfast.objectives.standing import WINDOWS, Standing, read_standings


@reads("objectives.list", "/objectives")
async def list_objectives(desk: Desk, asked: NothingAsked) -> ObjectivesSeen:  # noqa: ARG001 - nothing to ask
    """Show how well objectives are kept: what is left of each budget, and how fast it is spent."""
    declared = (await catalogue(desk)).objectives
    standings = await desk.recall(
        ("standings", declared), lambda: desk.ask(read_standings(desk.verbs, declared)), SELDOM
    )
    return ObjectivesSeen(now=await store_now(desk), objectives=tuple(map(_seen, standings)))


def _seen(standing: Standing) -> ObjectiveSeen:
    objective = standing.objective
    return ObjectiveSeen(
        name=objective.name,
        target=objective.target,
        task=objective.task,
        queue=objective.queue,
        start_within=objective.start_within,
        over=objective.over,
        good=standing.good,
        bad=standing.bad,
        share=standing.share,
        budget_left=standing.budget_left,
        burns=tuple(
            BurnSeen(over=WINDOWS[name].total_seconds(), rate=rate) for name, rate in standing.burns.items()
        ),
    )
