"""Incidents in the store: two records each, one of them short, and one with the evidence, read when asked for."""

from collections.abc import Sequence
from uuid import uuid4

import msgspec

from holdfast.core.incident import Evidence, Incident
from holdfast.core.record import Change, Kind, Record
from holdfast.store.errand import Verbs, errand
from holdfast.store.protocol import Store


@errand
def write_incident(verbs: Store, incident: Incident, evidence: Evidence | None = None) -> Verbs[None]:
    """Write an incident, or what has changed of it since; its evidence if given."""
    bodies = [(Kind.INCIDENT, msgspec.json.encode(incident))]
    if evidence is not None:
        bodies.insert(0, (Kind.EVIDENCE, msgspec.json.encode(evidence)))  # so that none is seen without it
    for kind, body in bodies:
        done = False
        while not done:
            seen: tuple[Record, ...] = yield verbs.records(kind, (incident.id,))
            version = seen[0].version if seen else 0
            (done,) = yield verbs.change_records([Change(kind, incident.id, version, str(uuid4()), body)])


@errand
def list_incidents(verbs: Store) -> Verbs[tuple[Incident, ...]]:
    """Return all incidents, the newest first."""
    records: tuple[Record, ...] = yield verbs.records(Kind.INCIDENT)
    incidents = [msgspec.json.decode(record.body, type=Incident) for record in records]
    return tuple(sorted(incidents, key=lambda each: (each.last_at, each.id), reverse=True))


@errand
def read_evidence(verbs: Store, incident_id: str) -> Verbs[Evidence]:
    """Return the evidence of an incident; none where there is none."""
    records: tuple[Record, ...] = yield verbs.records(Kind.EVIDENCE, (incident_id,))
    return msgspec.json.decode(records[0].body, type=Evidence) if records else Evidence()


@errand
def forget_incidents(verbs: Store, incident_ids: Sequence[str]) -> Verbs[None]:
    """Forget incidents and their evidence."""
    for kind in (Kind.INCIDENT, Kind.EVIDENCE):
        records: tuple[Record, ...] = yield verbs.records(kind, tuple(incident_ids))
        changes = [Change(kind, each.name, each.version, str(uuid4()), None) for each in records]
        if changes:
            yield verbs.change_records(changes)
