"""Notices in the store: what people were told, a record each. Those that are old, or too many, are forgotten."""

from collections.abc import Sequence
from datetime import timedelta
from uuid import uuid4

import msgspec

from holdfast.core.alert import Notice
from holdfast.core.record import Change, Kind, Record, read_body
from holdfast.store.errand import Verbs, errand
from holdfast.store.protocol import DueRecords, Store

KEPT_FOR = timedelta(days=30)

KEPT = 1000
"""How many are kept at most."""

AT_ONCE = 100
"""So many are forgotten by one call."""


def filing(notice: Notice) -> Change:
    """Return the wish to file a notice; where it is filed already, nothing comes of it."""
    return Change(Kind.NOTICE, notice.id, 0, str(uuid4()), msgspec.json.encode(notice), due_at=notice.at + KEPT_FOR)


def read_all_notices(verbs: Store) -> Verbs[tuple[Notice, ...]]:
    """Return all that are filed."""
    records: Sequence[Record] = yield verbs.records(Kind.NOTICE)
    return tuple(notice for record in records if (notice := read_body(record, Notice)) is not None)


@errand
def forget_old_notices(verbs: Store) -> Verbs[int]:
    """Forget those whose time is over, and the oldest beyond KEPT; tell how many."""
    due: DueRecords = yield verbs.due_records(Kind.NOTICE, timedelta(), AT_ONCE)
    over = list(due.records)
    records: Sequence[Record] = yield verbs.records(Kind.NOTICE)
    gone = {record.name for record in over}
    newest_first = sorted((each for each in records if each.name not in gone), key=_age, reverse=True)
    over += newest_first[KEPT:][:AT_ONCE]
    if over:
        yield verbs.change_records([_forgetting(record) for record in over])
    return len(over)


def _age(record: Record) -> float:
    return 0.0 if record.due_at is None else record.due_at.timestamp()


def _forgetting(record: Record) -> Change:
    return Change(Kind.NOTICE, record.name, record.version, str(uuid4()), None, after=record.token)
