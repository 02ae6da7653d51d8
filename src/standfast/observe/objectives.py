"""What an objective may be, in code or as a table [objectives.NAME] of a settings file. Pure."""

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from standfast.errors import ConfigurationError
from standfast.model.alerts import Objective
from standfast.model.configuration import SpanRule, UnfitError
from standfast.model.suggestions import hint
from standfast.model.validation import is_finite, is_int, name_problems, queue_problems, refuse_any
from standfast.observe.figures.histogram import LAST, ends_at
from standfast.settings import Section

LONGEST = 28  # days: figures are kept for two more
SHORTEST_START, LONGEST_START = ends_at(0) / 1000, ends_at(LAST - 1) / 1000
"""Seconds between which figures tell how late jobs start."""

_FIELDS = tuple(field.name for field in msgspec.structs.fields(Objective) if field.name != "name")


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
    within, over = objective.start_within, objective.over
    if within is not None and not (is_finite(within) and SHORTEST_START <= within <= LONGEST_START):
        bounds = f"from {SHORTEST_START:g} to {LONGEST_START:,.0f}"
        yield f"start_within must be a timedelta or seconds, {bounds}, not {within!r}"
    if not (is_int(over) and 1 <= over <= LONGEST):
        yield f"over must be whole days from 1 to {LONGEST}, for which figures are kept, not {over!r}"


def read_objectives(section: Section | None) -> tuple[Objective, ...]:
    """Return what a file declares. Raises ConfigurationError that names the file, the table and what is wrong."""
    if section is None:
        return ()
    return tuple(_read(name, table, section.origin) for name, table in section.content.items())


def _read(name: str, table: Any, origin: str) -> Objective:
    where = f"[objectives.{name}] of {origin}"
    if not isinstance(table, Mapping):
        raise ConfigurationError(f"{where} must be a table, with target and with task or queue in it")
    for field in table:
        if field not in _FIELDS:
            raise ConfigurationError(f"{where}: there is no {field}; {hint(field, _FIELDS)}")
    if "target" not in table:
        raise ConfigurationError(f"{where} has no target; write the share that is to be kept, as target = 0.995")
    said = dict(table)
    within = said.get("start_within")
    if isinstance(within, str):
        try:
            said["start_within"] = SpanRule().parse(within)
        except UnfitError as error:
            raise ConfigurationError(f"{where}: start_within {error}") from None
    try:
        return check_objective(Objective(name=name, **said))
    except ConfigurationError as error:
        raise ConfigurationError(f"{error} (from {origin})") from None
