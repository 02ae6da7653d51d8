"""A worker whose machine has a wrong clock starts jobs by the store's clock, neither early nor late."""

from datetime import timedelta

import pytest
from shopfloor import Shop

EARLY = 0.001
LATE = 4.0
"""Seconds: less than the clock is wrong by."""


@pytest.mark.parametrize("skew", [-6, 6])
@pytest.mark.parametrize("store", ["postgres", "redis"])
def test_a_worker_with_a_wrong_clock(tmp_path, request, monkeypatch, store, skew):
    """Jobs that are claimed ahead wait for their time as the store tells it; due ones start at once."""
    url = request.getfixturevalue(f"{store}_url")
    monkeypatch.setenv("HOLDFAST_URL", url)
    with Shop(tmp_path, "skewed_app.py") as shop:
        tasks = shop.tasks
        ahead = [tasks.when_started.options(delay=timedelta(seconds=delay)).enqueue() for delay in (3, 3.3, 3.6)]
        due = tasks.when_started.enqueue()
        shop.start(SKEW=str(skew), HOLDFAST_URL=url)
        for handle in (due, *ahead):
            started_at = handle.result(timeout=30)
            lateness = started_at - handle.job().run_at.timestamp()
            assert lateness >= -EARLY
            if handle is not due:  # that one waited for the worker's start
                assert lateness < LATE
