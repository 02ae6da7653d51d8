"""Incidents in the store: two records each, one of them short, and one with the evidence, read when asked for."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Self
from uuid import uuid4

import msgspec

from standfast.model.configuration import Settings
from standfast.model.display import counted, short_id
from standfast.model.incidents import Evidence, Incident, Trouble
from standfast.model.records import Change, Kind, Record, read_body
from standfast.stores.contract import Store
from standfast.stores.doctor import Census, Finding
from standfast.stores.verb import Verbs, procedure

_MEGABYTE = 1_000_000
_AT_ONCE = 50  # so many incidents are forgotten by one call
RECENT = timedelta(days=1)
_NAMED = re.compile(r"\(incident ([0-9a-f]{8})\)$")


def naming(error: str, incident_id: str) -> str:
    """Return an error with the end of the id of its incident; as it is where there is none."""
    return f"{error} (incident {short_id(incident_id)})" if incident_id else error


def named_in(error: str | None) -> str | None:
    """Return the end of the id of the incident that an error names; None where it names none."""
    found = _NAMED.search(error or "")
    return None if found is None else found[1]


@dataclass(frozen=True, slots=True)
class Retention:
    """What is kept, and where the folders are; None means for ever, and the usual place."""

    most: int
    age: timedelta | None
    size: int
    folder: str | None

    @classmethod
    def of(cls, settings: Settings) -> Self:
        """Return what the settings say."""
        age = settings.keep_incidents_for
        return cls(
            settings.keep_incidents,
            None if age is None else timedelta(seconds=age),
            settings.keep_incidents_mb * _MEGABYTE,
            settings.incidents_dir,
        )


@dataclass(frozen=True, slots=True)
class Kept:
    """An incident that is kept: when it last happened, and how many bytes it takes where that matters."""

    id: str
    last_at: datetime
    size: int = 0


def outdated(kept: Iterable[Kept], keeping: Retention, now: datetime) -> list[str]:
    """Return which are to be forgotten: those too many, too old, and, but for the newest, beyond the room."""
    newest_first = sorted(kept, key=lambda each: (each.last_at, each.id), reverse=True)
    found, room = [], keeping.size
    for rank, each in enumerate(newest_first):
        room -= each.size
        too_old = keeping.age is not None and now - each.last_at > keeping.age
        if rank >= keeping.most or too_old or (room < 0 and rank > 0):
            found.append(each.id)
    return found


def changes_of(incident: Incident, evidence: Evidence | None, seen: int) -> tuple[Change, ...]:
    """Return the wish to write an incident of which version `seen` is known, and its evidence if given."""
    changes = [Change(Kind.INCIDENT, incident.id, seen, str(uuid4()), msgspec.json.encode(incident))]
    if evidence is not None:
        changes.insert(0, Change(Kind.EVIDENCE, incident.id, 0, str(uuid4()), msgspec.json.encode(evidence)))
    return tuple(changes)


@procedure
def write_incident(verbs: Store, incident: Incident, evidence: Evidence | None = None) -> Verbs[None]:
    """Write an incident, or what has changed of it since; its evidence if given."""
    done = False
    while not done:
        seen: tuple[Record, ...] = yield verbs.records(Kind.INCIDENT, (incident.id,))
        version = seen[0].version if seen else 0
        *_, done = yield verbs.change_records(changes_of(incident, evidence, version))


@procedure
def list_incidents(verbs: Store) -> Verbs[tuple[Incident, ...]]:
    """Return all incidents, the newest first."""
    return read_incidents((yield verbs.records(Kind.INCIDENT)))


def read_incidents(records: Iterable[Record]) -> tuple[Incident, ...]:
    """Return what records tell, the newest first; what another release wrote for itself is passed over."""
    incidents = [incident for record in records if (incident := read_body(record, Incident)) is not None]
    return tuple(sorted(incidents, key=lambda each: (each.last_at, each.id), reverse=True))


@procedure
def read_evidence(verbs: Store, incident_id: str) -> Verbs[Evidence]:
    """Return the evidence of an incident; none where there is none."""
    records: tuple[Record, ...] = yield verbs.records(Kind.EVIDENCE, (incident_id,))
    evidence = read_body(records[0], Evidence) if records else Evidence()
    return evidence or Evidence({"unreadable": "the evidence in the store cannot be read"})


@procedure
def forget_incidents(verbs: Store, incident_ids: Sequence[str]) -> Verbs[None]:
    """Forget incidents and their evidence, also those that grow meanwhile."""
    for some in _in_batches(incident_ids):
        left = some
        while left:
            records: tuple[Record, ...] = yield verbs.records(Kind.INCIDENT, left)
            versions = {record.name: record.version for record in records}
            left = yield from _forget(verbs, left, versions)


@procedure
def forget_outdated(verbs: Store, keeping: Retention, now: datetime) -> Verbs[int]:
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
    """Forget those of which this is the last version, then their evidence, always version 1; return the others."""
    changes = [Change(Kind.INCIDENT, name, versions.get(name, 0), str(uuid4()), None) for name in names]
    made: Sequence[bool] = yield verbs.change_records(changes)
    gone = [name for name, done in zip(names, made, strict=True) if done]
    if gone:
        yield verbs.change_records([Change(Kind.EVIDENCE, name, 1, str(uuid4()), None) for name in gone])
    return [name for name in names if name not in gone]


def judge_incidents(census: Census) -> Finding:
    """Return what is to be said about the last day."""
    incidents = [each for each in read_incidents(census.incidents) if each.trouble is not Trouble.SNAPSHOT]
    recent = [each for each in incidents if census.now - each.last_at <= RECENT]
    if not recent:
        earlier = f"; {len(incidents):,} earlier" if incidents else ""
        return Finding.ok("incidents", f"none in the last day{earlier}")
    times = sum(each.count for each in recent)
    often = f", {times:,} times" if times > len(recent) else ""
    troubles = Counter(each.trouble for each in recent).most_common()
    kinds = ", ".join(f"{number:,} {trouble_words(trouble)}" for trouble, number in troubles)
    says = f"{counted(len(recent), 'incident')} in the last day{often}: {kinds}"
    return Finding.warning("incidents", says, "`standfast incidents list --since 1d` tells of them")


def trouble_words(trouble: Trouble) -> str:
    """Return a trouble as people say it."""
    return trouble.value.replace("_", " ")
