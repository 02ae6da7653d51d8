"""Figures of a game as people read them. Pure."""

from game.board import Place, Standing
from game.machine import Machine
from game.result import Figures, Report
from game.timetable import Mode, leaving
from standfast.model.display import counted, ordinal

STRATEGIES = {
    "ours": "Standfast",
    "lookahead": "look-ahead with early lock",
    "naive": "naive polling",
    "separate": "turns with separate calls",
}
"""What strategies are called in full."""

NOT_COMPARABLE = "This was not the game as published: its scores do not compare with those of the board."


def strategy_words(name: str) -> str:
    """Return what a strategy is called in full; a contestant's is called by its own name."""
    return STRATEGIES.get(name, name)


def title(report: Report) -> str:
    """Return what was played, in a line."""
    how = {
        Mode.WORKERS: "",
        Mode.HATEST: " that come and go",
        Mode.KILL: " that are killed and come back",
        Mode.RELIABILITY: f" of which {leaving(report.instances)} go for good",
    }[report.mode]
    return f"{counted(report.instances, 'instance')}{how}, jobs over {report.duration:g} s"


def machine_words(machine: Machine) -> str:
    """Return what the game was played on."""
    hardware = f"{machine.processor}, {machine.cores} cores, {machine.memory_gb:g} GB"
    return f"{hardware}; {machine.system}, Python {machine.python}, SQLite {machine.sqlite}"


def jobs_words(figures: Figures) -> str:
    """Return how many jobs were run, and whether some were not."""
    lost = figures.jobs - figures.completed
    return f"{counted(lost, 'job')} of {figures.jobs:,} never completed" if lost else f"all {figures.jobs:,} jobs"


def milliseconds(value: float | None) -> str:
    """Return a delay, or a dash where there is none."""
    return "–" if value is None else f"{value:,.2f}"


def standing_words(standing: Standing) -> list[str]:
    """Return where a run would stand on the published board."""
    told = [f"COST {_place(standing.cost)}", f"EFFICIENT {_place(standing.efficient)}"]
    lines = [f"Among all published runs that kept the rules: {', '.join(told)}"]
    if standing.cost_in_mode is not None and standing.efficient_in_mode is not None:
        told = [f"COST {_place(standing.cost_in_mode)}", f"EFFICIENT {_place(standing.efficient_in_mode)}"]
        lines.append(f"Among those of {standing.mode}: {', '.join(told)}")
    better = counted(standing.better_in_both, "published run") if standing.better_in_both else "No published run"
    lines.append(f"{better} {'are' if standing.better_in_both > 1 else 'is'} as good in both scores at once")
    return lines


def _place(place: Place) -> str:
    return f"{ordinal(place.rank)} of {place.of}"
