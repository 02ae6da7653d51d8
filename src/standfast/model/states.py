"""The life of a job as one table. Stores apply it; the conformance suite is written from it.

            ┌────────── blocked(reason, until) ◄──┐
            ▼                                     │
scheduled ─► ready ─► held(fence, worker) ─► running ─► completed | dead | cancelled(reason)
   ▲           ▲            │                   │
   │           └─ released ─┴── buried ─────────┤
   └──────────── retry after backoff ───────────┘
"""

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType

import msgspec


class State(StrEnum):
    """Where a job is in its life."""

    SCHEDULED = "scheduled"
    READY = "ready"
    BLOCKED = "blocked"
    HELD = "held"
    RUNNING = "running"
    COMPLETED = "completed"
    DEAD = "dead"
    CANCELLED = "cancelled"


WAITING = frozenset({State.SCHEDULED, State.READY, State.BLOCKED})
CLAIMED = frozenset({State.HELD, State.RUNNING})
FINAL = frozenset({State.COMPLETED, State.DEAD, State.CANCELLED})


class Move(StrEnum):
    """What can happen to a job."""

    CLAIM = "claim"
    START = "start"
    COMPLETE = "complete"
    RETRY = "retry"
    SNOOZE = "snooze"
    RELEASE = "release"
    BLOCK = "block"
    DIE = "die"
    CANCEL = "cancel"
    REQUEUE = "requeue"
    DISCARD = "discard"


class Rule(msgspec.Struct, frozen=True):
    """From which states a move may be made, where it leads, and whether it charges an attempt."""

    sources: frozenset[State]
    target: State
    charges: bool = False


MOVES: Mapping[Move, Rule] = MappingProxyType(
    {
        Move.CLAIM: Rule(WAITING, State.HELD),
        Move.START: Rule(CLAIMED, State.RUNNING),
        Move.COMPLETE: Rule(CLAIMED, State.COMPLETED),
        Move.RETRY: Rule(CLAIMED, State.SCHEDULED, charges=True),
        Move.SNOOZE: Rule(CLAIMED, State.SCHEDULED),
        Move.RELEASE: Rule(CLAIMED, State.READY),
        Move.BLOCK: Rule(CLAIMED, State.BLOCKED),
        Move.DIE: Rule(CLAIMED, State.DEAD, charges=True),
        Move.CANCEL: Rule(WAITING | CLAIMED, State.CANCELLED),
        Move.REQUEUE: Rule(frozenset({State.DEAD}), State.READY),
        Move.DISCARD: Rule(frozenset({State.DEAD}), State.CANCELLED),
    }
)

ENDINGS = frozenset({Move.COMPLETE, Move.RETRY, Move.SNOOZE, Move.RELEASE, Move.BLOCK, Move.DIE, Move.CANCEL})
"""The moves by which a worker ends its own claim."""

RETURNS = frozenset({Move.RETRY, Move.SNOOZE, Move.RELEASE, Move.BLOCK})
"""The endings after which a job waits again; a cancellation or a replacement meanwhile turns them into CANCEL."""


def settle(move: Move, *, cancel_requested: bool, replaced: bool = False, last_chance: bool = False) -> Move:
    """Return the move to record for an ending.

    Someone may have asked for cancellation, or another job may have `replaced` it meanwhile; and a job with its
    `last_chance` (max_attempts=1, marked as running) never starts twice, so it cannot be given back.
    """
    if (cancel_requested or replaced) and move in RETURNS:
        return Move.CANCEL
    return Move.DIE if last_chance and move is Move.RELEASE else move


STARTED_ITS_LAST = "its worker ended while it ran, and a job with max_attempts=1 never starts twice"
"""The error of a job that `last_chance` made dead."""


class Reason(StrEnum):
    """Why a job is blocked or cancelled, where the reason is ours; a handler may give its own words."""

    NO_WORKER = "no_worker"
    REPLACING = "replacing"
    """Blocked: it takes the place of a job with the same key that a worker still has in hand."""
    REQUESTED = "requested"
    DISCARDED = "discarded"
    REPLACED = "replaced"
    EXPIRED = "expired"
