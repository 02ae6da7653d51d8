"""A small game that nobody has played: evidence for tests of what is told of one."""

from datetime import UTC, datetime

from game.counted.journal import Call
from game.evidence import Evidence, Held, Played, Run, Stint
from game.machine import Machine
from game.playing import Game
from game.result import Report, make_figures
from game.timetable import Mode
from game.tournament import ALL, Tournament
from game.workload import make_workload

START = 1_700_000_000.0
LOST = {"ours": 0.002, "naive": 5.0, "separate": 0.004, "lookahead": 0.06}
LISTS = {"ours": 66, "naive": 300, "separate": 71, "lookahead": 132}


def evidence_of(strategy, *, jobs=50, start=START):
    """Return what happened: each job a little later than the one before, and one of them run twice after a kill."""
    verb = "claim" if strategy == "ours" else "list"
    runs = [
        Run(
            number,
            1,
            "1.1",
            _due(number) + LOST[strategy],
            _due(number) + 0.083 + (1 + number / jobs) * LOST[strategy],
        )
        for number in range(jobs)
    ]
    return Evidence(
        started_at=start,
        jobs=[Played(run.job, _due(run.job), True, run.end + 0.001, _claims(run)) for run in runs],
        runs=runs,
        stints=[Stint("1.1", start, start + 60.0, killed=False)],
        calls={"1.1": [Call(verb, start + number, 1, 0.001, 5) for number in range(LISTS[strategy])]},
    )


def tournament_of(*strategies, mode=Mode.WORKERS, duration=600.0, evidence=None):
    """Return a game that these strategies have played, all by default."""
    game = Game(mode, 5, duration, seed=1)
    evidence = evidence or {strategy: evidence_of(strategy) for strategy in strategies or ALL}
    report = Report(
        played_at=datetime(2026, 3, 1, 12, 0, tzinfo=UTC),
        mode=mode,
        instances=game.instances,
        duration=duration,
        seconds=make_workload(duration, game.seed).end,
        seed=game.seed,
        period=game.period,
        comparable=game.is_real,
        store="a SQLite file",
        settings={"look_ahead": 10.3, "lease": 15.0},
        machine=Machine("a processor", 2, 8.0, "a system", "3.11", "3.40"),
        strategies=tuple(make_figures(name, game, what) for name, what in evidence.items()),
    )
    return Tournament(report, evidence)


def _due(number):
    return START + 30.0 + number / 2


def _claims(run):
    return (Held(run.fence, run.start, run.end, "complete"),)
