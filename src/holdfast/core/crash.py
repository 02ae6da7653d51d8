"""Who pays for the death of a worker. Pure.

A crash touches only what had started. One job alone in the dead process is charged; of several, each becomes a
suspect whose next run is in a child of its own. What was held and not started goes back as it was.
"""

from collections.abc import Collection
from enum import StrEnum

import msgspec

from holdfast.core.job import Attempt, ClaimRef
from holdfast.core.states import Move, State

CHARGED_ALONE = "crashed"
"""How the history calls the end of a claim that brought down a process of its own."""

SUSPECTED = "suspected"
"""How it calls the end of one that ran beside others in a process that came down."""

CRASHES_ALONE_LIMIT = 3
"""A job that brought down a process of its own this often is dead, whatever attempts it has left."""


class DeathKind(StrEnum):
    """How a worker's end became known."""

    STOPPED = "stopped"
    CRASHED = "crashed"
    VANISHED = "vanished"


class Death(msgspec.Struct, frozen=True):
    """The end of a worker: seen by its supervisor (stopped, crashed) or inferred (vanished: no beats).

    `started` are the claims whose code was running, as noted on disk; a vanished worker's are those marked
    running in the store.
    """

    kind: DeathKind
    started: frozenset[ClaimRef] = frozenset()
    evidence: str = ""


class Orphan(msgspec.Struct, frozen=True):
    """A claim left behind by a dead worker. `crashes_alone` counts the earlier ones in its history.

    A requeue resets `crashes`, and with it what of that history still counts. `replaced`: another job waits to take
    its place.
    """

    ref: ClaimRef
    state: State
    attempt: int
    crashes: int
    max_attempts: int
    alone: bool
    cancel_requested: bool
    crashes_alone: int = 0
    replaced: bool = False

    @property
    def last_chance(self) -> bool:
        """Whether it was marked as running and must never start again."""
        return self.max_attempts == 1 and self.state is State.RUNNING


class Aftermath(msgspec.Struct, frozen=True):
    """What becomes of an orphan: its next state, its numbers, and the word for its history."""

    ref: ClaimRef
    state: State
    how: str
    attempt: int
    crashes: int
    alone: bool

    def harm(self, evidence: str) -> str | None:
        """Return what the history says of the harm that it came to; nothing of one that was only given back."""
        return None if self.how == Move.RELEASE else evidence


def aftermath(death: Death, orphans: Collection[Orphan]) -> list[Aftermath]:
    """Return what becomes of each claim that a dead worker left."""
    if death.kind is DeathKind.VANISHED:
        started = {orphan.ref for orphan in orphans if orphan.state is State.RUNNING}
    elif death.kind is DeathKind.CRASHED:
        started = {orphan.ref for orphan in orphans if orphan.ref in death.started}
    else:
        started = set()
    return [_fate(death.kind, orphan, started) for orphan in orphans]


def had_started(attempt: Attempt) -> bool:
    """Tell whether the handler of a claim began to run.

    When is told to the store a moment later, and never where the process came down before; that it had started its
    supervisor knew, and only who had started is blamed.
    """
    return attempt.started_at is not None or attempt.how in {CHARGED_ALONE, SUSPECTED}


def _fate(kind: DeathKind, orphan: Orphan, started: set[ClaimRef]) -> Aftermath:
    attempt, crashes, alone, how = orphan.attempt, orphan.crashes, orphan.alone, Move.RELEASE.value
    exhausted = False
    if orphan.ref in started:
        crashes += 1
        if len(started) == 1 or orphan.last_chance:
            how = "vanished" if kind is DeathKind.VANISHED else CHARGED_ALONE
            attempt += 1
            alone = alone or how == CHARGED_ALONE
            hopeless = how == CHARGED_ALONE and min(orphan.crashes_alone, orphan.crashes) + 1 >= CRASHES_ALONE_LIMIT
            exhausted = hopeless or attempt >= orphan.max_attempts
        else:
            how, alone = SUSPECTED, True
    elif orphan.last_chance:
        attempt, exhausted = attempt + 1, True
    elif kind is DeathKind.VANISHED:
        how, crashes = "vanished", crashes + 1
        alone = alone or crashes > 1
    unwanted = orphan.cancel_requested or orphan.replaced
    state = State.CANCELLED if unwanted else State.DEAD if exhausted else State.READY
    return Aftermath(orphan.ref, state, how, attempt, crashes, alone)
