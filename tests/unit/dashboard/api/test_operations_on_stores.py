"""Operations on every store: what memory answers, the others answer too."""

from datetime import timedelta

import pytest

from dashboard_stage import SECRET, WORKER, open_stage
from empty_stores import STORES
from standfast.admin.registry import OPERATIONS
from standfast.model.states import State
from standfast.schedules.fires import create
from standfast.schedules.rules import Cron
from standfast.schedules.schedule import Template


@pytest.fixture(params=STORES)
def stage(request, tmp_path):
    opener = STORES[request.param]
    with open_stage(lambda clock: opener(request, tmp_path, clock)) as stage:
        yield stage


def ids(seen):
    return [row.id for row in seen.rows]


def test_a_day_at_the_desk(stage):
    """Every read, and what a person does about failed mails: find, count, retry all, edit one, and look again."""
    gone = [stage.dead(f"user {number} is gone", tags=("vip",)) for number in range(5)]
    secret = stage.dead("disk full", payload=SECRET, key="order-7")
    done = stage.completed(task="resize", queue="images")
    runs = stage.running(task="crawl", queue="web")
    later = stage.enqueue(run_at=stage.clock.now() + timedelta(hours=1))
    stage.do(create(stage.verbs, "nightly", Cron("0 2 * * *"), Template("x", b'{"v":1,"args":{}}'), timedelta()))

    asked = {"jobs.show": {"id": secret}, "queues.show": {"name": "mail"}, "schedules.show": {"name": "nightly"}}
    asked |= {"workers.show": {"id": WORKER}, "incidents.show": None, "tasks.show": None}
    for operation in OPERATIONS:
        if not operation.changes and asked.get(operation.name, {}) is not None:
            assert isinstance(stage.read(operation.name, **asked.get(operation.name, {})), operation.answer)

    assert ids(stage.read("jobs.list")) == [later, runs, done, secret, *gone[::-1]]
    assert ids(stage.read("jobs.list", text="ORDER-7")) == [secret]
    assert ids(stage.read("jobs.list", tag=("vip",), error="user 3")) == [gone[3]]
    assert ids(stage.read("jobs.list", worker=WORKER)) == [runs]
    assert ids(stage.read("jobs.list", state=(State.COMPLETED,), task="resize", since="1h")) == [done]
    assert ids(stage.read("jobs.list", until="1h")) == []
    groups = stage.read("dead.groups").groups
    assert [group.count for group in groups] == [5, 1]

    which = {"fingerprint": groups[0].fingerprint, "action": "retry"}
    counted = stage.read("jobs.count", **which)
    told = stage.act("jobs.bulk", **which, expected=counted.count, confirm=counted.confirm)
    assert (counted.count, told.done) == (5, 5)
    assert {stage.job(job).state for job in gone} == {State.READY}

    new = stage.act("jobs.edit_and_retry", id=secret, args={"to": "bob"}).job
    assert stage.act("jobs.edit_and_retry", id=secret, args={"to": "bob"}).job == new
    assert (stage.job(new).key, b"hunter2" in stage.job(new).payload) == ("order-7", True)
    assert stage.act("jobs.reschedule", id=later, at="2h").answer == "rescheduled"
    assert stage.act("jobs.cancel", id=later).answer == "cancelled"
    assert stage.act("queues.pause", name="mail").paused_at is not None
    assert [each.code for each in stage.read("overview.show").verdict.findings] == ["queue_paused"]
    assert [each.what for each in stage.read("audit.list").entries][:2] == ["queues.pause", "jobs.cancel"]


STRANGE = ("' OR 1=1 --", "%", "_%_", "\\", "]]>", "<script>alert(1)</script>", "redis.call('FLUSHALL')", "𝓾\u200b")


def test_what_is_strange_in_filters_is_a_text_like_any_other(stage):
    """It finds nothing, fails nowhere, and changes nothing."""
    stage.dead()
    for strange in STRANGE:
        for name in ("task", "queue", "key", "error", "fingerprint", "text", "worker", "schedule"):
            assert stage.read("jobs.list", **{name: strange}).rows == (), (name, strange)
        assert stage.read("jobs.list", tag=(strange,)).rows == ()
        assert len(stage.read("jobs.list", before=strange).rows) <= 1
    assert stage.read("jobs.count").count == 1
