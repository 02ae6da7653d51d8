"""What a handler returns or raises decides what becomes of its job, and its history says all of it."""

import asyncio
from datetime import UTC, datetime

import pytest
from shopfloor import Shop, eventually

from standfast import JobCancelledError, JobDeadError, ResultTimeoutError

WAYS = ["say", "say_by_hand", "throw", "throw_by_hand"]


def test_outcomes_said_by_the_handler(tmp_path):
    """Success, retry, snooze, discard, cancel and fail mean the same returned and raised, async and in threads."""
    with Shop(tmp_path) as shop:
        told = {
            (way, how): getattr(shop.tasks, way).enqueue(how=how)
            for way in WAYS
            for how in ("success", "retry", "snooze", "discard", "cancel", "fail")
        }
        shop.drain()
        for way in WAYS:
            assert told[way, "success"].result(timeout=0) == {"fence": 1}
            assert told[way, "retry"].result(timeout=0) == {"fence": 2}
            assert told[way, "snooze"].result(timeout=0) == {"fence": 2}
            jobs = {
                how: told[way, how].job() for how in ("success", "retry", "snooze", "discard", "cancel", "fail")
            }
            assert {how: (job.state, job.attempt, job.reason) for how, job in jobs.items()} == {
                "success": ("completed", 0, None),
                "retry": ("completed", 1, None),
                "snooze": ("completed", 0, None),
                "discard": ("cancelled", 0, "discarded"),
                "cancel": ("cancelled", 0, "the customer left"),
                "fail": ("dead", 1, None),
            }
            assert [each.how for each in shop.history(told[way, "retry"])] == ["retry", "complete"]
            assert [each.how for each in shop.history(told[way, "snooze"])] == ["snooze", "complete"]
            assert "the till is locked" in shop.history(told[way, "retry"])[0].error
            assert jobs["fail"].error == "Fail: no such order"
            with pytest.raises(JobDeadError, match="no such order"):
                told[way, "fail"].result(timeout=0)
            with pytest.raises(JobCancelledError, match="the customer left"):
                asyncio.run(told[way, "cancel"].aresult(timeout=0))


def test_outcomes_of_exceptions(tmp_path):
    """`retry_on` is retried until no attempt is left, `discard_on` ends as discarded, any other error is dead."""
    with Shop(tmp_path) as shop:
        handles = {error: shop.tasks.sort_out.enqueue(error=error) for error in ("retried", "discarded", "other")}
        shop.drain()
        jobs = {error: handle.job() for error, handle in handles.items()}
        assert {error: (job.state, job.attempt, job.reason) for error, job in jobs.items()} == {
            "retried": ("dead", 3, None),
            "discarded": ("cancelled", 0, "discarded"),
            "other": ("dead", 1, None),
        }
        assert jobs["retried"].error == "ConnectionResetError: the printer"
        assert "KeyError" in jobs["discarded"].error
        assert [line["attempt"] for line in shop.ledger(handles["retried"])] == [1, 2, 3]


@pytest.mark.parametrize("task", ["dawdle", "dawdle_by_hand"])
def test_outcomes_of_timeouts(tmp_path, task):
    """A handler that outlives its timeout is stopped, charged and tried again, coroutine or thread."""
    with Shop(tmp_path) as shop:
        handle = getattr(shop.tasks, task).enqueue()
        shop.drain()
        job = handle.job()
        assert (job.state, job.attempt) == ("dead", 2)
        assert job.error == "TimeoutError: ran longer than its timeout of 0.3 s"
        for attempt in shop.history(handle):
            assert 0.3 <= (attempt.ended_at - attempt.started_at).total_seconds() < 20


def test_outcomes_history_is_complete(tmp_path):
    """Every claim is in the history with its fence, worker, times, error and traceback; `jobs show` shows it."""
    with Shop(tmp_path) as shop:
        before = datetime.now(UTC)
        handle = shop.tasks.sort_out.enqueue(error="retried")
        shop.drain()
        history = shop.history(handle)
        assert [(each.fence, each.how) for each in history] == [(1, "retry"), (2, "retry"), (3, "die")]
        assert len({each.worker for each in history}) == 1
        last = before
        for each in history:
            assert last <= each.started_at <= each.ended_at
            last = each.ended_at
            assert each.error == "ConnectionResetError: the printer"
            assert "in sort_out" in each.traceback
            assert each.traceback.startswith("Traceback (most recent call last)")
        shown = shop.asked("jobs", "show", handle.id)
        assert [each["fence"] for each in shown["attempts"]] == [1, 2, 3]
        assert "in sort_out" in shop.standfast("jobs", "show", handle.id).stdout
        assert "all 3 attempts failed" in shown["why"]["text"]
        assert shop.standfast("dead", "retry", handle.id).returncode == 0
        shop.drain()
        assert [each.fence for each in shop.history(handle)] == [1, 2, 3, 4, 5, 6]


def test_outcomes_results_and_progress(tmp_path):
    """A waiting caller gets the result, sync and async, and anyone may see how far a running job is."""
    with Shop(tmp_path) as shop:
        handle = shop.tasks.count_to.enqueue(total=10)
        with pytest.raises(ResultTimeoutError, match="still ready"):
            handle.result(timeout=0.05)
        shop.worker()
        eventually(lambda: (job := handle.job()).progress and job.progress.done == 5, "half-way")
        shop.become(handle, "running")  # the mark of a start comes a moment after it
        shown = shop.asked("jobs", "show", handle.id)
        assert (shown["state"], shown["progress"]) == (
            "running",
            {"done": 5, "total": 10, "note": None, "share": 0.5},
        )
        assert "5 of 10 (50%)" in shop.standfast("jobs", "show", handle.id).stdout
        shop.put("go")
        assert handle.result(timeout=30) == 10
        assert asyncio.run(handle.aresult(timeout=30)) == 10
        many = shop.tasks.pack.enqueue_many({"order": number} for number in range(2500))
        assert len({each.id for each in many}) == 2500
        assert [each.result(timeout=60) for each in many[::250]] == list(range(0, 2500, 250))
