"""Objectives as a settings file declares them: a table each, [objectives.NAME]."""

from collections.abc import Mapping
from typing import Any

import msgspec

from standfast.core.objective import Objective
from standfast.errors import ConfigurationError
from standfast.objectives.checking import check_objective
from standfast.settings.rules import SpanRule, UnfitError
from standfast.settings.sources import Section
from standfast.spelling import hint

_FIELDS = tuple(field.name for field in msgspec.structs.fields(Objective) if field.name != "name")


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
