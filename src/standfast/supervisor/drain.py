"""A drain: work until nothing is left to do."""

import asyncio
from collections.abc import Callable, Mapping
from functools import partial

from standfast.core.states import WAITING, State
from standfast.errors import StoreError
from standfast.worker.storecalls import StoreCalls

LOOK_EVERY = 0.1
QUIET_LOOKS = 3
"""So many looks in a row that find nothing left: after one alone a child may be about to adopt more."""


async def until_drained(
    calls: StoreCalls, queues: tuple[str, ...] | None, at_work: Callable[[], bool]
) -> Mapping[State, int]:
    """Wait until nothing is left to do and all are `at_work`; return how many jobs wait all the same, by state."""
    unsettled = partial(calls.verbs.unsettled, queues)
    quiet = 0
    while quiet < QUIET_LOOKS:
        await asyncio.sleep(LOOK_EVERY)
        nothing_left = at_work() and await calls.until_answered(unsettled, passing=(StoreError,)) == 0
        quiet = quiet + 1 if nothing_left else 0
    counts = await calls.until_answered(calls.verbs.count, passing=(StoreError,))
    return {state: counts[state] for state in sorted(WAITING) if counts[state]}
