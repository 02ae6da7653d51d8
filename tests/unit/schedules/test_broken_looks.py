"""What once hid schedules from those who fire: one that nobody can read, many at once, and one that fails."""

from datetime import timedelta

import pytest

from schedule_stage import JOB, NAME, NOON, Stage
from standfast import Cron, Every
from standfast.errors import (
    ScheduleNotFoundError,
    ScheduleUnreadableError,
    StoreUnavailableError,
    ValueNotStoredError,
)
from standfast.model.records import Change, Kind, Record
from standfast.schedules import fires
from standfast.schedules.decision import decide
from standfast.schedules.schedule import Plan, Schedule, encode_plan, read_schedule


@pytest.mark.parametrize("body", ["Mars/Base", "99 2 * * *", "\udcff"])
def test_what_this_machine_does_not_know_is_unreadable(body: str) -> None:
    """A zone or an expression that means nothing here concerns one schedule, and not every other."""
    plan = Plan(Cron("0 2 * * *", tz="Asia/Taipei"), JOB, created_at=NOON, cursor=NOON)
    old = "Asia/Taipei" if "/" in body else "0 2 * * *"
    spoilt = encode_plan(plan).replace(old.encode(), body.encode("utf-8", "surrogateescape"))
    with pytest.raises(ScheduleUnreadableError):
        read_schedule(Record(Kind.SCHEDULE, NAME, 1, None, spoilt, "token"))


def test_many_that_nobody_can_read_do_not_hide_the_others() -> None:
    stage = Stage(Every(30))
    for number in range(2 * fires.AT_ONCE):
        stage.spoil(f"newer-{number}", b'{"rule":{"rule":"moon"}}')
    stage.clock.advance(25)
    assert [fire.schedule for fire in stage.look().fires] == [NAME]


def test_what_nobody_can_read_does_not_spoil_the_list(caplog: pytest.LogCaptureFixture) -> None:
    stage = Stage(Every(30))
    stage.spoil("newer", b"?")
    assert [schedule.name for schedule in stage.call(stage.schedules.list())] == [NAME]
    assert "'newer' cannot be read" in caplog.text


def test_what_nobody_can_read_can_be_deleted() -> None:
    stage = Stage()
    stage.spoil(NAME, b"?")
    stage.call(stage.schedules.delete(NAME))
    with pytest.raises(ScheduleNotFoundError):
        stage.call(stage.schedules.get(NAME))


def test_many_that_are_due_at_once_are_fired_one_look_after_the_other() -> None:
    """A look that leaves some over says so; else they would wait for the next beat."""
    stage = Stage()
    for number in range(2 * fires.AT_ONCE + 1):
        stage.create(f"every-{number}", Every(60))
    stage.clock.advance(55)
    fired = [stage.look() for _ in range(3)]
    assert [len(look.fires) for look in fired] == [fires.AT_ONCE, fires.AT_ONCE, 1]
    now = stage.clock.now()
    assert [look.next_due_at == now for look in fired] == [True, True, False]


def test_a_look_tells_of_others_that_are_due_soon() -> None:
    stage = Stage(Every(30))
    stage.clock.advance(2)
    stage.create("other", Every(30))
    stage.clock.advance(18)
    assert stage.look().next_due_at == NOON + timedelta(seconds=22)


def test_schedules_that_are_due_one_after_the_other_share_a_look() -> None:
    stage = Stage()
    for number in range(10):
        stage.create(f"s{number}", Every(60, overlap="allow"))
        stage.clock.advance(0.1)
    stage.clock.advance(49)
    look = stage.look()
    assert [fire.planned for fire in look.fires] == [NOON + timedelta(seconds=60 + n / 10) for n in range(10)]
    assert look.next_due_at == NOON + timedelta(seconds=110)


def test_what_is_to_be_decided_on_the_moment_is_not_written_before() -> None:
    stage = Stage(Every(60, overlap="skip"))
    stage.clock.advance(55)
    stage.look()
    stage.start(stage.claim())
    stage.clock.advance(64.5)
    stage.look()
    version = stage.schedule.version
    assert stage.look().next_due_at == NOON + timedelta(seconds=120)
    assert stage.schedule.version == version


@pytest.mark.parametrize("trouble", ["deciding", "writing"])
def test_one_that_cannot_be_fired_is_in_nobodys_way(monkeypatch: pytest.MonkeyPatch, trouble: str) -> None:
    """The others are fired; it stays due, is told of, and is not looked at again and again."""
    stage = Stage()
    for name in ("good", "bad", "better"):
        stage.create(name, Every(60))
    stage.clock.advance(55)
    change_records = stage.verbs.change_records

    def decide_but_one(schedule: Schedule, *args, **options):
        if schedule.name == "bad":
            raise OverflowError("a date is out of range")
        return decide(schedule, *args, **options)

    def change_but_one(changes: list[Change]):
        if "bad" in {change.name for change in changes}:
            raise ValueNotStoredError("a date is out of range")
        return change_records(changes)

    if trouble == "deciding":
        monkeypatch.setattr(fires, "decide", decide_but_one)
    else:
        monkeypatch.setattr(stage.verbs, "change_records", change_but_one)
    look = stage.look()
    assert sorted(fire.schedule for fire in look.fires) == ["better", "good"]
    assert look.next_due_at == NOON + timedelta(seconds=110)
    (told,) = look.troubles
    assert told.startswith("schedule 'bad' could not be fired")
    assert told.endswith("a date is out of range")


def test_an_outage_is_no_fault_of_a_schedule(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = Stage()
    for name in ("one", "two"):
        stage.create(name, Every(60))
    stage.clock.advance(55)
    asked = []

    def fail(changes: list[Change]):
        asked.append(len(changes))
        raise StoreUnavailableError("the server is down")

    monkeypatch.setattr(stage.verbs, "change_records", fail)
    with pytest.raises(StoreUnavailableError):
        stage.look()
    assert asked == [2]
