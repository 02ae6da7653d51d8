"""Whose store is looked at."""

from typing import Protocol, TypeVar

from standfast.store.protocol import Store
from standfast.store.verb import Verb

T = TypeVar("T")


class Asked(Protocol):
    """Somebody with a store: an app, for one."""

    @property
    def verbs(self) -> Store:
        """What its store can do."""
        ...

    def call(self, verb: Verb[T]) -> T:
        """Run a verb."""
        ...
