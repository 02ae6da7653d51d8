"""A handler can ask about its own attempt, and hears when it should end."""

import logging
import math
from datetime import UTC, datetime

import pytest
from msgspec.structs import replace

from standfast import ArgumentsError, Context, Interrupted, LostClaimError
from standfast.model.job import PLANNED_KEY, SCHEDULE_KEY, Claim, ClaimRef, Progress


class Control:
    def __init__(self, *, cancelled: bool = False, lost: bool = False, taken: bool = False) -> None:
        self.cancelled = cancelled
        self.lost = lost or taken
        self.taken = taken
        self.reports: list[Progress] = []
        self.asked: list[tuple[str, object]] = []

    def report(self, progress: Progress) -> None:
        self.reports.append(progress)

    def transaction(self, connection: object) -> str:
        self.asked.append(("transaction", connection))
        return "a transaction"

    def fault_point(self, name: str) -> None:
        self.asked.append(("fault point", name))


def claim(fence: int = 4, attempt: int = 2) -> Claim:
    return Claim(
        ref=ClaimRef("j1", fence),
        task="pay",
        version=1,
        payload=b"",
        queue="money",
        priority=0,
        run_at=datetime(2030, 1, 1, tzinfo=UTC),
        attempt=attempt,
        crashes=0,
        max_attempts=5,
        metadata={"customer": "7"},
    )


def test_a_context_knows_its_attempt():
    ctx = Context(claim(), Control())
    assert (ctx.job_id, ctx.task, ctx.queue, ctx.fence) == ("j1", "pay", "money", 4)
    assert (ctx.attempt, ctx.max_attempts) == (3, 5)


def test_a_retry_is_raised_and_no_method_of_the_context():
    with pytest.raises(AttributeError, match=r"write `raise standfast\.Retry\(delay=\.\.\.\)`"):
        Context(claim(), Control()).retry(countdown=3)


def test_a_context_knows_the_schedule_of_its_job():
    planned = datetime(2030, 1, 1, 2, tzinfo=UTC)
    note = {SCHEDULE_KEY: "nightly", PLANNED_KEY: planned.isoformat(), "customer": "7"}
    for attempt in (0, 1):
        ctx = Context(replace(claim(attempt=attempt), metadata=note), Control())
        assert (ctx.schedule, ctx.planned_at) == ("nightly", planned)
    plain = Context(claim(), Control())
    assert (plain.schedule, plain.planned_at) == (None, None)


@pytest.mark.parametrize("text", ["some day", "2030-01-01T02:00:00"])
def test_a_planned_time_that_no_schedule_wrote_is_none(text):
    assert Context(replace(claim(), metadata={PLANNED_KEY: text}), Control()).planned_at is None


def test_the_idempotency_key_is_the_same_in_every_attempt():
    first, second = (Context(claim(fence=n, attempt=n - 1), Control()) for n in (1, 2))
    assert first.idempotency_key == second.idempotency_key == "standfast-j1"


def test_progress_goes_to_the_worker():
    control = Control()
    ctx = Context(claim(), control)
    ctx.progress(3)
    ctx.progress(4, total=10)
    ctx.progress(5, note="the shoes")
    assert control.reports == [Progress(3, None), Progress(4, 10), Progress(5, None, "the shoes")]


def test_a_note_that_is_no_text_is_refused():
    control = Control()
    with pytest.raises(ArgumentsError, match="the note of a progress must be a text, not bytes"):
        Context(claim(), control).progress(1, note=b"the shoes")
    assert control.reports == []


@pytest.mark.parametrize(("done", "total"), [(-1, None), (math.nan, None), (1, math.inf), (1, -1)])
def test_progress_that_is_no_amount_is_refused(done, total):
    control = Control()
    with pytest.raises(ArgumentsError, match=r"progress (done|total) must be a finite number"):
        Context(claim(), control).progress(done, total)
    assert control.reports == []


def test_progress_of_a_lost_job_tells_the_handler():
    control = Control(taken=True)
    with pytest.raises(LostClaimError, match="job j1 was lost"):
        Context(claim(), control).progress(1)
    assert control.reports == []


def test_a_job_that_may_be_lost_goes_on():
    """Not to have heard of a beat for a lease says nothing sure: a handler that wants to know asks `lost`."""
    control = Control(lost=True)
    ctx = Context(claim(), control)
    assert ctx.lost
    ctx.progress(1)
    ctx.raise_if_cancelled()
    assert control.reports == [Progress(1.0)]


def test_a_handler_goes_on_until_it_is_told_to_end():
    control = Control()
    ctx = Context(claim(), control)
    ctx.raise_if_cancelled()
    control.cancelled = True
    assert ctx.cancelled
    with pytest.raises(Interrupted):
        ctx.raise_if_cancelled()


def test_a_lost_job_ends_its_handler_too():
    ctx = Context(claim(), Control(taken=True))
    assert ctx.lost
    with pytest.raises(Interrupted):
        ctx.raise_if_cancelled()


def test_a_handler_that_catches_exceptions_does_not_swallow_the_signal():
    assert not issubclass(Interrupted, Exception)


def test_log_records_carry_the_job_and_the_caller_s_own_fields(caplog):
    with caplog.at_level(logging.INFO, logger="standfast.job"):
        Context(claim(), Control()).log.info("paid %d", 7, extra={"order": 42})
    (record,) = caplog.records
    assert record.getMessage() == "paid 7"
    assert (record.job_id, record.task, record.queue, record.attempt) == ("j1", "pay", "money", 3)
    assert record.order == 42


def test_a_context_knows_what_was_noted_about_its_job():
    assert Context(claim(), Control()).metadata == {"customer": "7"}


def test_transactions_and_fault_points_are_the_worker_s():
    control, connection = Control(), object()
    ctx = Context(claim(), control)
    assert ctx.transaction(connection) == "a transaction"
    ctx.fault_point("charged")
    assert control.asked == [("transaction", connection), ("fault point", "charged")]
