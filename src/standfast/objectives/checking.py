"""What an objective may be. Pure."""

from collections.abc import Iterator

from standfast.core.objective import Objective
from standfast.figures.buckets import LAST, ends_at
from standfast.policy.problems import name_problems, queue_problems, refuse_any
from standfast.policy.reading import is_finite, is_int

LONGEST = 28
"""Days: figures are kept for two more."""

SHORTEST_START = ends_at(0) / 1000
LONGEST_START = ends_at(LAST - 1) / 1000
"""Seconds between which figures tell how late jobs start."""


def check_objective(objective: Objective) -> Objective:
    """Return an objective that makes sense. Raises ConfigurationError that names all that is wrong with it."""
    refuse_any(name_problems("objective", objective.name))
    found = list(_problems(objective))
    if found:
        refuse_any([f"objective {objective.name!r}: {'; '.join(found)}"])
    return objective


def is_sound(objective: Objective) -> bool:
    """Tell whether one can reckon with an objective of which the store tells, whatever names are in it."""
    return not any((*_target_problems(objective.target), *_time_problems(objective)))


def _problems(objective: Objective) -> Iterator[str]:
    task, queue = objective.task, objective.queue
    yield from _target_problems(objective.target)
    if (task is None) == (queue is None):
        yield "it must be about a task or about a queue: give task or queue" + (
            "" if task is None else ", not both"
        )
    if task is not None:
        yield from name_problems("task", task)
    if queue is not None:
        yield from queue_problems(queue)
    yield from _time_problems(objective)


def _target_problems(target: float) -> Iterator[str]:
    if not (is_finite(target) and 0 < target < 1):
        yield f"target must be a share between 0 and 1, as 0.995 for 99.5 %, not {target!r}"


def _time_problems(objective: Objective) -> Iterator[str]:
    yield from _start_problems(objective.start_within)
    over = objective.over
    if not (is_int(over) and 1 <= over <= LONGEST):
        yield f"over must be whole days from 1 to {LONGEST}, for which figures are kept, not {over!r}"


def _start_problems(within: object) -> Iterator[str]:
    if within is None or (is_finite(within) and SHORTEST_START <= within <= LONGEST_START):  # type: ignore[operator]
        return
    yield (
        f"start_within must be a timedelta or seconds, from {SHORTEST_START:g} to {LONGEST_START:,.0f},"
        f" not {within!r}"
    )
