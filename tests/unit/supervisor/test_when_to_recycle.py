"""Which child is replaced next, and why: decided from what is known of the children, at a time."""

from datetime import UTC, datetime, timedelta

import pytest

from standfast import Cron, Every, Window
from standfast.schedules.closed_hours import RecycleRules
from standfast.settings import Settings
from standfast.supervisor.recycler import ROOM, SPREAD, TOO_MUCH, Due, Limits, Urgency, Wear, Wish

NOW = datetime(2030, 1, 2, 12, 0, tzinfo=UTC)
MB = 1_000_000
NIGHT = Cron("0 3 * * *")


def child(worker: str = "a", age: float = 100, **known) -> Wear:
    return Wear(worker, age, NOW - timedelta(seconds=age), **known)


def due(
    *children: Wear, rules: RecycleRules | None = None, now: datetime = NOW, wishes=None, **settings
) -> list[Due]:
    limits = Limits(Settings(**settings), rules or RecycleRules())
    return limits.due(children, wishes or {}, now)


def test_without_limits_nobody_is_due() -> None:
    assert due(child(age=1e9, ended=10**9, memory=10**12)) == []


@pytest.mark.parametrize(
    ("settings", "vitals", "urgency"),
    [
        ({"recycle_age": 100}, {"age": 100}, Urgency.AGE),
        ({"recycle_jobs": 50}, {"ended": 50}, Urgency.JOBS),
        ({"recycle_memory": 400 * MB}, {"memory": 400 * MB + 1}, Urgency.MEMORY),
    ],
)
def test_a_child_is_due_at_its_limit_and_not_before(settings, vitals, urgency) -> None:
    [found] = due(child(**vitals), **settings)
    assert (found.worker, found.urgency, found.alone) == ("a", urgency, True)
    assert str(urgency.name).lower() in found.words
    [(name, value)] = vitals.items()
    assert due(child(**{name: value - 1}), **settings) == []


def test_children_of_one_age_do_not_go_at_once() -> None:
    """Each has its own share of a tenth on top, of the age and of the jobs alike."""
    late = 100 * (1 + SPREAD)
    assert due(child(age=late - 1, spread=1.0), recycle_age=100) == []
    assert due(child(ended=int(late) - 1, spread=1.0), recycle_jobs=100) == []
    assert len(due(child(age=late, spread=1.0), recycle_age=100)) == 1


def test_the_time_comes_once_for_each_child() -> None:
    """At the first planned time after its start; one that was started after it waits for the next day."""
    rules = RecycleRules(NIGHT)
    at_three = NOW.replace(hour=3)
    started_before, started_after = child("old", 10 * 3600), child("new", 8 * 3600)
    assert [each.worker for each in due(started_before, started_after, rules=rules)] == ["old"]
    assert due(Wear("x", 1, at_three - timedelta(seconds=1)), rules=rules, now=at_three)[0].urgency is Urgency.TIME
    assert due(Wear("x", 1, at_three), rules=rules, now=at_three) == []


def test_excluded_times_do_not_count() -> None:
    rules = RecycleRules(Cron("0 3 * * *", exclude="wed"))
    assert NOW.weekday() == 2
    assert due(child(age=10 * 3600), rules=rules) == []
    assert len(due(child(age=40 * 3600), rules=rules)) == 1


def test_any_rule_will_do() -> None:
    assert due(child(age=59), rules=RecycleRules(Every(60))) == []
    assert len(due(child(age=60), rules=RecycleRules(Every(60)))) == 1


def test_inside_a_forbidden_window_nothing_is_a_reason_but_force() -> None:
    rules = RecycleRules(NIGHT, (Window("11:00", "13:00"),))
    limits = {"recycle_age": 1, "recycle_jobs": 1, "recycle_memory": MB}
    worst = child(age=1e6, ended=10**6, memory=10**12)
    ordered = {"a": Wish(Urgency.COMMAND, "ordered")}
    assert due(worst, rules=rules, wishes=ordered, **limits) == []
    forced = {"a": Wish(Urgency.COMMAND, "ordered", force=True)}
    assert [each.worker for each in due(worst, rules=rules, wishes=forced, **limits)] == ["a"]
    assert len(due(worst, rules=rules, now=NOW.replace(hour=13), **limits)) == 1


def test_the_most_urgent_goes_first_and_then_the_oldest() -> None:
    found = due(
        child("young", 200),
        child("old", 300),
        child("big", 1, memory=2 * MB),
        child("asked", 2),
        wishes={"asked": Wish(Urgency.COMMAND, "ordered")},
        recycle_age=100,
        recycle_memory=MB,
    )
    assert [each.worker for each in found] == ["big", "asked", "old", "young"]


def test_far_too_much_memory_waits_for_no_other_machine() -> None:
    limit = 100 * MB
    [much] = due(child(memory=int(TOO_MUCH * limit)), recycle_memory=limit)
    [too_much] = due(child(memory=int(TOO_MUCH * limit) + 1), recycle_memory=limit)
    assert (much.alone, too_much.alone) == (True, False)


def test_a_limit_below_what_a_fresh_child_takes_does_not_replace_it_for_ever() -> None:
    """It is given room beyond what it began with."""
    began = 80 * MB
    limit = {"recycle_memory": 50 * MB}
    assert due(child(memory=int(ROOM * began), began_with=began), **limit) == []
    assert len(due(child(memory=int(ROOM * began) + 1, began_with=began), **limit)) == 1


def test_a_changed_file_asks_nobody() -> None:
    wishes = {"a": Wish(Urgency.FILE_CHANGED, "jobs.py has changed", force=True)}
    [found] = due(child(), rules=RecycleRules(never=(Window("11:00", "13:00"),)), wishes=wishes)
    assert not found.alone
