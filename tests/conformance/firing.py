"""Fires: what was decided about the planned times of schedules, written with their change and kept for a while."""

from datetime import UTC, datetime, timedelta
from itertools import chain

import pytest

from conformance.harness import Harness
from standfast.model.records import FIRES_KEPT, Decision, Fire, FireCause

BATCH = 300


def _in(seconds: float) -> timedelta:
    return timedelta(seconds=seconds)


def _fires(harness: Harness, schedule: str | None = None, limit: int = 100, **fields: datetime) -> list[Fire]:
    return [*harness.run(harness.verbs.fires(schedule, limit, **fields))]


def _fill(harness: Harness, name: str, first: datetime, number: int) -> None:
    """Let a schedule have so many fires, a second from one to the next, in a few changes."""
    record = harness.record(name)
    seen = 0 if record is None else record.version
    for start in range(0, number, BATCH):
        planned = [first + _in(second) for second in range(start, min(start + BATCH, number))]
        fires = tuple(harness.new_fire(name, planned=time) for time in planned)
        assert harness.change(name, seen=seen, fires=fires)
        seen += 1


class Firing:
    """Fires are read as they were written, the latest planned first."""

    @pytest.mark.parametrize("decision", list(Decision))
    def test_a_fire_is_shown_whole(self, harness: Harness, decision: Decision) -> None:
        """All that was said of a fire is read again; when it was decided the store says itself."""
        planned = datetime(2031, 3, 30, 1, 2, 3, 456789, tzinfo=UTC)
        fires = (
            Fire("a", planned, decision, FireCause.BACKFILL, 5, planned + _in(60), "job-1", "because \N{SNOWMAN}"),
            Fire("a", planned - _in(1), decision, decided_at=planned),
        )
        harness.change("a", fires=fires)
        now = harness.clock.now()
        assert _fires(harness) == [
            Fire(
                "a",
                planned,
                decision,
                FireCause.BACKFILL,
                5,
                planned + _in(60),
                "job-1",
                "because \N{SNOWMAN}",
                now,
            ),
            Fire("a", planned - _in(1), decision, FireCause.RULE, 1, None, None, None, now),
        ]

    def test_the_latest_planned_comes_first(self, harness: Harness) -> None:
        """Whatever the order in which they were decided, fires come by their planned times, future ones too."""
        now, seconds = harness.clock.now(), [5, -3, 60, 0, -7200]
        for seen, second in enumerate(seconds):
            harness.change("a", seen=seen, fires=(harness.new_fire(planned=now + _in(second)),))
            harness.clock.advance(1)
        expected = [now + _in(second) for second in sorted(seconds, reverse=True)]
        assert [fire.planned for fire in _fires(harness)] == expected

    def test_fires_of_one_schedule_or_of_all(self, harness: Harness) -> None:
        """Each is asked for by its name; together they come by time, then by name and cause, backwards."""
        now = harness.clock.now()
        for name in ("b", "a", "B"):
            fires = [harness.new_fire(name, cause=cause) for cause in FireCause]
            harness.change(name, fires=(*fires, harness.new_fire(name, planned=now - _in(1))))
        of_a = _fires(harness, "a")
        assert [(fire.planned, fire.cause) for fire in of_a] == [
            *((now, cause) for cause in (FireCause.TRIGGER, FireCause.RULE, FireCause.BACKFILL)),
            (now - _in(1), FireCause.RULE),
        ]
        assert {fire.schedule for fire in of_a} == {"a"}
        everything = _fires(harness)
        order = [(fire.planned, fire.schedule, fire.cause.value) for fire in everything]
        assert order == sorted(order, reverse=True)
        assert [fire for fire in everything if fire.schedule == "a"] == of_a
        assert len(everything) == 12
        assert _fires(harness, "unknown") == []

    def test_pages_of_fires(self, harness: Harness) -> None:
        """Pages follow each other by the planned time, without gap or overlap."""
        now = harness.clock.now()
        _fill(harness, "a", now, 5)
        _fill(harness, "b", now, 5)
        for schedule in ("a", "b"):
            pages = [_fires(harness, schedule, 2)]
            while pages[-1]:
                pages.append(_fires(harness, schedule, 2, before=pages[-1][-1].planned))
            assert [len(page) for page in pages] == [2, 2, 1, 0]
            assert list(chain(*pages)) == _fires(harness, schedule)
        assert _fires(harness, "a", 0) == []

    def test_a_page_ends_between_two_times(self, harness: Harness) -> None:
        """Those planned for the same time stay together: the next page begins before all of them."""
        now = harness.clock.now()
        for name in "abc":
            _fill(harness, name, now, 3)
        page = _fires(harness, limit=2)
        assert [(fire.planned, fire.schedule) for fire in page] == [(now + _in(2), name) for name in "cba"]
        page = _fires(harness, limit=4, before=page[-1].planned)
        assert [fire.planned for fire in page] == [now + _in(1)] * 3 + [now] * 3
        assert _fires(harness, before=now) == []
        harness.change("a", seen=1, fires=(harness.new_fire(planned=now, cause=FireCause.TRIGGER),))
        assert len(_fires(harness, "a", 3)) == 4

    def test_a_known_fire_is_overwritten(self, harness: Harness) -> None:
        """Schedule, planned time and cause tell which fire it is; all else is as the last change had it."""
        first = harness.new_fire(count=2, until=harness.clock.now() + _in(9), job_id="job-1", note="first")
        others = (harness.new_fire(cause=FireCause.TRIGGER), harness.new_fire(planned=first.planned - _in(1)))
        harness.change("a", fires=(first, *others))
        decided_at = harness.clock.now()
        harness.clock.advance(3)
        harness.change("a", seen=1, fires=(Fire("a", first.planned, Decision.REVOKED, note="taken back"),))
        trigger, revoked, earlier = _fires(harness)
        now = harness.clock.now()
        assert revoked == Fire("a", first.planned, Decision.REVOKED, note="taken back", decided_at=now)
        assert (trigger.decided_at, earlier.decided_at) == (decided_at, decided_at)
        assert (trigger.cause, earlier.decision) == (FireCause.TRIGGER, Decision.FIRED)

    def test_a_fire_twice_in_one_change(self, harness: Harness) -> None:
        """The last one counts."""
        harness.change("a", fires=tuple(harness.new_fire(note=note) for note in ("first", "last")))
        assert [fire.note for fire in _fires(harness)] == ["last"]

    def test_fires_stay_with_the_change_of_their_record(self, harness: Harness) -> None:
        """A change without fires leaves those before it as they are."""
        harness.change("a", fires=(harness.new_fire(),))
        before = _fires(harness)
        harness.clock.advance(1)
        assert harness.change("a", seen=1, body=b"new")
        assert _fires(harness) == before

    def test_the_latest_fires_are_kept(self, harness: Harness) -> None:
        """Of each schedule those planned last are kept, whenever they were decided; the others go some day."""
        now = harness.clock.now()
        _fill(harness, "few", now - _in(10**6), 3)
        _fill(harness, "many", now, FIRES_KEPT + BATCH)
        _fill(harness, "many", now - _in(10 * FIRES_KEPT), 2 * FIRES_KEPT)
        kept = _fires(harness, "many", 10 * FIRES_KEPT)
        latest = [now + _in(FIRES_KEPT + BATCH - 1 - place) for place in range(FIRES_KEPT)]
        assert [fire.planned for fire in kept[:FIRES_KEPT]] == latest
        assert len(kept) <= 2 * FIRES_KEPT
        assert len(_fires(harness, "few")) == 3
