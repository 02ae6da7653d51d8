"""Ids made by clients sort by time and never meet."""

import time
from datetime import UTC, datetime, timedelta
from random import Random
from uuid import RFC_4122, UUID

import pytest

from standfast.model.ids import first_id_at, made_at, new_job_id, new_worker_id


def test_job_ids_are_uuids_of_version_7() -> None:
    """Any tool that knows UUIDs reads a job id."""
    parsed = UUID(new_job_id())
    assert (parsed.version, parsed.variant) == (7, RFC_4122)


def test_job_ids_carry_their_time() -> None:
    """The first 48 bits are milliseconds since the epoch."""
    before = time.time_ns() // 1_000_000
    made_at = UUID(new_job_id()).int >> 80
    assert before <= made_at <= time.time_ns() // 1_000_000


def test_job_ids_sort_by_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ids of different milliseconds sort as text in the order they were made."""
    ids = []
    for millisecond in (1, 255, 256, 1_700_000_000_000, 1_900_000_000_000):
        monkeypatch.setattr(time, "time_ns", lambda now=millisecond: now * 1_000_000)
        ids.append(new_job_id())
    assert ids == sorted(ids)


def test_job_ids_of_one_moment_keep_their_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """Within a millisecond, and while the clock is corrected backwards, ids sort in the order they were made."""
    now = 1_800_000_000_000
    ids = []
    for number in range(3000):
        monkeypatch.setattr(time, "time_ns", lambda now=now - number % 7: now * 1_000_000)
        ids.append(new_job_id())
    assert ids == sorted(ids)


def test_job_ids_follow_a_clock_that_was_set_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """A clock that was an hour ahead for a moment does not date the ids of the next hour."""
    now = 1_800_000_000_000
    monkeypatch.setattr(time, "time_ns", lambda: (now + 3_600_000) * 1_000_000)
    new_job_id()
    monkeypatch.setattr(time, "time_ns", lambda: now * 1_000_000)
    assert UUID(new_job_id()).int >> 80 == now


def test_job_ids_are_never_the_same() -> None:
    """Ids made in one moment differ."""
    assert len({new_job_id() for _ in range(5000)}) == 5000


def test_worker_ids_are_fresh_and_seedable() -> None:
    """Incarnations differ, all of one length, and a simulator can repeat them."""
    one, same = Random(1), Random(1)
    ids = [new_worker_id(one) for _ in range(5000)]
    assert len(set(ids)) == 5000
    assert {len(worker) for worker in ids} == {16}
    assert [new_worker_id(same) for _ in range(5000)] == ids


def test_the_first_id_of_a_moment_is_less_than_those_made_from_then_on() -> None:
    """A span of time is a span of ids, to the millisecond."""
    when = datetime.now(UTC)
    bound, job_id = first_id_at(when), new_job_id()
    assert bound < job_id < first_id_at(when + timedelta(hours=1))
    assert made_at(bound) == when.replace(microsecond=when.microsecond // 1000 * 1000)
    assert first_id_at(datetime(1969, 12, 31, tzinfo=UTC)) < bound
