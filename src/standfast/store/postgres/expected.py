"""What a claim expects to find, from what the one before it found.

A server takes longer to set up the statement for all that a claim may meet than to run it. So a process remembers
the levels of the queues that it asks for, and mostly asks for their fresh jobs alone. Whether there is something
else to heed is seen by that same statement, which then gives nothing.
"""

from collections import defaultdict
from typing import NamedTuple

from standfast.store.postgres.claim_rows import Walked
from standfast.store.postgres.levels import Level
from standfast.store.postgres.marks import Noted
from standfast.store.protocol import ClaimRequest
from standfast.store.times import span_to_micros

_Queues = tuple[tuple[str, ...] | None, tuple[str, ...]]
"""Which queues a claim asks for, None for every one, and which of them are closed to it."""


class _Seen(NamedTuple):
    """The priorities of each queue, the higher first, as they were when all of them had this signature."""

    priorities: dict[str, list[int]]
    signature: str
    noted: Noted
    """The marks of that time. Where they are forgotten, so is this."""


class Expected(NamedTuple):
    """The levels that a claim expects, in the order in which it tries them, and their signature."""

    levels: list[Level]
    signature: str


class Expectations:
    """What the claims of one process expect. Any thread may use it."""

    def __init__(self) -> None:
        self._seen: dict[_Queues, _Seen] = {}

    def learn(self, request: ClaimRequest, noted: Noted, walked: Walked, now: int) -> None:
        """Note what a claim found that looked at everything, unless the next will find more than fresh jobs."""
        if walked.waiting_at is not None and walked.waiting_at <= now + horizon(request):
            self._seen.pop(_queues(request), None)
            return
        priorities = defaultdict[str, list[int]](list)
        for queue, priority in walked.levels:
            priorities[queue].append(priority)
        self._seen[_queues(request)] = _Seen(priorities, walked.signature, noted)

    def of(self, request: ClaimRequest, noted: Noted) -> Expected | None:
        """Return what a claim may expect, if anything."""
        seen = self._seen.get(_queues(request))
        if seen is None or seen.noted is not noted:
            return None
        queues = sorted(seen.priorities) if request.queues is None else list(seen.priorities)
        levels = [(queue, each) for queue in request.in_turn(queues) for each in seen.priorities[queue]]
        return Expected(levels, seen.signature)

    def forget(self, request: ClaimRequest) -> None:
        """Expect nothing of these queues: it came differently."""
        self._seen.pop(_queues(request), None)


def _queues(request: ClaimRequest) -> _Queues:
    return request.queues, request.closed


def horizon(request: ClaimRequest) -> int:
    """Return within which time a claim takes jobs that are not due yet."""
    return span_to_micros(request.look_ahead) if request.ahead_limit > 0 else 0
