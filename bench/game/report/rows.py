"""The rows behind a report: of jobs, calls and instances, and what charts are drawn from. Pure."""

from collections.abc import Iterator, Sequence
from typing import Any

from game.counted.journal import Call
from game.evidence import Evidence
from game.judging import executed_at
from game.report.words import strategy_words
from game.result import runs_by_job
from game.scoring import count_cost
from game.tournament import Tournament

Row = Sequence[Any]

JOBS = (
    "strategy",
    "job",
    "due, s",
    "started, ms after",
    "done, ms after",
    "stored, ms after",
    "completed",
    "starts",
    "instance",
    "claims",
)
CALLS = ("strategy", "instance", "at, s", "call", "took, ms", "jobs", "lost", "price", "error")
INSTANCES = ("strategy", "instance", "from, s", "to, s", "killed")

STEPS = (84, 85, 86, 87, 88, 90, 95, 100, 125, 150, 200, 300, 500, 1000, 2000, 5000, 10_000, 30_000)
"""Milliseconds: up to each of these the jobs are counted for a chart."""

SECONDS_APART = 5
"""Seconds between two points of a chart over the time of a game."""


def job_rows(tournament: Tournament) -> Iterator[Row]:
    """Return a row for every job of every strategy; times are of its last run."""
    for name, evidence in tournament.evidence.items():
        runs = runs_by_job(evidence)
        for job in evidence.jobs:
            of_job = runs.get(job.number, ())
            yield (
                strategy_words(name),
                job.number,
                round(job.run_at - evidence.started_at, 3),
                _after(of_job[-1].start if of_job else None, job.run_at),
                _after(executed_at(of_job), job.run_at),
                _after(job.stored_at, job.run_at),
                "yes" if job.completed else "no",
                len(of_job),
                ", ".join(run.instance for run in of_job),
                ", ".join(claim.how or "held" for claim in job.claims),
            )


def call_rows(tournament: Tournament) -> Iterator[Row]:
    """Return a row for every call of every strategy."""
    for name, evidence in tournament.evidence.items():
        for at, instance, call in calls_in_order(evidence):
            yield (
                strategy_words(name),
                instance,
                round(at, 2),
                call.verb,
                None if call.took is None else round(call.took * 1000, 2),
                call.jobs or None,
                call.stale or None,
                count_cost([call]).with_membership or None,
                call.error,
            )


def instance_rows(tournament: Tournament) -> Iterator[Row]:
    """Return a row for every life of every instance."""
    for name, evidence in tournament.evidence.items():
        for stint in evidence.stints:
            yield (
                strategy_words(name),
                stint.instance,
                round(stint.started_at - evidence.started_at, 1),
                round(stint.ended_at - evidence.started_at, 1),
                "yes" if stint.killed else "no",
            )


def calls_in_order(evidence: Evidence) -> list[tuple[float, str, Call]]:
    """Return the calls of all instances with the seconds since the start, the first one first."""
    all_calls = [
        (call.at - evidence.started_at, instance, call)
        for instance, calls in evidence.calls.items()
        for call in calls
    ]
    return sorted(all_calls, key=lambda entry: entry[0])


def spent(evidence: Evidence) -> list[Row]:
    """Return (second, COST so far) every few seconds."""
    points: list[Row] = [(0, 0)]
    cost = 0
    for at, _, call in calls_in_order(evidence):
        while at > points[-1][0] + SECONDS_APART:
            points.append((points[-1][0] + SECONDS_APART, cost))
        cost += count_cost([call]).cost
    return [*points, (points[-1][0] + SECONDS_APART, cost)]


def shares(delays: Sequence[float]) -> list[float]:
    """Return the share of jobs, in per cent, up to each step and above the one before."""
    counts = [sum(delay <= step for delay in delays) for step in STEPS]
    steps = [count - before for count, before in zip(counts, [0, *counts], strict=False)]
    return [round(100 * count / max(1, len(delays)), 3) for count in steps]


def _after(at: float | None, run_at: float) -> float | None:
    return None if at is None else round((at - run_at) * 1000, 2)
