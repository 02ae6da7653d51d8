"""What is known after a game, as plain values. Times are seconds of the wall clock."""

from collections.abc import Mapping, Sequence

import msgspec

from game.counted.journal import Call


class Held(msgspec.Struct, frozen=True):
    """One claim of a job, from the store's own history. `how` it ended: the move, or the death of its worker."""

    fence: int
    started_at: float | None
    ended_at: float | None
    how: str | None


class Played(msgspec.Struct, frozen=True):
    """A job as the store has it in the end. A store without a history has no claims to tell of."""

    number: int
    run_at: float
    completed: bool
    stored_at: float | None
    claims: tuple[Held, ...] = ()


class Run(msgspec.Struct, frozen=True):
    """One start of a job, by its instance's own word; `end` is None where that was the last of it."""

    job: int
    fence: int
    instance: str
    start: float
    end: float | None = None


class Stint(msgspec.Struct, frozen=True):
    """One life of an instance: `instance` is its number and which of its lives it was."""

    instance: str
    started_at: float
    ended_at: float
    killed: bool


class Evidence(msgspec.Struct, frozen=True):
    """All of it; calls by instance."""

    started_at: float
    jobs: Sequence[Played]
    runs: Sequence[Run]
    stints: Sequence[Stint]
    calls: Mapping[str, Sequence[Call]]
