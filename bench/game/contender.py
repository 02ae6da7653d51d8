"""Whoever plays: a way to keep jobs, and the program that is one instance."""

from collections.abc import Mapping, Sequence
from typing import Protocol

import msgspec

from game.evidence import Played


class Due(msgspec.Struct, frozen=True):
    """A job to create: its number, and its time on the wall clock."""

    number: int
    run_at: float


class Launch(msgspec.Struct, frozen=True):
    """The program of one instance: its words, and its whole environment."""

    command: tuple[str, ...]
    environment: Mapping[str, str]


class Contender(Protocol):
    """One strategy, ready to play one game."""

    @property
    def name(self) -> str:
        """What to call it."""
        ...

    async def create(self, jobs: Sequence[Due]) -> None:
        """Put jobs where the instances find them."""
        ...

    def launch(self, instance: str) -> Launch:
        """Return the program of an instance, which writes its calls to `calls_of` it."""
        ...

    async def played(self) -> list[Played]:
        """Return all jobs as they are in the end, by their numbers."""
        ...

    def close(self) -> None:
        """Let go of what is open."""
        ...
