"""How a job ends that nobody has in hand."""

from collections.abc import Mapping
from typing import NamedTuple

from holdfast.core.states import State
from holdfast.store.verb import Query, Steps


class Withdrawn(NamedTuple):
    """A job that was waiting and has ended. `after` is the claimed job that it was to follow, and does no more."""

    id: str
    queue: str
    fence: int
    after: str | None


def withdraw(
    sql: Mapping[str, str], job_id: str, state: State, reason: str | None, now: int | None
) -> Steps[Withdrawn | None]:
    """End a job that waits, for its time or for anything else; None where it does not, or does so no more.

    Someone else may claim it at the same moment: then this waits until that is decided.
    """
    rows = yield Query(sql["withdraw"], (now, job_id, state.value, reason))
    return Withdrawn(*rows[0]) if rows else None
