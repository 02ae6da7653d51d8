"""What may be declared of limits, what may not, and how peaks change them."""

from datetime import UTC, datetime, timedelta

import pytest

from standfast import ConfigurationError, Standfast, Window
from standfast.schedules.limits import Limit, declare_limit

DAY = Window("09:00", "18:00", tz="Asia/Taipei")
NIGHT = Window("22:00", "02:00", tz="Asia/Taipei")
NOON = datetime(2026, 3, 2, 4, 0, tzinfo=UTC)
HOUR = timedelta(hours=1)


def test_a_limit_by_the_time() -> None:
    """Inside a window its number holds, at its end no more."""
    limit = declare_limit("gate 'reports'", 8, {DAY: 1, NIGHT: 4})
    assert [limit.at(NOON + hours * HOUR) for hours in (-3, 0, 5, 6, 11, 14)] == [1, 1, 1, 8, 4, 8]
    assert limit.changes_after(NOON) == NOON + 6 * HOUR
    assert limit.changes_after(NOON + 6 * HOUR) == NOON + 10 * HOUR
    assert Limit(3).changes_after(NOON) is None


def test_what_is_declared_is_what_a_worker_gets() -> None:
    """Gates, queues, tasks, the whole worker."""
    app = Standfast("memory://")
    disk = app.gate("disk", 2)
    app.gate("reports", 8, peak={DAY: 1})
    app.queue("mail", concurrency=3)
    app.peak({DAY: 2})
    adaptive = app.adaptive(latency=0.2)
    app.task(lambda: None, name="one", gate=disk, concurrency=1)
    app.task(lambda: None, name="two", gate=("disk", "reports", disk))
    app.task(lambda: None, name="free")
    limits = app.limits
    assert limits.gates == {"disk": Limit(2), "reports": Limit(8, ((DAY, 1),))}
    assert (limits.queues, limits.tasks) == ({"mail": Limit(3)}, {"one": Limit(1)})
    assert limits.gates_of == {"one": ("disk",), "two": ("disk", "reports")}
    assert limits.worker == Limit(None, ((DAY, 2),))
    assert limits.adaptive is adaptive
    assert limits.apart
    assert not Standfast("memory://").limits.apart


def test_windows_and_limits_of_one_queue() -> None:
    """Both may be declared together, but a queue is declared once."""
    app = Standfast("memory://")
    app.queue("mail", window=DAY, concurrency=3)
    assert [hours.name for hours in app.windows] == ["mail"]
    with pytest.raises(ConfigurationError, match="queue 'mail' is declared twice"):
        app.queue("mail", concurrency=2)


@pytest.mark.parametrize("number", [0, -1, 1.5, "2", True, float("nan")])
def test_numbers_that_are_none(number: object) -> None:
    """Whole numbers from 1 on, wherever one is given."""
    app = Standfast("memory://")
    for declare in (
        lambda: app.gate("disk", number),
        lambda: app.gate("disk", 2, peak={DAY: number}),
        lambda: app.queue("mail", concurrency=number),
        lambda: app.task(lambda: None, name="t", concurrency=number),
        lambda: app.peak({DAY: number}),
    ):
        with pytest.raises(ConfigurationError, match="must be a whole number, 1 or more"):
            declare()
    assert (app.limits.apart, dict(app.tasks)) == (False, {})


def test_bad_declarations_say_what_is_wrong() -> None:
    """Each in one sentence that names the thing and the remedy, and nothing is half declared."""
    app = Standfast("memory://")
    app.gate("disk", 2)

    def refused(said: str, *arguments: object, by: object, **options: object) -> None:
        with pytest.raises(ConfigurationError, match=said):
            by(*arguments, **options)

    refused("gate 'disk' is declared twice", "disk", 3, by=app.gate)
    refused("a gate's name must be", "a disk", 3, by=app.gate)
    refused("no gate 'dusk' .did you mean disk", lambda: None, name="t", gate="dusk", by=app.task)
    refused("no gate 3 ", lambda: None, name="t", gate=3, by=app.task)
    refused("peak must map windows to numbers", "net", 2, peak=DAY, by=app.gate)
    refused("peak must map windows to numbers", "net", 2, peak={}, by=app.gate)
    refused("is more than 2, the limit at other times", "net", 2, peak={DAY: 3}, by=app.gate)
    overlapping = {DAY: 1, Window("17:00", "19:00", tz="Asia/Taipei"): 2}
    refused("overlap at ", "net", 2, peak=overlapping, by=app.gate)
    refused("app.queue.'mail'. says nothing", "mail", by=app.queue)
    refused("app.gate has no option 'limits'; did you mean limit", "net", limits=3, by=app.gate)
    app.peak({DAY: 2})
    refused("app.peak is called twice", {NIGHT: 2}, by=app.peak)
    app.adaptive()
    refused("app.adaptive is called twice", by=app.adaptive)
    assert (list(app.limits.gates), dict(app.tasks)) == (["disk"], {})


def test_peaks_that_touch_do_not_overlap() -> None:
    """One may end when the other begins; on other days they are apart."""
    declare_limit("x", 9, {Window("09:00", "12:00"): 1, Window("12:00", "18:00"): 2})
    declare_limit("x", 9, {Window("09:00", "18:00", days="mon"): 1, Window("09:00", "18:00", days="tue"): 2})
    with pytest.raises(ConfigurationError, match="2024-02-29"):
        declare_limit("x", 9, {Window("09:00", "18:00", dates="02-29"): 1, Window("17:00", "18:30", days="thu"): 2})
