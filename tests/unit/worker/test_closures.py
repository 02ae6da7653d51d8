"""Which claims find their queue or task closed, and what becomes of them, on a clock in the test's hands."""

from datetime import UTC, datetime, timedelta

import pytest

from standfast.model.job import Claim, ClaimRef, Ending, OnLate
from standfast.model.states import Move, Reason
from standfast.schedules.closed_hours import About, ClosedHours, declare_hours
from standfast.schedules.windows import Window
from standfast.testing.clock import FakeClock
from standfast.worker.windows import GUARD, Closures

BEGIN = datetime(2026, 6, 21, 3, tzinfo=UTC)
END = BEGIN + timedelta(minutes=15)
NIGHT = Window("03:00", "03:15", notice=60)
MAIL = declare_hours(About.QUEUE, "mail", NIGHT)
TIDY = declare_hours(About.TASK, "tidy", NIGHT)
REF = ClaimRef("job", 1)
SECOND = timedelta(seconds=1)


def closures_at(now: datetime, *hours: ClosedHours) -> tuple[Closures, FakeClock]:
    clock = FakeClock(now)
    return Closures(hours, clock), clock


def claim(task: str = "tidy", queue: str = "mail", run_at: datetime = BEGIN, **late: object) -> Claim:
    return Claim(REF, task, 1, b"", queue, 0, run_at, 0, 0, 5, **late)  # type: ignore[arg-type]


def test_without_windows_nothing_is_closed() -> None:
    """Nobody pays for what was not declared."""
    closures, _ = closures_at(BEGIN)
    assert closures.closed_queues() == ()
    assert closures.refusal(claim()) is closures.closed_for(claim()) is None
    assert not closures.all_closed(("mail",))


def test_a_queue_is_closed_from_just_before_its_window_until_its_end() -> None:
    """A start takes its time: none may begin right before a window and come to pass inside."""
    closures, clock = closures_at(
        BEGIN - GUARD - SECOND / 1000, MAIL, declare_hours(About.QUEUE, "other", Window("12:00", "13:00"))
    )
    assert closures.closed_queues() == ()
    clock.advance(0.001)
    assert closures.closed_queues() == ("mail",)
    clock.advance((END - clock.now()).total_seconds() - 0.001)
    assert closures.closed_queues() == ("mail",)
    clock.advance(0.001)
    assert closures.closed_queues() == ()


@pytest.mark.parametrize(
    ("queues", "all_closed"), [(None, False), (("mail",), True), (("mail", "other"), False), (("other",), False)]
)
def test_who_serves_closed_queues_only_has_nothing_to_ask_for(
    queues: tuple[str, ...] | None, *, all_closed: bool
) -> None:
    """Who serves every queue may always find an open one."""
    closures, _ = closures_at(BEGIN, MAIL)
    assert closures.all_closed(queues) is all_closed


def test_a_claim_of_a_closed_queue_goes_back_as_it_is() -> None:
    """The queue gives nothing while it is closed, so it does not come again."""
    closures, clock = closures_at(BEGIN, MAIL)
    assert closures.refusal(claim()) == Ending(REF, Move.RELEASE)
    assert closures.refusal(claim(queue="other")) is None
    clock.advance(900)
    assert closures.refusal(claim()) is None


def test_a_claim_of_a_closed_task_is_put_off_until_it_opens() -> None:
    """The store does not know that the task is closed, and would give it again."""
    closures, clock = closures_at(BEGIN, TIDY)
    assert closures.refusal(claim()) == Ending(REF, Move.SNOOZE, delay=timedelta(minutes=15))
    clock.advance(899)
    assert closures.refusal(claim()) == Ending(REF, Move.SNOOZE, delay=SECOND)
    clock.advance(1)
    assert closures.refusal(claim()) is None


def test_of_a_claim_whose_queue_and_task_are_closed_the_queue_decides() -> None:
    """What goes back keeps its place."""
    closures, _ = closures_at(BEGIN, MAIL, TIDY)
    assert closures.refusal(claim()) == Ending(REF, Move.RELEASE)


@pytest.mark.parametrize(
    ("start_by", "on_late", "expires"),
    [
        (BEGIN + 10 * SECOND, OnLate.EXPIRE, True),
        (BEGIN + 10 * SECOND, OnLate.RUN, False),
        (END, OnLate.EXPIRE, False),
        (None, OnLate.EXPIRE, False),
    ],
)
def test_a_job_that_would_be_too_late_after_the_window_expires(
    start_by: datetime | None, on_late: OnLate, *, expires: bool
) -> None:
    """Put off it would count as one that was meant to start later, which a window does not mean."""
    closures, _ = closures_at(BEGIN, TIDY)
    ending = closures.refusal(claim(start_by=start_by, on_late=on_late))
    assert ending is not None
    assert (ending.move, ending.reason) == ((Move.CANCEL, Reason.EXPIRED) if expires else (Move.SNOOZE, None))


def test_the_longer_of_two_closings_counts() -> None:
    """A job starts when both its queue and its task are open."""
    longer = declare_hours(About.QUEUE, "mail", Window("03:00", "03:30"))
    closures, _ = closures_at(BEGIN, longer, TIDY)
    assert closures.closed_for(claim()) == timedelta(minutes=30)


def test_a_clock_that_is_set_back_is_believed() -> None:
    """What was found for a later time is found anew."""
    closures, clock = closures_at(END, MAIL)
    assert closures.closed_queues() == ()
    clock.step_wall(-60)
    assert closures.closed_queues() == ("mail",)
    clock.step_wall(-3600)
    assert closures.closed_queues() == ()


def test_it_follows_the_clocks_of_a_zone() -> None:
    """Half an hour that New York has twice in autumn is closed from its first start to its second end."""
    hours = declare_hours(About.QUEUE, "mail", Window("01:30", "02:00", tz="America/New_York"))
    closures, clock = closures_at(datetime(2026, 11, 1, 5, 29, tzinfo=UTC), hours)
    closed = []
    for _ in range(100):
        closed.append(bool(closures.closed_queues()))
        clock.advance(60)
    assert (closed.index(True), closed.count(True)) == (1, 90)
