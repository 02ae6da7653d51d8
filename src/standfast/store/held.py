"""What a beat has to say about the claims of the workers that beat. Pure."""

from collections import defaultdict
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import NamedTuple

from standfast.core.job import ClaimRef
from standfast.store.protocol import WorkerBeat


class HeldRow(NamedTuple):
    """A claim, as a beat looks at it."""

    worker: str
    job_id: str
    fence: int
    call: int
    cancel_requested: int
    replaced: int


@dataclass(frozen=True, slots=True)
class ClaimsHeld:
    """The claims to give up, by worker, and the workers with claims that they did not name."""

    revoked: dict[str, tuple[ClaimRef, ...]]
    replaced: dict[str, tuple[ClaimRef, ...]]
    unnamed: frozenset[str]


def claims_held(beats: Collection[WorkerBeat], rows: Iterable[HeldRow]) -> ClaimsHeld:
    """Sort out the claims of the workers that beat; those of others are left out."""
    by_worker = {beat.worker: beat for beat in beats}
    revoked: defaultdict[str, tuple[ClaimRef, ...]] = defaultdict(tuple)
    replaced: defaultdict[str, tuple[ClaimRef, ...]] = defaultdict(tuple)
    unnamed: set[str] = set()
    for row in rows:
        ref, beat = ClaimRef(row.job_id, row.fence), by_worker.get(row.worker)
        if beat is None:
            continue
        if row.cancel_requested:
            revoked[row.worker] += (ref,)
        if row.replaced:
            replaced[row.worker] += (ref,)
        if row.call <= beat.closed_call and ref not in beat.held:
            unnamed.add(row.worker)
    return ClaimsHeld(revoked, replaced, frozenset(unnamed))
