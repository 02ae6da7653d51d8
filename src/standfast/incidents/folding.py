"""Which incidents are the same, and what is on hand of them. Never more than a bounded number.

new ─► waiting ─(written)─► settled ─(the same again)─► waiting …
           └──────(too many wait)──► lost
"""

import math
from dataclasses import dataclass

from msgspec.structs import replace

from standfast.core.incident import Evidence, Incident
from standfast.core.record import Change
from standfast.incidents.filing import Filed

SAME_WITHIN = 600.0
"""Seconds after the last time within which the same trouble is one more of the same incident."""

MOST_WAITING = 100
"""Incidents that wait for a store that is away; of more, the oldest are given up."""

MOST_REMEMBERED = 300
"""Incidents to which more of the same may be added."""

MOST_JOBS = 50
"""Jobs that an incident names when it has happened again: the last of them."""


@dataclass(slots=True)
class Case:
    """An incident on hand: as it is now, and as far as it was written.

    heard_at: by the boot clock; first: as it was when the evidence was secured; due_at: when, by the loop's, it is
    to be written; seen: its version in the store; changes: what was sent there, until it is answered; sent: what
    these say, or the last that were answered.
    """

    incident: Incident
    evidence: Evidence
    heard_at: float
    first: Incident
    due_at: float = -math.inf
    filed: Filed | None = None
    seen: int = 0
    changes: tuple[Change, ...] | None = None
    sent: Incident | None = None

    @property
    def waits(self) -> bool:
        """Whether the store does not have all of it."""
        return self.changes is not None or self.sent is not self.incident


class Cases:
    """All cases of one desk, in the order in which they were opened."""

    def __init__(self) -> None:
        self._cases: dict[str, Case] = {}
        self._open: dict[tuple[str, ...], Case] = {}
        self.lost = 0
        """How many were given up before the store had them."""

    def take(self, incident: Incident, evidence: Evidence, now: float) -> tuple[Case, bool]:
        """Return the case that an incident belongs to, and whether it is a new one."""
        case = self._same(incident, now)
        if case is not None:
            case.incident, case.heard_at = folded(case.incident, incident), now
            return case, False
        case = Case(incident, evidence, now, incident)
        self._cases[incident.id] = self._open[_sameness(incident)] = case
        self._make_room()
        return case, True

    def knows(self, incident: Incident, now: float) -> bool:
        """Tell whether an incident would be one more of a case that is there."""
        return self._same(incident, now) is not None

    def waiting(self) -> list[Case]:
        """Return those that the store does not have, or not all of."""
        return [case for case in self._cases.values() if case.waits]

    def drop(self, case: Case) -> None:
        """Let go of a case: the same again is a new one."""
        self._cases.pop(case.incident.id, None)
        if self._open.get(_sameness(case.incident)) is case:
            del self._open[_sameness(case.incident)]

    def _same(self, incident: Incident, now: float) -> Case | None:
        case = self._open.get(_sameness(incident))
        return case if case is not None and now - case.heard_at <= SAME_WITHIN else None

    def _make_room(self) -> None:
        waiting = self.waiting()
        for case in waiting[: max(0, len(waiting) - MOST_WAITING)]:
            self.drop(case)
            self.lost += 1
        settled = [case for case in self._cases.values() if not case.waits]
        for case in settled[: max(0, len(self._cases) - MOST_REMEMBERED)]:
            self.drop(case)


def folded(first: Incident, again: Incident) -> Incident:
    """Return an incident that has happened again; of many jobs it names the last, and counts the others."""
    known = {(job.job_id, job.fence) for job in first.jobs}
    jobs = first.jobs + tuple(job for job in again.jobs if (job.job_id, job.fence) not in known)
    return replace(
        first,
        count=first.count + again.count,
        last_at=max(first.last_at, again.last_at),
        jobs=jobs[-MOST_JOBS:],
        more_jobs=first.more_jobs + again.more_jobs + max(0, len(jobs) - MOST_JOBS),
    )


def _sameness(incident: Incident) -> tuple[str, ...]:
    """Return what is the same for the same trouble; one without a fingerprint is like no other."""
    return (incident.trouble, incident.fingerprint or incident.id, incident.host)
