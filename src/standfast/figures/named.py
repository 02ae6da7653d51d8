"""Which queues and tasks are told by name whatever else there is: those that a rule or objective is about. Pure."""

from collections.abc import Iterable
from typing import Protocol

import msgspec

Pair = tuple[str, str]
"""A queue and a task."""


class Naming(Protocol):
    """A rule, or an objective: what says which queue or task it is about."""

    @property
    def queue(self) -> str | None:
        """Its queue; None for any."""
        ...

    @property
    def task(self) -> str | None:
        """Its task; None for any."""
        ...


class Named(msgspec.Struct, frozen=True, array_like=True):
    """Queues and tasks, by their names."""

    queues: frozenset[str] = frozenset()
    tasks: frozenset[str] = frozenset()

    def rest_of(self, pair: Pair) -> Pair:
        """Return what a pair is counted as that there is no room for: it keeps the names that are here."""
        queue, task = pair
        return queue if queue in self.queues else "", task if task in self.tasks else ""

    def among(self, pairs: Iterable[Pair]) -> "Named":
        """Return those that any of these pairs has."""
        found = set(pairs)
        queues, tasks = {queue for queue, _ in found}, {task for _, task in found}
        return named(self.queues & queues, self.tasks & tasks)


UNNAMED = Named()
"""None at all."""


def named(queues: Iterable[str], tasks: Iterable[str]) -> Named:
    """Return these names; where there are none, the one value that is not written down."""
    return Named(frozenset(queues), frozenset(tasks)) if queues or tasks else UNNAMED


def named_by(watched: Iterable[Naming]) -> Named:
    """Return what rules and objectives name."""
    watched = list(watched)
    queues = [each.queue for each in watched if each.queue is not None]
    return named(queues, [each.task for each in watched if each.task is not None])


def all_named(some: Iterable[Named]) -> Named:
    """Return the names of several."""
    some = list(some)
    queues = {queue for each in some for queue in each.queues}
    return named(queues, {task for each in some for task in each.tasks})
