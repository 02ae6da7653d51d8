"""Incidents in the store: two records each, one of them short, and one with the evidence, read when asked for."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from uuid import uuid4

import msgspec

from standfast.core.incident import Evidence, Incident
from standfast.core.record import Change, Kind, Record, read_body
from standfast.incidents.keeping import Keeping, Kept, outdated
from standfast.store.errand import Verbs, errand
from standfast.store.protocol import Store

_AT_ONCE = 50
"""So many incidents are forgotten by one call."""


def changes_of(incident: Incident, evidence: Evidence | None, seen: int) -> tuple[Change, ...]:
    """Return the wish to write an incident of which version `seen` is known, and its evidence if given.

    Its tokens are new: a wish whose answer was lost is repeated as it is, and counts once.
    """
    changes = [Change(Kind.INCIDENT, incident.id, seen, str(uuid4()), msgspec.json.encode(incident))]
    if evidence is not None:
        changes.insert(0, Change(Kind.EVIDENCE, incident.id, 0, str(uuid4()), msgspec.json.encode(evidence)))
    return tuple(changes)


@errand
def write_incident(verbs: Store, incident: Incident, evidence: Evidence | None = None) -> Verbs[None]:
    """Write an incident, or what has changed of it since; its evidence if given."""
    done = False
    while not done:
        seen: tuple[Record, ...] = yield verbs.records(Kind.INCIDENT, (incident.id,))
        version = seen[0].version if seen else 0
        *_, done = yield verbs.change_records(changes_of(incident, evidence, version))


@errand
def list_incidents(verbs: Store) -> Verbs[tuple[Incident, ...]]:
    """Return all incidents, the newest first."""
    return read_incidents((yield verbs.records(Kind.INCIDENT)))


def read_incidents(records: Iterable[Record]) -> tuple[Incident, ...]:
    """Return what records tell, the newest first; what another release wrote for itself is passed over."""
    incidents = [incident for record in records if (incident := read_body(record, Incident)) is not None]
    return tuple(sorted(incidents, key=lambda each: (each.last_at, each.id), reverse=True))


@errand
def read_evidence(verbs: Store, incident_id: str) -> Verbs[Evidence]:
    """Return the evidence of an incident; none where there is none."""
    records: tuple[Record, ...] = yield verbs.records(Kind.EVIDENCE, (incident_id,))
    evidence = read_body(records[0], Evidence) if records else Evidence()
    return evidence or Evidence({"unreadable": "the evidence in the store cannot be read"})


@errand
def forget_incidents(verbs: Store, incident_ids: Sequence[str]) -> Verbs[None]:
    """Forget incidents and their evidence, also those that grow meanwhile."""
    for some in _in_batches(incident_ids):
        left = some
        while left:
            records: tuple[Record, ...] = yield verbs.records(Kind.INCIDENT, left)
            versions = {record.name: record.version for record in records}
            left = yield from _forget(verbs, left, versions)


@errand
def forget_outdated(verbs: Store, keeping: Keeping, now: datetime) -> Verbs[int]:
    """Forget what is too much or too old; tell how many. Those that grew meanwhile are left alone."""
    records: tuple[Record, ...] = yield verbs.records(Kind.INCIDENT)
    versions = {record.name: record.version for record in records}
    too_many = outdated((Kept(each.id, each.last_at) for each in read_incidents(records)), keeping, now)
    spared = 0
    for some in _in_batches(too_many):
        spared += len((yield from _forget(verbs, some, versions)))
    return len(too_many) - spared


def _in_batches(names: Sequence[str]) -> Iterator[Sequence[str]]:
    for first in range(0, len(names), _AT_ONCE):
        yield names[first : first + _AT_ONCE]


def _forget(verbs: Store, names: Sequence[str], versions: Mapping[str, int]) -> Verbs[Sequence[str]]:
    """Forget those of which this version is the last, then their evidence; return the names of the others.

    Evidence is written once and never changed: its version is known without reading it.
    """
    changes = [Change(Kind.INCIDENT, name, versions.get(name, 0), str(uuid4()), None) for name in names]
    made: Sequence[bool] = yield verbs.change_records(changes)
    gone = [name for name, done in zip(names, made, strict=True) if done]
    if gone:
        yield verbs.change_records([Change(Kind.EVIDENCE, name, 1, str(uuid4()), None) for name in gone])
    return [name for name in names if name not in gone]
