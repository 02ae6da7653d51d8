"""Notices in the store: what people were told, a record each. Those that are old, or too many, are forgotten.

They have no time at which they are due: beats tell of the earliest of all records, and each would have every
supervisor look, for a month after its own.
"""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from uuid import uuid4

import msgspec

from standfast.core.alert import Notice
from standfast.core.record import Change, Kind, Record, read_body
from standfast.store.errand import Verbs, errand
from standfast.store.protocol import Store, ask_time

KEPT_FOR = timedelta(days=30)

KEPT = 1000
"""How many are kept at most."""

AT_ONCE = 100
"""So many are forgotten by one call."""

_LONG_AGO = datetime.min.replace(tzinfo=UTC)


def filing(notice: Notice) -> Change:
    """Return the wish to file a notice; where it is filed already, nothing comes of it."""
    return Change(Kind.NOTICE, notice.id, 0, str(uuid4()), msgspec.json.encode(notice))


def read_all_notices(verbs: Store) -> Verbs[tuple[Notice, ...]]:
    """Return all that are filed."""
    records: Sequence[Record] = yield verbs.records(Kind.NOTICE)
    return tuple(notice for record in records if (notice := read_body(record, Notice)) is not None)


@errand
def forget_old_notices(verbs: Store) -> Verbs[int]:
    """Forget those whose time is over, and the oldest beyond KEPT; tell how many."""
    asked = yield ask_time(verbs)
    records: Sequence[Record] = yield verbs.records(Kind.NOTICE)
    by_age = sorted(((_told_at(record), record) for record in records), key=lambda aged: aged[0])
    too_many = len(by_age) - KEPT
    over = [record for place, (at, record) in enumerate(by_age) if place < too_many or at <= asked.now - KEPT_FOR]
    if over:
        yield verbs.change_records([_forgetting(record) for record in over[:AT_ONCE]])
    return min(len(over), AT_ONCE)


def _told_at(record: Record) -> datetime:
    """Return when people were told; of what nobody can read, that it was long ago."""
    notice = read_body(record, Notice)
    return _LONG_AGO if notice is None else notice.at


def _forgetting(record: Record) -> Change:
    return Change(Kind.NOTICE, record.name, record.version, str(uuid4()), None, after=record.token)
