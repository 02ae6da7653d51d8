"""Objectives as workers publish them, for those who have the store alone."""

from collections.abc import Iterable
from datetime import datetime
from typing import Protocol

import msgspec

from standfast.core.alert import Aware
from standfast.core.objective import Objective
from standfast.core.record import Kind, Record, read_body
from standfast.objectives.checking import is_sound
from standfast.store.errand import Verbs, errand
from standfast.store.protocol import Store


class Release(Protocol):
    """A release of an app that says what is promised of its jobs."""

    @property
    def app(self) -> str:
        """Whose it is."""
        ...

    @property
    def published_at(self) -> datetime:
        """When a worker last said so."""
        ...

    @property
    def objectives(self) -> tuple[Objective, ...]:
        """What is promised."""
        ...


class _Published(msgspec.Struct, frozen=True):
    """What of a catalogue is about objectives."""

    app: str
    published_at: Aware
    objectives: tuple[Objective, ...] = ()


@errand
def published_objectives(verbs: Store) -> Verbs[tuple[Objective, ...]]:
    """Return the objectives that count now, by name."""
    records: tuple[Record, ...] = yield verbs.records(Kind.CATALOGUE)
    return newest_objectives(said for record in records if (said := read_body(record, _Published)) is not None)


def newest_objectives(releases: Iterable[Release]) -> tuple[Objective, ...]:
    """Return those of the newest release of each app, by name: one that is declared no more is none.

    Nor is one that makes no sense: something damaged or hostile wrote it.
    """
    newest: dict[str, Release] = {}
    for each in sorted(releases, key=lambda each: each.published_at, reverse=True):
        newest.setdefault(each.app, each)
    found: dict[str, Objective] = {}
    for each in newest.values():
        for objective in filter(is_sound, each.objectives):
            found.setdefault(objective.name, objective)
    return tuple(found[name] for name in sorted(found))
