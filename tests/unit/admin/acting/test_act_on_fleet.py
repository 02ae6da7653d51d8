"""What is done to queues, schedules, workers and locks."""

from datetime import timedelta

import msgspec
import pytest

from dashboard_stage import SECRET, WORKER
from standfast.admin.operation import NotAllowedError, NotThereError, Role, WrongRequestError
from standfast.admin.registry import BY_NAME, OPERATIONS
from standfast.durable.lockstate import LockRequest, take
from standfast.errors import ConfigurationError, ScheduleNotFoundError
from standfast.model.records import Kind
from standfast.schedules.fires import create
from standfast.schedules.rules import Cron, Every
from standfast.schedules.schedule import Template, read_schedule
from standfast.supervisor.orders import Order, refuse_order, take_orders


@pytest.fixture
def nightly(stage):
    rule = Cron("0 2 * * *", tz="Asia/Taipei", overlap="allow")
    stage.do(create(stage.verbs, "nightly", rule, Template("mail", SECRET, queue="mail"), timedelta()))

    def plan():
        [record] = stage.do(stage.verbs.records(Kind.SCHEDULE, ("nightly",)))
        return read_schedule(record).plan

    return plan


def test_a_queue_is_paused_and_goes_on(stage):
    """Since when is answered; a name that no queue can have is refused."""
    assert stage.act("queues.pause", Role.OPERATOR, name="mail").paused_at == stage.clock.now()
    assert stage.act("queues.resume", Role.OPERATOR, name="mail").paused_at is None
    with pytest.raises(ConfigurationError):
        stage.act("queues.pause", name="<script>")


def test_a_schedule_is_paused_and_goes_on(stage, nightly):
    """With the reason, for those who look later."""
    assert stage.act("schedules.pause", name="nightly", why="disk full").state == "paused"
    assert nightly().paused_why == "disk full"
    assert stage.act("schedules.resume", name="nightly").state == "active"
    assert str(stage.read("audit.list").entries[0].before) == "paused"
    with pytest.raises(ScheduleNotFoundError):
        stage.act("schedules.pause", name="nix")


def test_a_schedule_is_edited_by_what_is_said(stage, nightly):
    """Times, zone, routing and arguments; options and secrets stay."""
    stage.act("schedules.edit", name="nightly", cron="30 3 * * *")
    assert nightly().rule == Cron("30 3 * * *", tz="Asia/Taipei", overlap="allow")
    stage.act("schedules.edit", name="nightly", tz="UTC", queue="slow", max_attempts=2)
    assert (nightly().rule.tz, nightly().job.queue, nightly().job.max_attempts) == ("UTC", "slow", 2)
    stage.act("schedules.edit", name="nightly", every=900.0)
    assert nightly().rule == Every(900, overlap="allow")
    stage.act("schedules.edit", name="nightly", args={"to": "bob"})
    payload = msgspec.json.decode(nightly().job.payload)
    assert payload == {"v": 1, "args": {"to": "bob"}, "secret": {"token": "hunter2-hunter2"}}
    rule = {**msgspec.to_builtins(Cron("0 5 * * *")), "jitter": 5.0}
    stage.act("schedules.edit", name="nightly", rule=rule)
    assert (nightly().rule.expression, nightly().rule.jitter) == ("0 5 * * *", 5.0)
    assert str(stage.read("audit.list").entries[0].after).startswith("at 05:00 every day")


def test_times_that_are_said_as_they_are_stay_as_they_are(stage, nightly):
    """As a form says them in which something else was changed."""
    stage.act("schedules.edit", name="nightly", rule=msgspec.to_builtins(Every(900, anchored=True)))
    before = nightly().rule
    stage.act("schedules.edit", name="nightly", every=900.0, queue="slow")
    assert (nightly().rule, nightly().job.queue) == (before, "slow")
    stage.act("schedules.edit", name="nightly", every=60.0)
    assert nightly().rule == Every(60, anchored=True)


@pytest.mark.parametrize(
    "wrong",
    [
        {},
        {"cron": "61 * * * *"},
        {"cron": "0 5 * * *", "every": 5.0},
        {"tz": "Mars/Base"},
        {"rule": {"rule": "nix"}},
        {"rule": {"rule": "cron", "expression": "nix"}},
        {"queue": "not a queue"},
    ],
)
def test_an_edit_that_means_nothing_changes_nothing(stage, nightly, wrong):
    """It says what is wrong."""
    before = nightly()
    with pytest.raises((WrongRequestError, ConfigurationError)):
        stage.act("schedules.edit", name="nightly", **wrong)
    assert nightly() == before


@pytest.mark.usefixtures("nightly")
def test_past_times_are_made_up_for(stage):
    """Counted first, then enqueued, each once."""
    stage.clock.advance(5 * 86_400)
    stage.act("schedules.pause", name="nightly")
    counted = stage.act("schedules.backfill", name="nightly", since="3d", dry=True).count
    assert (counted, stage.read("jobs.count").count) == (3, 0)
    assert stage.act("schedules.backfill", name="nightly", since="3d").count == 3
    assert stage.act("schedules.backfill", name="nightly", since="3d").count == 0
    with pytest.raises(WrongRequestError):
        stage.act("schedules.backfill", name="nightly", since="1h", until="2h")


def test_a_schedule_is_deleted(stage, nightly):
    """By admins."""
    with pytest.raises(NotAllowedError):
        stage.act("schedules.delete", Role.OPERATOR, name="nightly")
    assert nightly()
    stage.act("schedules.delete", name="nightly")
    assert stage.read("schedules.list").schedules == ()


def test_orders_reach_the_supervisor(stage):
    """As records that it takes; nobody is ordered about who is not there."""
    stage.register()
    recycle = stage.act("workers.recycle", id=WORKER, force=True).order
    dump = stage.act("workers.dump", id=WORKER).order
    records = stage.do(stage.verbs.records(Kind.ORDER))
    orders = {record.name: msgspec.json.decode(record.body, type=Order) for record in records}
    assert (orders[recycle].what, orders[recycle].details, orders[recycle].worker) == (
        "recycle",
        {"force": "yes"},
        WORKER,
    )
    assert orders[dump].what == "dump"
    with pytest.raises(NotAllowedError):
        stage.act("workers.drain", Role.OPERATOR, id=WORKER)
    drain = stage.act("workers.drain", id=WORKER).order
    [record] = stage.do(stage.verbs.records(Kind.ORDER, (drain,)))
    ordered = msgspec.json.decode(record.body, type=Order)
    assert (ordered.what, ordered.worker) == ("drain", WORKER)
    stage.clock.advance(60)
    for worker in (WORKER, "nix"):
        with pytest.raises(NotThereError):
            stage.act("workers.dump", id=worker)


def test_a_lock_is_taken_from_its_holder(stage):
    """And who that was is written down."""
    stage.do(take(stage.verbs, Kind.LOCK, "a/b", LockRequest("h1", timedelta(seconds=30), 1, "web-01 pid 7")))
    assert [holder.owner for holder in stage.act("locks.release", name="a/b").released] == ["web-01 pid 7"]
    assert stage.read("locks.list").locks[0].holders == ()
    assert str(stage.read("audit.list").entries[0].before) == "web-01 pid 7"
    with pytest.raises(NotThereError):
        stage.act("locks.release", name="nix")


def test_every_operation_is_in_the_table_once():
    """By its name and by its path; what is asked of one that reads can be a key."""
    assert len(BY_NAME) == len(OPERATIONS)
    assert len({(each.path, each.changes) for each in OPERATIONS}) == len(OPERATIONS)
    assert all(each.about for each in OPERATIONS)
    assert {each.role for each in OPERATIONS if not each.changes} == {Role.VIEWER}
    assert all(each.role > Role.VIEWER for each in OPERATIONS if each.changes)


def test_who_gave_an_order_reads_why_it_was_refused(stage):
    """As its supervisor has answered, on the page of the worker; other workers have nothing to do with it."""
    stage.register()
    stage.register("b" * 16)
    order = stage.act("workers.drain", id=WORKER).order
    [seen] = stage.read("workers.show", id=WORKER).orders
    assert (seen.id, seen.what, seen.taken, seen.refused) == (order, "drain", False, None)
    stage.do(take_orders(stage.verbs, lambda _: True))
    assert stage.read("workers.show", id=WORKER).orders[0].taken
    stage.do(refuse_order(stage.verbs, order, "a worker inside a web process is stopped with its host"))
    dump = stage.act("workers.dump", id=WORKER).order
    answers = [(each.id, each.refused) for each in stage.read("workers.show", id=WORKER).orders]
    assert answers == [(dump, None), (order, "a worker inside a web process is stopped with its host")]
    assert stage.read("workers.show", id="b" * 16).orders == ()
