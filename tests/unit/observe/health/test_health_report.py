"""What a look at the store means."""

from datetime import UTC, datetime, timedelta

from standfast import Window
from standfast.observe.health.status import StoreStatus, assess
from standfast.schedules.closed_hours import About, declare_hours
from standfast.stores.values import QueueAge, QueueAges, Worker, WorkerInfo

NOW = datetime(2026, 5, 4, 14, 3, 4, tzinfo=UTC)
SECOND = timedelta(seconds=1)


def worker(age, *, condemned=False):
    info = WorkerInfo("w", "s", "secret-host", 4242, 15 * SECOND)
    return Worker(info, NOW, age * SECOND, condemned=condemned, held=0, running=0)


def seen(*workers, queues=(), windows=()):
    return StoreStatus(0.002, workers, QueueAges(NOW, tuple(queues)), windows)


def test_one_live_worker_will_do():
    report = assess(seen(worker(99), worker(3), worker(2, condemned=True)))
    assert (report.ok, report.workers, report.last_beat) == (True, 1, 2 * SECOND)
    assert [(check.name, check.ok, check.says) for check in report.checks] == [
        ("store", True, "answered within 2 ms"),
        ("workers", True, "1 live worker"),
    ]


def test_without_a_live_worker_it_is_not_ready():
    report = assess(seen(worker(99)))
    assert (report.ok, report.workers, report.last_beat) == (False, 0, 99 * SECOND)
    assert assess(seen()).fields()["last_beat"] is None


def test_in_a_host_only_its_own_worker_counts():
    assert assess(seen(worker(1)), warm=False).ok is False
    assert assess(seen(), warm=True).ok is True
    assert assess(StoreStatus(problem="does not answer"), warm=True).ok is False


def test_a_store_that_does_not_answer_leaves_the_rest_unknown():
    fields = assess(StoreStatus(problem="does not answer")).fields()
    assert fields["status"] == "failing"
    assert fields["checks"] == [
        {"check": "store", "ok": False, "warns": False, "says": "the store does not answer"}
    ]
    assert [fields[name] for name in ("time", "last_beat", "lag")] == [None, None, None]


def test_the_lag_is_of_queues_that_nobody_holds_up():
    closed = declare_hours(About.QUEUE, "nightly", Window("09:00", "18:00"))
    ages = [
        QueueAge("mail", NOW - 12.5 * SECOND),
        QueueAge("new", NOW + SECOND),
        QueueAge("nightly", NOW - 3600 * SECOND),
        QueueAge("paused", NOW - 7200 * SECOND, NOW),
    ]
    fields = assess(seen(worker(1), queues=ages, windows=[closed])).fields()
    assert fields["lag"] == 12.5
    assert fields["queues"] == {
        "mail": {"age": 12.5, "held_up": None},
        "new": {"age": 0.0, "held_up": None},
        "nightly": {"age": 3600.0, "held_up": "closed"},
        "paused": {"age": 7200.0, "held_up": "paused"},
    }
    assert assess(seen(worker(1))).fields()["lag"] == 0.0
