"""What is asked for when a job is enqueued is what is there: no field is dropped on some shorter way."""

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any

from conformance.harness import Harness
from standfast.model.job import Job, NewJob, OnLate

_SPAN = timedelta(hours=1)


def _asked(now: datetime) -> dict[str, tuple[dict[str, Any], dict[str, Any]]]:
    """Return for each field of a new job how it is given a value of its own, and what is then to be seen."""
    same: dict[str, Any] = {
        "task": "other",
        "payload": b'{"x": 1}',
        "version": 2,
        "queue": "other",
        "priority": 3,
        "max_attempts": 9,
        "run_at": now + _SPAN,
        "key": "k",
        "tags": ("a", "b"),
        "metadata": {"who": "me"},
    }
    return {
        **{field: ({field: value}, {field: value}) for field, value in same.items()},
        "delay": ({"delay": _SPAN}, {"run_at": now + _SPAN}),
        "keep_key": ({"keep_key": _SPAN}, {"keep_key": _SPAN}),
        "start_within": ({"start_within": _SPAN}, {"start_by": now + _SPAN}),
        "on_late": ({"start_within": _SPAN, "on_late": OnLate.EXPIRE}, {"on_late": OnLate.EXPIRE}),
    }


_SEEN_ELSEWHERE = {"id", "on_conflict"}
"""The id is how a job is found. The other shows when another job comes with the same key: see keys.py."""


class Accepting:
    """Every field of a new job is seen again, alone or with others, and whatever comes in the same call."""

    def test_every_field_is_looked_at(self, harness: Harness) -> None:
        """A field that is added to NewJob is added here."""
        assert set(NewJob.__struct_fields__) == {*_asked(harness.clock.now()), *_SEEN_ELSEWHERE}

    def test_each_field_is_seen_again(self, harness: Harness) -> None:
        """Each as the only one that is not at its default."""
        for asked, seen in _asked(harness.clock.now()).values():
            assert _seen_of(harness, harness.enqueue(**asked), seen) == seen

    def test_each_field_is_seen_again_among_plain_jobs(self, harness: Harness) -> None:
        """A job that has more to say than those beside it says all of it, and they say no more for that."""
        plain = _seen_of(harness, harness.enqueue(), _SHOWN)
        for asked, seen in _asked(harness.clock.now()).values():
            first, job, last = (harness.new_job(**fields) for fields in ({}, asked, {}))
            harness.run(harness.verbs.enqueue([first, job, last]))
            assert _seen_of(harness, job.id, seen) == seen
            assert _seen_of(harness, first.id, _SHOWN) == plain
            assert _seen_of(harness, last.id, _SHOWN) == plain

    def test_all_fields_are_seen_together(self, harness: Harness) -> None:
        """None is in the way of another."""
        asked: dict[str, Any] = {}
        seen: dict[str, Any] = {}
        for more_asked, more_seen in _asked(harness.clock.now()).values():
            asked |= more_asked
            seen |= more_seen
        del asked["delay"]
        seen["start_by"] = seen["run_at"] + _SPAN
        assert _seen_of(harness, harness.enqueue(**asked), seen) == seen


_SHOWN = tuple({*NewJob.__struct_fields__, "start_by"} & {*Job.__struct_fields__} - {"id"})


def _seen_of(harness: Harness, job_id: str, fields: Iterable[str]) -> dict[str, Any]:
    job = harness.job(job_id)
    return {field: getattr(job, field) for field in fields}
