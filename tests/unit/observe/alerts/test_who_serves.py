"""Which queues are served: found at once, and as each worker by itself would say."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from standfast.model.alerts import AlertRule, Check
from standfast.observe.alerts.checks import QUEUES_NAMED, worker_silent
from standfast.observe.alerts.observations import Observations, QueueCoverage
from standfast.stores.values import Worker, WorkerInfo

NOW = datetime(2026, 1, 1, tzinfo=UTC)
LEASE = timedelta(seconds=15)
RULE = AlertRule(name="silent", check=Check.WORKER_SILENT, above=20.0)


def worker(name: str, queues: tuple[str, ...] | None, silent: float = 0.0) -> Worker:
    age = timedelta(seconds=silent)
    return Worker(
        WorkerInfo(name, "s", "host", 1, LEASE, queues), NOW - age, age, condemned=False, held=0, running=0
    )


@given(st.lists(st.none() | st.lists(st.sampled_from("abcd")).map(tuple)))
def test_it_says_what_the_workers_say(served: list[tuple[str, ...] | None]) -> None:
    workers = [worker(str(n), queues) for n, queues in enumerate(served)]
    serving = QueueCoverage(workers)
    assert [queue in serving for queue in "abcde"] == [
        any(each.serves(queue) for each in workers) for queue in "abcde"
    ]


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (1, "serves queue q0"),
        (QUEUES_NAMED, f", q{QUEUES_NAMED - 1}"),
        (5_000, f"q9 and {5_000 - QUEUES_NAMED:,} others"),
    ],
)
def test_of_many_queues_that_nobody_serves_some_are_named(number: int, words: str) -> None:
    """What people are told fits on a screen."""
    silent = worker("w", tuple(f"q{n}" for n in range(number)), silent=60.0)
    looks = Observations(NOW, NOW - timedelta(hours=1), workers=(silent, worker("other", ("elsewhere",))))
    [breach] = worker_silent(RULE, looks, frozenset())
    assert breach.says.endswith(words)
