"""What is told of a game: figures for programs, taken together from the evidence. Pure."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import datetime

import msgspec

from game.board import OwnRun, Standing
from game.evidence import Evidence, Run
from game.judging import executed_at, judge
from game.machine import Machine
from game.playing import Game
from game.scoring import count_cost, measure_delays
from game.timetable import Mode
from game.verdicts import Verdict, give_verdicts
from game.workload import make_workload

OURS = "ours"
"""The strategy that the verdicts are about; the others are there to compare."""


class Figures(msgspec.Struct, frozen=True):
    """One strategy's game in numbers; delays are milliseconds, of EFFICIENT too."""

    strategy: str
    jobs: int
    completed: int
    early: int
    late: int
    restarted: int
    doubled: int
    lists: int
    lost: int
    reads: int
    membership: int
    cost: int
    cost_with_membership: int
    efficient: float | None
    mean: float | None
    stdev: float | None
    median: float | None
    p99: float | None
    longest: float | None
    efficient_stored: float | None
    """The same up to when the store had it that the job was done, and not when its work was."""
    instances: int
    """How many processes, or trees of them, were started in all."""
    killed: int
    standing: Standing | None
    verdicts: tuple[Verdict, ...]


class Report(msgspec.Struct, frozen=True):
    """All strategies' games."""

    played_at: datetime
    mode: Mode
    instances: int
    duration: float
    seconds: float
    """From the start to the end."""
    seed: int
    period: float
    """Seconds between two looks of a strategy that polls."""
    comparable: bool
    """Whether it was the game as published; the scores of a shorter one mean nothing beside those."""
    store: str
    settings: Mapping[str, float]
    machine: Machine
    strategies: tuple[Figures, ...]

    @property
    def verdicts(self) -> tuple[Verdict, ...]:
        """The verdicts on our strategy; none if it did not play."""
        return next((figures.verdicts for figures in self.strategies if figures.strategy == OURS), ())


def delays_of(evidence: Evidence) -> dict[int, float]:
    """Return how many milliseconds after its time each job had run, the work included."""
    runs = runs_by_job(evidence)
    ends = {job.number: (job.run_at, executed_at(runs[job.number])) for job in evidence.jobs if job.completed}
    return {number: (end - run_at) * 1000 for number, (run_at, end) in ends.items() if end is not None}


def runs_by_job(evidence: Evidence) -> Mapping[int, Sequence[Run]]:
    """Return the runs of each job in their order."""
    runs: defaultdict[int, list[Run]] = defaultdict(list)
    for run in evidence.runs:
        runs[run.job].append(run)
    return runs


def make_figures(strategy: str, game: Game, evidence: Evidence) -> Figures:
    """Return the figures of one strategy's game."""
    judged = judge(evidence)
    cost = count_cost(call for calls in evidence.calls.values() for call in calls)
    delays = measure_delays(list(delays_of(evidence).values()))
    stored = measure_delays(
        [(job.stored_at - job.run_at) * 1000 for job in evidence.jobs if job.completed and job.stored_at]
    )
    return Figures(
        strategy=strategy,
        jobs=judged.jobs,
        completed=judged.jobs - len(judged.unfinished),
        early=len(judged.early),
        late=len(judged.late),
        restarted=len(judged.restarted),
        doubled=len(judged.doubled),
        lists=cost.lists,
        lost=cost.lost,
        reads=cost.reads,
        membership=cost.membership,
        cost=cost.cost,
        cost_with_membership=cost.with_membership,
        efficient=None if delays is None else delays.efficient,
        mean=None if delays is None else delays.mean,
        stdev=None if delays is None else delays.stdev,
        median=None if delays is None else delays.median,
        p99=None if delays is None else delays.p99,
        longest=None if delays is None else delays.longest,
        efficient_stored=None if stored is None else stored.efficient,
        instances=len(evidence.stints),
        killed=sum(stint.killed for stint in evidence.stints),
        standing=Standing.of(board_mode(game.mode, game.instances), cost.cost, delays.efficient)
        if game.is_real and delays
        else None,
        verdicts=give_verdicts(game.mode, seconds_of(game, evidence), judged, cost, delays),
    )


def seconds_of(game: Game, evidence: Evidence) -> float:
    """Return how long a game was from its start to its end; only the real one goes on after its last job."""
    if game.is_real:
        return make_workload(game.duration, game.seed).end
    return round(max(stint.ended_at for stint in evidence.stints) - evidence.started_at, 1)


def board_mode(mode: Mode, instances: int) -> str:
    """Return what a game is called on the published board; nobody has published one of kills."""
    return f"WORKERS{instances:02}" if mode is Mode.WORKERS else mode.upper()


def own_runs(report: Report) -> list[OwnRun]:
    """Return what a board of one's own keeps of a game: a run for each strategy."""
    played = {**msgspec.structs.asdict(report), "mode": board_mode(report.mode, report.instances)}
    return [msgspec.convert({**played, **msgspec.structs.asdict(of_one)}, OwnRun) for of_one in report.strategies]
