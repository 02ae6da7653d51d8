"""Windows as the store tells of them, to those who cannot see the code that declares them. Pure.

There is a record for each queue or task of an app that has windows. Workers go by the code that they run; records
are for people.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from uuid import uuid4

import msgspec

from standfast.core.record import Change, Kind, Record
from standfast.errors import ConfigurationError
from standfast.schedule.closing import ClosedHours
from standfast.schedule.words import describe_window


@dataclass(frozen=True, slots=True)
class WindowChange:
    """What is to become of the windows of a queue or a task: they are `added`, `changed` or `retired`."""

    what: str
    about: str
    name: str
    words: str
    change: Change


def read_windows(records: Iterable[Record]) -> tuple[ClosedHours, ...]:
    """Return the windows of records. What only a newer release can read is left out."""
    return tuple(hours for record in records if (hours := _read(record)) is not None)


def window_changes(app: str, declared: Sequence[ClosedHours], records: Iterable[Record]) -> list[WindowChange]:
    """Return what has to change for the store to tell of the windows that an app declares, and of no others."""
    known = {record.name: record for record in records if record.name.partition("@")[2] == app}
    wanted = {f"{hours.about}:{hours.name}@{app}": hours for hours in declared}
    changes = []
    for name in {**wanted, **known}:
        record, hours = known.get(name), wanted.get(name)
        body = None if hours is None else msgspec.json.encode(hours)
        if record is None or record.body != body:
            what = "retired" if hours is None else "added" if record is None else "changed"
            version, after = (0, None) if record is None else (record.version, record.token)
            change = Change(Kind.WINDOW, name, version, str(uuid4()), body, after=after)
            about, _, rest = name.partition(":")
            words = (
                "none any more"
                if hours is None
                else "; ".join(str(describe_window(window)) for window in hours.windows)
            )
            changes.append(WindowChange(what, about, rest.partition("@")[0], words, change))
    return changes


def _read(record: Record) -> ClosedHours | None:
    try:
        return msgspec.json.decode(record.body, type=ClosedHours)
    except (msgspec.MsgspecError, ConfigurationError):
        return None
