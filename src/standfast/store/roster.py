"""The place of a worker among those that serve the same queues. Pure."""

from collections import defaultdict
from collections.abc import Collection, Iterable
from datetime import datetime
from typing import NamedTuple

from standfast.store.protocol import Turn


class Member(NamedTuple):
    """A living worker, as turns look at it. Its queues count as a set; None: every queue."""

    worker: str
    queues: Collection[str] | None
    polled_at: datetime | None


def turns(asking: Collection[str], living: Iterable[Member]) -> dict[str, Turn]:
    """Return the turn of each of those who ask, all of whom are among the living."""
    groups: defaultdict[frozenset[str] | None, list[Member]] = defaultdict(list)
    for member in living:
        groups[None if member.queues is None else frozenset(member.queues)].append(member)
    found: dict[str, Turn] = {}
    for group in groups.values():
        polled_at = max((member.polled_at for member in group if member.polled_at is not None), default=None)
        for rank, worker in enumerate(sorted(member.worker for member in group)):
            if worker in asking:
                found[worker] = Turn(rank, len(group), polled_at)
    return found
