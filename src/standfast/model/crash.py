"""Decide which jobs are charged for the death of a worker. Pure.

A crash touches only what had started. One job alone in the dead process is charged. Of several, each becomes a
suspect: it runs again at once, in a group of at most half of them, in a child of that group's own. A group that
brings its child down is halved again, until one job dies alone. What was held and not started goes back as it was.

If a worker vanishes with its supervisor, a host is lost: no job is charged or suspected. Jobs that lose their host
again are suspects too. A host runs one group of these at a time: if it goes down, no other group goes with it.
"""

from collections.abc import Collection
from enum import StrEnum

import msgspec

from standfast.model.job import Attempt, ClaimRef
from standfast.model.states import Move, State

CHARGED_ALONE = "crashed"
"""How the history calls the end of a claim that brought down a process of its own."""

SUSPECTED = "suspected"
"""How it calls the end of one that ran beside others in a process that came down."""

LOST = "vanished"
"""How it calls the end of a job whose worker vanished with its host."""

CRASHES_ALONE_LIMIT = 3
"""A job that brought down a process of its own this often is dead, whatever attempts it has left."""

OF_HOST = 1 << 20
"""Added to the group of a suspect that lost its host again."""


def group_limit(group: int) -> int:
    """Return how many suspects of this group may run together."""
    return group % OF_HOST


def is_of_host(group: int) -> bool:
    """Tell whether suspects of this group lost their hosts, so that one child at a time may run them on a host."""
    return group >= OF_HOST


def halved(together: int) -> int:
    """Return the size of the groups in which so many suspects run next: at most half.

    It is a power of two, so that there are few different sizes.
    """
    return 1 << max((together // 2).bit_length() - 1, 0)


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

    `group`: 0, or the group of a suspect: it says how many of them may run together (see `group_limit`). A requeue
    resets `crashes`, and with it what of that history still counts. `replaced`: another job waits to take its
    place.
    """

    ref: ClaimRef
    state: State
    attempt: int
    crashes: int
    max_attempts: int
    group: int
    cancel_requested: bool
    crashes_alone: int = 0
    replaced: bool = False

    @property
    def last_chance(self) -> bool:
        """Whether it was marked as running and must never start again."""
        return self.max_attempts == 1 and self.state is State.RUNNING

    @property
    def was_hit_before(self) -> bool:
        """Whether its process or its host has died under it before."""
        return self.crashes > 0 or self.group > 0


class Aftermath(msgspec.Struct, frozen=True):
    """What becomes of an orphan: its next state, its numbers, and the word for its history."""

    ref: ClaimRef
    state: State
    how: str
    attempt: int
    crashes: int
    group: int

    def harm(self, evidence: str) -> str | None:
        """Return what the history says of the harm that it came to; nothing of one that was only given back."""
        return None if self.how == Move.RELEASE else evidence


def aftermath(death: Death, orphans: Collection[Orphan]) -> list[Aftermath]:
    """Return what becomes of each claim that a dead worker left."""
    if death.kind is DeathKind.VANISHED:
        again = sum(orphan.was_hit_before for orphan in orphans)
        return [_lost(orphan, again) for orphan in orphans]
    started = death.started if death.kind is DeathKind.CRASHED else frozenset()
    together = sum(orphan.ref in started for orphan in orphans)
    return [_crashed(orphan, together) if orphan.ref in started else _released(orphan) for orphan in orphans]


def had_started(attempt: Attempt) -> bool:
    """Tell whether the handler of a claim began to run.

    When is told to the store a moment later, and never where the process came down before; that it had started its
    supervisor knew, and only who had started is blamed.
    """
    return attempt.started_at is not None or attempt.how in {CHARGED_ALONE, SUSPECTED}


def _lost(orphan: Orphan, again: int) -> Aftermath:
    """Return what becomes of a job whose host is lost. `again`: how many jobs of its worker were hit before."""
    found = is_of_host(orphan.group) and group_limit(orphan.group) == 1
    group = orphan.group
    if is_of_host(group) or (group == 0 and orphan.was_hit_before):
        group = OF_HOST + halved(again)
    elif group:
        group += OF_HOST  # its size stays: crashes of processes have set it, and say nothing about hosts
    charged = found or orphan.last_chance
    return _after(orphan, LOST, crashes=1, group=group, charged=charged)


def _crashed(orphan: Orphan, together: int) -> Aftermath:
    """Return what becomes of a job whose process died. `together`: how many jobs ran in it."""
    if together > 1 and not orphan.last_chance:
        return _after(orphan, SUSPECTED, crashes=1, group=halved(together))
    hopeless = min(orphan.crashes_alone, orphan.crashes) + 1 >= CRASHES_ALONE_LIMIT
    return _after(orphan, CHARGED_ALONE, crashes=1, group=1, charged=True, hopeless=hopeless)


def _released(orphan: Orphan) -> Aftermath:
    return _after(orphan, Move.RELEASE.value, group=orphan.group, charged=orphan.last_chance)


def _after(
    orphan: Orphan, how: str, *, group: int, crashes: int = 0, charged: bool = False, hopeless: bool = False
) -> Aftermath:
    attempt = orphan.attempt + charged
    exhausted = hopeless or (charged and attempt >= orphan.max_attempts)
    unwanted = orphan.cancel_requested or orphan.replaced
    state = State.CANCELLED if unwanted else State.DEAD if exhausted else State.READY
    return Aftermath(orphan.ref, state, how, attempt, orphan.crashes + crashes, group)
